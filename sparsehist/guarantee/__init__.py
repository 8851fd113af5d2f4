"""Check that every output row of a query depends on one unit only, and run it on its named sources only."""
