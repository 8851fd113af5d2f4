"""Check that each output row of a query depends on only one unit. Run the query with access to its sources only."""
