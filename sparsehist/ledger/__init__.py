"""The ledger of a store: the costs of its series, the limits on these costs, and tables of both."""
