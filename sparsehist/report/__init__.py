"""The report of a store: its tables and charts."""
