"""Domains: declarations of all keys that a histogram can count."""

from sparsehist.domain.base import Domain
from sparsehist.domain.catalogue import Catalogue, one_cell
from sparsehist.domain.free_cells import draw_free
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.open import Open
from sparsehist.domain.product import Product
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.domain.strings import Strings

__all__ = [
    "Catalogue",
    "Dates",
    "Domain",
    "Hash64",
    "Integers",
    "Open",
    "Product",
    "Strings",
    "draw_free",
    "one_cell",
]
