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
SUMS = "to publish sums of amounts, such as revenue, declare measures"


@dataclass(frozen=True)
class Query:
    """A SQL query whose result is the log. It runs in a new DuckDB session and reads only the sources that it names.

    Attributes:
        sql: One SELECT statement, as docs/sql.md describes.
        tables: Dict from name to frame, Arrow table, relation, path or `Files`. The query itself may also name files.
        public: Dict from name to a table without data of any unit. A file is public if its path is a key of the dict.
        parameters: Dict from the name of each parameter to its value. In the SQL, a parameter is written as $name.
        unverified: Whether to skip the check that the query does not mix units. Ledger, metadata and report say so.

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
            raise DeclarationError(f"sh.Query takes one SELECT statement as a string, got {shown(self.sql)}")

    def __repr__(self) -> str:
        return f"Query({without_credentials(self.sql)!r})"


@dataclass(frozen=True, repr=False)
class ClosedQuery(Query):
    """A query bound to its sources, files and column types, as they were when `checked_query` was called."""

    world: Closed | None = None

    @property
    def is_checked(self) -> bool:
        """Whether the query was checked and reads no private tables of a DuckDB session, whose origin is unknown."""
        world = self.world
        return world is not None and world.verified and all(one.checked for one in world.sources.values())


@dataclass(frozen=True)
class Files:
    """The files of a log, with the options for reading them.

    Attributes:
        paths: A path, pattern or URL (s3, gs, az, https), or a list of paths, patterns and URLs.
        delimiter: Character that separates the fields of CSV files; by default a comma, or a tab in .tsv files.
        hive: Columns whose values are in folder names, such as `day=2024-01-31/part.parquet`; they become strings.
        storage_options: Credentials for URLs, as in Polars: {"aws_access_key_id": …}. They are not stored. Missing
            credentials are taken from the environment.
        types: Dict from key column to the type it is cast to: "date" (from timestamps) or "integer" or "text" (from
            whole numbers, booleans, decimals and text). For example, {"time": "date"} counts days.

    Example:
        >>> Files("log/day=*/*.parquet", hive=["day"]).hive
        ['day']
    """

    paths: str | Path | Sequence[str | Path] = field(repr=False)  # hidden, because anyone can open a signed URL
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
    """Counts computed by another system. Each unit must have added 1 to the counts of at most `max_keys` keys.

    Attributes:
        frame: A frame or another table, with key columns and a count column.
        count: Name of the count column. Counts are non-negative integers; rows with count 0 are left out.
        counted_by: The `CountingSql` that made the counts. `create` refuses a series with a different key or
            `max_keys`.
        largest: Largest amount that one unit adds to the count of a key. Required; must be 1.

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
        codes: For each pair, the index of its key in `keys`; shape (pairs,).
        keys: Distinct keys, with columns key_0, …; some keys may be in no pair.
    """

    units: pl.Series
    sizes: IndexArray
    codes: NDArray[np.uint32]
    keys: pl.DataFrame

    def frame(self) -> pl.DataFrame:
        """Return one row per pair, with columns unit, key_0, …."""
        import numpy as np  # imported here to keep numpy out of `sparsehist.declaration`, which imports this module

        units = self.units.gather(np.repeat(np.arange(self.sizes.size), self.sizes))
        return self.keys[self.codes].insert_column(0, units.alias("unit"))


@dataclass(frozen=True)
class CountedKeys:
    """All keys of the log that are in the domain, with their numbers of units. Secret.

    Attributes:
        counts: One row per key, in arbitrary order. Column count (Int64) is 0 if every unit with this key kept other
            keys instead. Columns sum_0, … (Int64) are the sums of the measures, in multiples of their steps.
        keys: Function that takes positions in `counts` and returns a frame of the keys at these positions, with
            columns key_0, … in the canonical dtypes of the domain.
        engine: Name and version of the engine, such as "polars 2.1.0". A unit with too many keys keeps the same keys
            only if salt and engine are the same.
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
        """Return the keys at the given positions with their counts: columns key_0, …, count and sum_0, …."""
        return self.keys(positions).hstack(self.counts[positions])

    @property
    def frame(self) -> pl.DataFrame:
        """All keys with their counts."""
        return self.rows(slice(None))


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """The parameters for counting a log. A `Declaration` has already checked them.

    Attributes:
        unit: Columns of the log that identify the unit; empty for `Counts`.
        salt: 16 secret random bytes that determine which keys a unit keeps.
        temporary_directory: Parent of the private directory for rows that do not fit in memory.
        weights: Pairs (weight, most), largest weight first. To each of its keys, a unit adds the weight of the first
            pair whose `most` is at least the unit's number of keys. The first weight is a full count. A unit with
            more keys than the `most` of the last pair keeps only that many keys.
        threads: Number of counting threads; by default the number of cores. Polars reads and sorts with all cores.
        progress: Function called with the name of each phase when it begins.
        portable: Whether a unit keeps its first keys in the portable order (`counting/tuples.py`).
        without_key: Whether the log has no key column. Every unit then has the same key, the only cell of the domain.
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
        """Names of the columns that contain the unit or the key, each name once."""
        return tuple(dict.fromkeys((*self.unit, *self.key)))

    @property
    def most_keys(self) -> int:
        """Largest number of keys that a unit may count towards."""
        return self.weights[-1][1]

    @property
    def full(self) -> int:
        """Weight of a full count. A unit with at most `max_keys` keys adds this weight to each of its keys."""
        return self.weights[0][0]

    def report(self, phase: str) -> None:
        """Call `progress`, if there is one, with the name of the phase that begins."""
        if self.progress is not None:
            self.progress(phase)


def names_of(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return names as a tuple. The argument is one name, a sequence of names, or None for no names."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def request_of(
    *, unit: str | Sequence[str] | None, key: str | Sequence[str], max_keys: int = 1, **declared: Any
) -> CountRequest:
    """Return a `CountRequest`. By default, a unit adds 1 to the counts of at most `max_keys` keys."""
    declared["weights"] = declared.get("weights") or [(1, max_keys)]
    return CountRequest(unit=names_of(unit), key=names_of(key), **declared)
