"""The ledger: what was spent, as a frozen value; limits on it; its table and export."""
