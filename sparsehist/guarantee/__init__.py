"""Whether a query keeps units apart: each unit's rows depend on its own rows and on public tables alone."""
