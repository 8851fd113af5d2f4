"""What has been spent as one frozen value, the limits on it, and its table and export."""

from collections.abc import Callable

in_notebook: Callable[[object], str]
"""Lent by the top of the package: what notebooks show is made above the ledger."""
