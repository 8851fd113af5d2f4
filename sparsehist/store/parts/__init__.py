"""Counts in parts: a series whose rows a cluster wrote, in a directory or object store that the store refers to."""
