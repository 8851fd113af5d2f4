"""SQL in front of a store: statements of our own beside DuckDB's, scripts, sessions, and what a query may do."""
