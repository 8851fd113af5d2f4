"""Strategies: factorizations A = L·R of workloads, with their sensitivities and variances."""
