"""Parameters of a series that are chosen by looking at its log, privately and at a price that the ledger knows."""
