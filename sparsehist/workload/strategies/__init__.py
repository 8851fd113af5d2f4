"""Strategies: factorizations A = L·R, each with its sensitivity and variances."""
