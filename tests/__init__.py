"""Tests of the package, in folders that mirror the folders of the package."""
