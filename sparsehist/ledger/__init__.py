"""The ledger: costs as a frozen value, their limits, and their table."""
