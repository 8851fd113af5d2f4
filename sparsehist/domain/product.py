"""Products of one-column domains: a cell for every combination."""

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
    """Every combination of the cells of several domains, one for each key column.

    Args:
        components: Domains by key column name, for names that are no Python identifiers.
        named: The same, as keyword arguments.

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
            raise DomainError(f"product() got column {twice[0]!r} twice; each key column has one domain")
        given |= named
        if not given:
            raise DomainError(f"product() has no columns; write {self.example}")
        for name, component in given.items():
            if not isinstance(name, str) or not name:
                raise DomainError(f"product() names its columns by non-empty text, got {shown(name)}")
            if not isinstance(component, Domain):
                raise DomainError(f"each column of product() needs a domain, got {type(component).__name__}")
            if isinstance(component, Product) or component.columns != 1:
                raise DomainError(f"column {name!r} of product() is itself a product; list its columns side by side")
            if component.is_open:
                raise DomainError(f"column {name!r} of product() is open: write open('string', 'date', delta=…)")
        self._fix(names=tuple(given), components=tuple(given.values()))
        self._require_writable_size()

    @classmethod
    def read(cls, values: Sequence[Any], named: Mapping[str, Any], files: Mapping[str, Path]) -> Product:  # noqa: ARG003
        if values:
            raise DomainError(f"product() names each of its columns; write {cls.example}")
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
