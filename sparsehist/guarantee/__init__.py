"""Check that every output row of a query depends on one privacy unit, and run the query on its named sources only."""
