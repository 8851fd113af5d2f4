"""The ledger: costs as a frozen value, the limits on them, and the table of both."""
