"""The facade: `create`, `Store`, `Series` and what chooses their parameters."""
