"""Workloads: linear queries A·x on the counts x of a series, one module for each form of A."""
