"""Check that a query keeps units apart, and run it with access to its named sources only."""
