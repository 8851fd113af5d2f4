"""What people look at: the report of a store, tables, plots."""
