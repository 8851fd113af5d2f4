"""The SQL interface of a store: our statements beside DuckDB's, scripts, and sessions."""
