"""What goes into counting and what comes out, whichever engine does it."""

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
    """A log given as the result of a SQL query, which a fresh DuckDB runs on its named sources alone.

    Attributes:
        sql: One SELECT statement; docs/sql.md says what it may do.
        tables: What it reads, by name: frames, Arrow tables, relations, paths, `Files`. `sql` may name files, too.
        public: The same for what holds nothing of any unit; a file that stands in `sql` is public by its path here.
        parameters: Values for $name.
        unverified: Do not check that it keeps units apart; ledger, metadata and report say so.

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
    """A query whose sources, files and types are fixed, as it was checked and as it is read."""

    world: Closed | None = None

    @property
    def is_checked(self) -> bool:
        """Return whether it was checked, and reads nothing that somebody made in a session."""
        world = self.world
        return world is not None and world.verified and all(one.checked for one in world.sources.values())


@dataclass(frozen=True)
class Files:
    """Files of a log, and how they are read.

    Attributes:
        paths: Path, glob or list of them, URLs among them (s3, gs, az, https); with `hive`, directories too, of which
            every file is read. Or one table: `delta:path` or `iceberg:path`.
        delimiter: Between the fields of CSV files, one character; a comma, or a tab in .tsv files, if None.
        hive: Columns that stand in the names of folders, as in `day=2024-01-31/part.parquet`; they are text.
        storage_options: What gives access to URLs, as Polars and obstore take it: {"aws_access_key_id": …}. It is
            kept nowhere; the environment is asked for what is not given.
        types: What key columns are turned into before they are counted: {"time": "date"} counts days of timestamps;
            "integer" and "text" take whole numbers, booleans, decimals and text.

    Example:
        >>> Files("log", hive=["day"]).hive
        ['day']
    """

    paths: str | Path | Sequence[str | Path] = field(repr=False)  # a URL may be signed
    delimiter: str | None = None
    hive: Sequence[str] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter.encode()) != 1):
            raise DeclarationError(f"delimiter must be one ASCII character, not {shown(self.delimiter)}")
        if isinstance(self.hive, str) or not all(isinstance(name, str) and name for name in self.hive):
            raise DeclarationError(f"hive must be a list of columns, not {shown(self.hive)}")


@dataclass(frozen=True)
class Counts:
    """Counts made elsewhere, each unit already bounded to `max_keys` keys and to one per key.

    Attributes:
        frame: Key columns and a count column; anything tabular.
        count: Name of the count column: whole numbers, none negative; rows that count 0 are left out.
        counted_by: The `CountingSql` that made them, whose `counts` says so; `create` refuses another key or bound.
        largest: What one unit adds to the count of a key at most. Only 1 is served, and it has to be written out:
            sums of amounts need measures.

    Raises:
        DeclarationError: If `largest` is not 1.

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
            told = "is not given" if self.largest is None else f"is {shown(self.largest)}"
            raise DeclarationError(
                f"what one unit adds to a count at most {told}: write largest=1 if each unit adds one to each of its "
                "keys. Sums of amounts, such as revenue, are measures, not counts",
                parameter="largest",
            )


@dataclass(frozen=True, repr=False)
class UnitPairs:
    """Distinct pairs of a unit and a key, those of a unit side by side. Secret.

    Attributes:
        units: All different.
        sizes: How many pairs each unit has, at least one; shape (units,).
        codes: Row of the key of each pair among `keys`; shape (pairs,).
        keys: All different, and maybe some of no pair; columns key_0, …
    """

    units: pl.Series
    sizes: IndexArray
    codes: NDArray[np.uint32]
    keys: pl.DataFrame

    def frame(self) -> pl.DataFrame:
        """Columns unit, key_0, …; one row per pair."""
        import numpy as np  # not for declarations

        units = self.units.gather(np.repeat(np.arange(self.sizes.size), self.sizes))
        return self.keys[self.codes].insert_column(0, units.alias("unit"))


@dataclass(frozen=True, repr=False)
class Bounding:
    """Distinct pairs of a unit and a key before bounding, and units with more than max_keys keys. Secret."""

    pairs: int
    units_above: int


@dataclass(frozen=True)
class CountedKeys:
    """Every key of the log that lies in the domain, with its number of units. Secret.

    Attributes:
        frame: Columns key_0, … in the canonical dtypes of the domain and count (Int64; 0 where every unit with the
            key keeps others), and sum_0, … (Int64, in steps) of each measure; each key once; in no order that means
            anything.
        engine: What counted, such as "polars 2.1.0". Which keys an over-full unit keeps is the same again
            only with the same salt and the same engine.
        bounding: What bounding met; None where that was done elsewhere, or the engine does not tell.
    """

    frame: pl.DataFrame = field(repr=False)
    engine: str
    bounding: Bounding | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """What to count. A `Declaration` has checked what a caller declared.

    Attributes:
        unit: Columns of the log that name the unit; none for Counts.
        key: Column or columns of the key, as many as the domain has.
        salt: 16 secret random bytes.
        temporary_directory: Where rows wait that do not fit into memory, in a directory of mode 0700.
        weights: What a unit adds to each of its keys, in parts of a count, falling from a whole one, with the most
            keys it may add it to; units with more keys keep that many. Counts come in these parts.
        memory_limit: As for `Counting`.
        threads: Threads that count; as many as there are cores if None. Polars reads and sorts with all.
        progress: Called with the name of each phase as it begins.
        portable: Keep keys in the order that every engine knows (`counting/tuples.py`).
        without_key: Whether the log has no key column: each unit then has the one key of a domain of one cell.
        measures: What is added up by unit and key, cut to its bounds, and then by key.
    """

    unit: tuple[str, ...]
    key: tuple[str, ...]
    max_keys: int
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
        """Columns of the log that are read for unit and key."""
        return tuple(dict.fromkeys((*self.unit, *self.key)))

    @property
    def most_keys(self) -> int:
        """How many keys a unit may count towards."""
        return self.weights[-1][1]

    @property
    def full(self) -> int:
        """What a unit with few keys adds to each: counts are in parts of it."""
        return self.weights[0][0]

    def report(self, phase: str) -> None:
        """Tell that a phase begins."""
        if self.progress is not None:
            self.progress(phase)


def request(*, unit: str | Sequence[str] | None, key: str | Sequence[str], **declared: Any) -> CountRequest:
    """Make a request of a declaration's values; a unit keeps `max_keys` keys unless there are `weights`."""
    units, keys = ((names,) if isinstance(names, str) else tuple(names or ()) for names in (unit, key))
    declared["weights"] = declared.get("weights") or [(1, declared["max_keys"])]
    return CountRequest(unit=units, key=keys, **declared)
