"""Tests of running series, whose logs are appended step by step."""
