"""The inputs and results of counting, which are the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from sparsehist.declaration.measures import Measure
from sparsehist.domain.base import Domain
from sparsehist.errors import DeclarationError, shown, without_credentials
from sparsehist.typing import IndexArray, NDArray

if TYPE_CHECKING:
    import numpy as np

    from sparsehist.guarantee.closed import Closed

Choice = Literal["error", "drop"]
SALT_BYTES = 16
SUMS = "sums of amounts, such as revenue, are measures of the log itself"


@dataclass(frozen=True)
class Query:
    """A log that is the result of a SQL query. It runs in a new DuckDB, which can read only the named sources.

    Attributes:
        sql: One SELECT statement, as docs/sql.md describes.
        tables: Frames, Arrow tables, relations, paths or `Files` by name. The query itself may also name files.
        public: Tables without data of any unit, by name. A file in the query is public if its path is given here.
        parameters: Values of the parameters that the query names as $name.
        unverified: Do not check that the query keeps units apart; ledger, metadata and report show this.

    Example:
        >>> Query("select user_id, query from read_parquet('log/*.parquet')").sql[:6]
        'select'
    """

    sql: str
    tables: Mapping[str, object] = field(default_factory=dict, repr=False)
    public: Mapping[str, object] = field(default_factory=dict, repr=False)
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)
    unverified: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str):
            raise DeclarationError(f"sh.Query takes one SELECT statement as text, got {shown(self.sql)}")

    def __repr__(self) -> str:
        return f"Query({without_credentials(self.sql)!r})"


@dataclass(frozen=True, repr=False)
class ClosedQuery(Query):
    """A query whose sources, files and column types were fixed when it was checked."""

    world: Closed | None = None

    @property
    def is_checked(self) -> bool:
        """Whether the check covers all that the query reads. It does not cover tables and views of a session."""
        world = self.world
        return world is not None and world.verified and all(one.checked for one in world.sources.values())


@dataclass(frozen=True)
class Files:
    """Files of a log, and how to read them.

    Attributes:
        paths: Path, pattern or URL (s3, gs, az, https), or a list of them.
        delimiter: Separator of the fields of CSV files, one character; if None, a comma, or a tab in .tsv files.
        hive: Columns with values in folder names, such as `day=2024-01-31/part.parquet`; their type is text.
        storage_options: Credentials for URLs, as Polars takes them: {"aws_access_key_id": …}. They are not stored;
            missing ones are taken from the environment.
        types: Types that key columns are cast to: {"time": "date"} counts days of timestamps; "integer" and "text"
            cast whole numbers, booleans, decimals and text.

    Example:
        >>> Files("log/day=*/*.parquet", hive=["day"]).hive
        ['day']
    """

    paths: str | Path | Sequence[str | Path] = field(repr=False)  # hidden, because a signed URL gives access
    delimiter: str | None = None
    hive: Sequence[str] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter.encode()) != 1):
            raise DeclarationError(f"delimiter must be one ASCII character, not {shown(self.delimiter)}")
        if isinstance(self.hive, str) or not all(isinstance(name, str) and name for name in self.hive):
            raise DeclarationError(f"hive must be a list of column names, not {shown(self.hive)}")


@dataclass(frozen=True)
class Counts:
    """Counts from another system, in which each unit added 1 to the counts of at most `max_keys` keys.

    Attributes:
        frame: A frame or another table, with key columns and a count column.
        count: Name of the count column. Counts are whole numbers of at least 0; rows with 0 are left out.
        counted_by: The `CountingSql` that produced the counts; `create` refuses a different key or bound.
        largest: The most that one unit adds to the count of a key. Required; must be 1.

    Example:
        >>> Counts(pl.DataFrame({"query": ["a"], "units": [3]}), count="units", largest=1).count
        'units'
    """

    frame: Any = field(repr=False)
    count: str = "count"
    counted_by: Any = field(default=None, repr=False)
    largest: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.largest, bool) or self.largest != 1:
            raise DeclarationError(
                "Counts needs largest=1, which states that one unit adds at most 1 to the count of a key; got "
                f"largest={shown(self.largest)}: {SUMS}",
                parameter="largest",
            )


@dataclass(frozen=True, repr=False)
class UnitPairs:
    """Distinct pairs of a unit and a key, grouped by unit. Secret.

    Attributes:
        units: The distinct units.
        sizes: Number of pairs of each unit, at least one; shape (units,).
        codes: Index in `keys` of the key of each pair; shape (pairs,).
        keys: Distinct keys, with columns key_0, …; some keys may be in no pair.
    """

    units: pl.Series
    sizes: IndexArray
    codes: NDArray[np.uint32]
    keys: pl.DataFrame

    def frame(self) -> pl.DataFrame:
        """Return one row per pair, with columns unit, key_0, …."""
        import numpy as np  # not at the top, because declarations import this module and need no numpy

        units = self.units.gather(np.repeat(np.arange(self.sizes.size), self.sizes))
        return self.keys[self.codes].insert_column(0, units.alias("unit"))


@dataclass(frozen=True)
class CountedKeys:
    """All keys of the log that are in the domain, with their numbers of units. Secret.

    Attributes:
        counts: One row per key, in arbitrary order: column count (Int64; 0 if all units with the key keep other
            keys), and sum_0, … (Int64, in steps) for each measure.
        keys: Function that returns the keys of some rows: columns key_0, … in the canonical dtypes of the domain.
        engine: Name and version of the engine, such as "polars 2.1.0". A unit with too many keys keeps the same keys
            only with the same salt and engine.
    """

    counts: pl.DataFrame = field(repr=False)
    keys: Callable[[IndexArray | slice], pl.DataFrame] = field(repr=False)
    engine: str

    @classmethod
    def of(cls, frame: pl.DataFrame, engine: str) -> CountedKeys:
        """Return the counted keys of a frame with columns key_0, …, count and sum_0, …."""
        keys = [name for name in frame.columns if name.startswith("key_")]
        return cls(frame.drop(keys), frame[keys].__getitem__, engine)

    def rows(self, positions: IndexArray | slice) -> pl.DataFrame:
        """Return some keys with their counts: columns key_0, …, count and sum_0, …."""
        return self.keys(positions).hstack(self.counts[positions])

    @property
    def frame(self) -> pl.DataFrame:
        """All keys with their counts."""
        return self.rows(slice(None))


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """The parameters of a count, already checked by a `Declaration`.

    Attributes:
        unit: Columns of the log that identify the unit; empty for `Counts`.
        salt: 16 secret random bytes that determine which keys a unit keeps.
        temporary_directory: Where to create a private directory for rows that do not fit in memory.
        weights: Pairs (weight, most keys) by decreasing weight; the first weight is a full count. A unit with at most
            that many keys adds the weight to each of them; units with more keys than the last pair allows are cut.
        threads: Threads that count; as many as there are cores if None. Polars reads and sorts with all.
        progress: Function called with the name of each phase when it begins.
        portable: Choose the kept keys by the portable order (`counting/tuples.py`).
        without_key: Whether the log has no key column; then every unit has the only key of a domain of one cell.
    """

    unit: tuple[str, ...]
    key: tuple[str, ...]
    domain: Domain
    salt: bytes = field(repr=False)
    temporary_directory: Path
    weights: Sequence[tuple[int, int]]
    on_null: Choice = "error"
    on_outside: Choice = "error"
    memory_limit: str | int | None = None
    threads: int | None = None
    progress: Callable[[str], None] | None = field(default=None, repr=False)
    key_types: Mapping[str, str] = field(default_factory=dict)
    portable: bool = False
    without_key: bool = False
    measures: Sequence[Measure] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """Columns of the log that contain units or keys, without duplicates."""
        return tuple(dict.fromkeys((*self.unit, *self.key)))

    @property
    def most_keys(self) -> int:
        """Largest number of keys that a unit may count towards."""
        return self.weights[-1][1]

    @property
    def full(self) -> int:
        """Weight of a full count, which a unit with few keys adds to each of its keys."""
        return self.weights[0][0]

    def report(self, phase: str) -> None:
        """Report that a phase begins."""
        if self.progress is not None:
            self.progress(phase)


def names_of(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a name, a sequence of names or None as a tuple of names."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def request_of(
    *, unit: str | Sequence[str] | None, key: str | Sequence[str], max_keys: int = 1, **declared: Any
) -> CountRequest:
    """Return a `CountRequest`. By default, a unit adds 1 to the counts of at most `max_keys` keys."""
    declared["weights"] = declared.get("weights") or [(1, max_keys)]
    return CountRequest(unit=names_of(unit), key=names_of(key), **declared)
