"""Workloads: linear queries A·x on the counts x of a series. The modules of this package define the matrices A."""
