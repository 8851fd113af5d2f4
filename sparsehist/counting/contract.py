"""What goes into counting and what comes out, whichever engine does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from sparsehist.declaration.measures import Measure
from sparsehist.domain.base import Domain
from sparsehist.errors import DeclarationError, as_mapping, shown, without_credentials
from sparsehist.typing import IndexArray, NDArray

if TYPE_CHECKING:
    import numpy as np

    from sparsehist.guarantee.closed import Closed

Choice = Literal["error", "drop"]
SALT_BYTES = 16
KEY_TYPES = ("date", "integer", "text")
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
    """What to count, checked as far as it can be without reading the log.

    Attributes:
        unit: Column of the unit; of a unit that is a tuple, the column its parts are written into. None for Counts.
        unit_parts: Columns of the log that name the unit: text, whole numbers, dates or the like.
        key: Column or columns of the key, as many as the domain has.
        max_keys: Distinct keys a unit may have.
        domain: Where the keys belong.
        salt: 16 secret random bytes.
        temporary_directory: Where rows wait that do not fit into memory, in a directory of mode 0700.
        on_null: What to do about rows with a null, NaN or empty unit or key: "error" or "drop".
        on_outside: What to do about rows with a key outside the domain: "error" or "drop".
        memory_limit: Bytes, or a text such as "4GB": rows may take half of it and wait on disk beyond that; the
            distinct texts of units and keys, which stay in memory, may take all of it. Half of what there is if None.
        threads: How many threads count; as many as there are cores if None. Polars itself reads and sorts with all.
        progress: Called with the name of each phase as it begins.
        key_types: What key columns are turned into before they are placed: "date" (of timestamps and text),
            "integer" or "text" (of whole numbers, booleans, decimals and text).
        weights: What a unit adds to each of its keys, in parts of a count, falling from a whole one, with the most
            keys it may add it to; units with more keys keep that many. Counts come in these parts.
        portable: Keep keys in the order that every engine knows (`counting/tuples.py`), so that the counts are the
            same on each for one salt.
        without_key: Whether the log has no key column: each unit then has the one key of a domain of one cell.
        measures: What is added up by unit and key, cut to its bounds, and then by key.
    """

    unit: str | None
    unit_parts: tuple[str, ...]
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

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise DeclarationError(f"domain must be a domain or its text, got {shown(self.domain)}")
        cells, columns, parts = self.domain, self.columns, self.unit_parts
        threads = 1 if self.threads is None else self.threads
        kept = ("error", "drop")
        checks = {
            f"max_keys must be a whole number of at least 1, not {shown(self.max_keys)}": _is_number(self.max_keys),
            f"{cells.describe()} has {cells.columns} key column(s), and key names another number of them":
                len(self.key) == cells.columns,
            f"unit names a column twice: {list(parts)}": len(set(parts)) == len(parts),
            "unit and key must name different columns": len(set(columns)) == len(columns),
            f'on_null must be "error" or "drop", not {shown(self.on_null)}': self.on_null in kept,
            f'on_outside must be "error" or "drop", not {shown(self.on_outside)}': self.on_outside in kept,
            f"threads must be a whole number of at least 1, not {shown(threads)}": _is_number(threads),
            f"the salt must have {SALT_BYTES} bytes": len(self.salt) == SALT_BYTES,
        }  # fmt: skip
        for rule, holds in checks.items():
            if not holds:
                raise DeclarationError(rule)
        for column, kind in self.key_types.items():
            if column not in self.key:
                which = shown(column) if len(self.key_types) <= len(self.key) else "a column"
                raise DeclarationError(f"key_types names {which}, which is no key column")
            if kind not in KEY_TYPES:
                known = ", ".join(map(repr, KEY_TYPES))
                raise DeclarationError(f"key_types makes of {shown(column)} one of {known}, not {shown(kind)}")
            if kind != "text" and cells.accepts(self.key.index(column), pl.String()):
                raise DeclarationError(
                    f"key_types makes {kind}s of {column!r}, but {cells.describe()} takes any text there: declare a "
                    "domain of them, or leave the type out"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are counted: the unit, if there is one, then the key."""
        return (*((self.unit,) if self.unit is not None else ()), *self.key)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns of the log that are read for them."""
        return tuple(dict.fromkeys((*self.unit_parts, *self.key)))

    @property
    def measured(self) -> tuple[str, ...]:
        """Columns of the log that are added up."""
        return tuple(dict.fromkeys(each.column for each in self.measures if each.column is not None))

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
    """Check what is to be counted.

    Args:
        unit: Column of the unit; or several that name it together; None for Counts.
        key: Column or columns of the key.
        declared: The other attributes of `CountRequest`.

    Raises:
        DeclarationError: If one is wrong; the message carries its value.
    """
    parts = (unit,) if isinstance(unit, str) else tuple(unit or ())
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(name, str) for name in (*parts, *keys)):
        raise DeclarationError("unit and key name columns, as text")
    name = parts[0] if len(parts) == 1 else f"({', '.join(parts)})" if parts else None
    declared["weights"] = declared.get("weights") or [(1, declared["max_keys"])]
    declared["key_types"] = as_mapping("key_types", declared.get("key_types") or {})
    return CountRequest(unit=name, unit_parts=parts, key=keys, **declared)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
