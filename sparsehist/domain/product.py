"""The `Product` domain, for histograms with several key columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.catalogue import Catalogue
from sparsehist.errors import DomainError, as_mapping, shown
from sparsehist.text_form import Form, write_call
from sparsehist.typing import BoolArray, IntArray

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, init=False, repr=False)
class Product(Domain, example="product(country=catalogue('DE', 'US'), n=integers(9))"):
    """The product of several one-column domains: one cell for each combination of their cells.

    Args:
        components: Mapping from names of key columns to domains; needed if a name is not a Python identifier.
        named: Domains, passed as keyword arguments with the names of their key columns.

    Raises:
        DomainError: If there is no component, a name is given twice, a component is not a domain of one column, or
            there are more than 10**4000 cells.

    Example:
        >>> from sparsehist.domain import Dates
        >>> Product(country=Catalogue(["DE", "US"]), day=Dates("2014-05-01", "2014-05-12")).size
        24
    """

    arguments = (Form,)
    names: tuple[str, ...]
    components: tuple[Domain, ...]

    def __init__(self, components: Mapping[str, Domain] | None = None, /, **named: Domain) -> None:
        given = {} if components is None else as_mapping("components", components)
        twice = sorted(given.keys() & named.keys())
        if twice:
            raise DomainError(f"product() got two domains for the same column {twice[0]!r}")
        given |= named
        if not given:
            raise DomainError(f"product() needs at least one column; write {self.example}")
        for name, component in given.items():
            if not isinstance(name, str) or not name:
                raise DomainError(f"column names of product() must be non-empty text, got {shown(name)}")
            if not isinstance(component, Domain):
                raise DomainError(f"each column of product() must have a domain, got {type(component).__name__}")
            if isinstance(component, Product) or component.columns != 1:
                raise DomainError(f"products cannot be nested: list the columns of {name!r} side by side")
            if component.is_open:
                raise DomainError(f"write open('string', 'date', delta=…), not product(), because {name!r} is open")
        self._fix(names=tuple(given), components=tuple(given.values()))
        self._require_writable_size()

    @classmethod
    def read(cls, values: Sequence[Any], named: Mapping[str, Any], files: Mapping[str, Path]) -> Product:  # noqa: ARG003
        if values:
            raise DomainError(f"product() needs a name for each column; write {cls.example}")
        return cls(named)

    @property
    def size(self) -> int:
        return math.prod(component.size for component in self.components)

    @property
    def parts(self) -> tuple[Domain, ...]:
        return self.components

    @property
    def columns(self) -> int:
        return len(self.components)

    @property
    def dtype_names(self) -> tuple[str, ...]:
        return tuple(component.dtype_names[0] for component in self.components)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        return 0 <= column < self.columns and self.components[column].accepts(0, dtype)

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        inside = [component.contains(part) for component, part in self._parts(keys)]
        return np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)

    def convert(self, keys: pl.DataFrame) -> pl.DataFrame:
        return _joined([component.convert(part) for component, part in self._parts(keys)])

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        return _joined([component.draw(n, rng=rng) for component in self.components])

    def _index(self, keys: pl.DataFrame) -> IntArray:
        number = np.zeros(keys.height, dtype=np.int64)
        for component, part in self._parts(keys):
            number = number * component.size + component.index(part)
        return number

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        parts: list[pl.DataFrame] = []
        rest = indices
        for component in reversed(self.components):
            rest, digit = np.divmod(rest, component.size)
            parts.append(component.keys(digit))
        return _joined(parts[::-1])

    def describe(self) -> str:
        pairs = zip(self.names, self.components, strict=True)
        return f"product({', '.join(f'{name}={component.describe()}' for name, component in pairs)})"

    def attachments(self) -> Mapping[str, Catalogue]:
        return {digest: found for part in self.components for digest, found in part.attachments().items()}

    def __str__(self) -> str:
        return write_call("product", [], dict(zip(self.names, map(str, self.components), strict=True)))

    def _parts(self, keys: pl.DataFrame) -> list[tuple[Domain, pl.DataFrame]]:
        import polars as pl

        parts = [keys.select(pl.col(name).alias("key_0")) for name in key_names(self.columns)]
        return list(zip(self.components, parts, strict=True))


def _joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame([part["key_0"].alias(name) for name, part in zip(key_names(len(parts)), parts, strict=True)])
