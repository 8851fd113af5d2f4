"""The Python interface: `create`, `Store`, `Series`, and the choice of max_keys."""
