"""Between the keys of a series and the numbered cells of a workload, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sparsehist.domain import Domain, Product
from sparsehist.domain.ranges import read_date
from sparsehist.errors import DeclarationError, DomainError, NotFoundError
from sparsehist.store import SeriesFiles
from sparsehist.typing import IntArray
from sparsehist.workload import Cells
from sparsehist.workload.queries.linear_queries import KeyNumbers

_NUMBERED = 2**63
"""A column of so many values, such as text, has no numbers for them."""

_ALL_VALUES = -1
"""Stands in a query for a key column it sums over."""


def key_domains(domain: Domain) -> tuple[Domain, ...]:
    """The domain of each key column."""
    return domain.components if isinstance(domain, Product) else (domain,)


def column_sizes(domain: Domain) -> tuple[int, ...]:
    """Number of values of each key column."""
    return tuple(column.size for column in key_domains(domain))


def numbers_of(domain: Domain, name: str) -> KeyNumbers:
    """What numbers the keys of a column, as a caller writes them: integers, text, or dates as text."""

    def numbers(keys: Sequence[Any]) -> IntArray:
        if domain.size >= _NUMBERED:
            raise DeclarationError(f"{domain.describe()} has too many keys for ranges of {name}")
        dtype = domain.dtypes[0]
        try:
            read = [read_date(key) for key in keys] if dtype == pl.Date else keys
            given = pl.DataFrame({"key_0": pl.Series(read, dtype=dtype, strict=True)})
        except (TypeError, OverflowError, pl.exceptions.PolarsError, DomainError):
            kind = "dates such as '2024-01-31'" if dtype == pl.Date else str(dtype)
            raise DeclarationError(f"the keys of {name} are {kind}") from None
        inside = domain.contains(given)
        if not inside.all():
            raise DeclarationError(f"{keys[int(np.argmin(inside))]!r} is no key of {name}: {domain.describe()}")
        return domain.index(given)

    return numbers


def cells_of(files: SeriesFiles, domain: Domain) -> Cells:
    """The bounded counts of a series by cell number. Secret; reads the whole counts file."""
    counted = files.all_counted()
    columns = key_domains(domain)
    coordinates = tuple(
        _numbers(column, counted.select(pl.col(f"key_{i}").alias("key_0"))) for i, column in enumerate(columns)
    )
    return Cells(column_sizes(domain), coordinates, counted["count"].to_numpy().astype(np.int64, copy=False))


def _numbers(column: Domain, keys: pl.DataFrame) -> IntArray:
    # Queries are at most 2**31, so none tells the values of such a column apart: they are summed over.
    return np.zeros(keys.height, np.int64) if column.size >= _NUMBERED else column.index(keys)


def queries_frame(queries: Mapping[str, IntArray], domain: Domain, names: Sequence[str]) -> pl.DataFrame:
    """Say what each row of answers is about, in keys instead of numbers.

    That is low and high; or the key columns, null where the query sums over one, name_low and name_high where it asks
    for ranges of one; or the number of the query.
    """
    columns = key_domains(domain)
    if set(queries) == {"low", "high"}:
        if len(columns) != 1:
            raise DeclarationError(f"a range needs a domain of one column, got {len(columns)}")
        return pl.DataFrame({end: columns[0].keys(queries[end])["key_0"] for end in ("low", "high")})
    known: dict[str, tuple[str, Domain]] = {}
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        known |= {f"column_{i}": (name, column)}
        known |= {f"{end}_{i}": (f"{name}_{end}", column) for end in ("low", "high")}
    if set(queries) <= set(known) and len({known[kind][0] for kind in queries}) == len(queries):
        return pl.DataFrame([_values(numbers, known[kind][1], known[kind][0]) for kind, numbers in queries.items()])
    return pl.DataFrame(dict(queries))


def _values(numbers: IntArray, domain: Domain, name: str) -> pl.Series:
    given = numbers != _ALL_VALUES
    if not given.any():
        return pl.Series(name, [None] * len(numbers), dtype=domain.dtypes[0])
    values = domain.keys(np.where(given, numbers, 0))["key_0"].alias(name)
    return pl.select(pl.when(pl.Series(given)).then(values).alias(name)).to_series()


def as_keys(asked: Any, dtype: pl.DataType) -> pl.Series:
    """Keys as a caller writes them; dates may be text."""
    try:
        if dtype == pl.Date and pl.Series(asked).dtype == pl.String:
            return pl.Series(asked).str.to_date("%Y-%m-%d")
        return pl.Series(asked, dtype=dtype)
    except (TypeError, pl.exceptions.PolarsError, OverflowError):
        example = " such as '2026-01-31'" if dtype == pl.Date else ""
        raise NotFoundError(f"the keys of this release are of type {dtype}{example}; got {asked!r}") from None


def positions(keys: pl.Series, asked: Any) -> IntArray:
    """Where keys stand in the order of the domain."""
    wanted = as_keys(asked, keys.dtype)
    numbered = pl.DataFrame({"key": keys}).with_row_index("position")
    found = pl.DataFrame({"key": wanted}).join(numbered, on="key", how="left", maintain_order="left")["position"]
    if found.null_count():
        missing = wanted.filter(found.is_null())[0]
        raise NotFoundError(f"{missing!r} is no key of the domain {keys.name!r} was declared with")
    return found.to_numpy().astype(np.int64)
