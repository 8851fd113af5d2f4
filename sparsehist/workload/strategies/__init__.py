"""Strategies: factorizations A = L·R with sensitivity and variances."""
