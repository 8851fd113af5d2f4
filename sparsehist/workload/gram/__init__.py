"""Gram matrices RᵀR, most of them never written out, and what the cells of one unit add up to under them."""
