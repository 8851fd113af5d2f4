"""Check that a query keeps units apart, and run it in a closed world: its named sources and nothing else."""
