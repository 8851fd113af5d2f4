"""What counting in the memory of one machine is made of: rows in batches, exact codes of values, orders of keys."""
