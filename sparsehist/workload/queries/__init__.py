"""Workloads: linear queries A·x on the counts x of a series. Each module provides one kind of matrix A."""
