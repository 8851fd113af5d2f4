"""A log in periods: a series for each of them, with one budget for all."""
