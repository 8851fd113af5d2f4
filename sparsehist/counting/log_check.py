"""What counting would refuse, leave out or bound in a log. For the owner of the log: the numbers are secret."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from sparsehist.counting.batches import plain, plain_dtype
from sparsehist.counting.contract import SALT_BYTES, Choice, CountRequest, Counts, request
from sparsehist.counting.count import given_counts
from sparsehist.counting.keys import find_cells, missing_by_column, outside_columns, unpacked
from sparsehist.counting.log import Log, check_key_dtypes, check_unit_dtypes, engine_errors
from sparsehist.counting.memory import available_memory
from sparsehist.counting.sources import open_log
from sparsehist.domain.base import Domain
from sparsehist.domain.product import Product
from sparsehist.errors import DataError, DeclarationError
from sparsehist.guarantee.extensions import draw_no_progress
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement
from sparsehist.threads import cores
from sparsehist.typing import secret

if TYPE_CHECKING:
    import duckdb

SCHEMA = {
    "rule": pl.String,
    "rows": pl.Int64,
    "units": pl.Int64,
    "keys": pl.Int64,
    "pairs": pl.Int64,
    "outcome": pl.String,
}
Measured = tuple[str, int | None, int | None, int | None, int | None]


def check_log(
    source: object,
    *,
    unit: str | Sequence[str] | None,
    key: Sequence[str],
    max_keys: int,
    domain: Domain | str,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    memory_limit: str | int | None = None,
    threads: int | None = None,
    temporary_directory: Path | None = None,
    key_types: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> pl.DataFrame:
    """List what each rule of counting meets in a log, and what `count_keys` would do about it.

    DuckDB does it, so the log may be larger than memory. The numbers are secret: they are for the owner. Parameters
    are as for `create`; memory_limit and threads are DuckDB's, and spill goes to temporary_directory, or to the
    system's place for temporary files.

    Returns:
        One row per rule: rule; rows, units and distinct keys it touches, and pairs of a unit and a key, which go
        for "unit above max_keys" and stay for "counted" (Int64, null where that has no meaning); outcome: "read",
        "none", "refused: why", "dropped", "counted once", "bounded" or "counted".

    Raises:
        DeclarationError: If a declared parameter is wrong.
        NotFoundError: If a file does not exist.
        DataError: If the log cannot be read at all.

    Example:
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user_id": [1, 1, 2], "query": ["a", "b", None]})
        >>> check_log(log, unit="user_id", key=["query"], max_keys=1, domain=sh.Strings(max_bytes=32)).filter(
        ...     pl.col("outcome") != "none")["rule"].to_list()
        ['log', 'null or empty key', 'unit above max_keys', 'counted']
    """
    return checked(
        source, unit=unit, key=key, max_keys=max_keys, domain=domain, on_null=on_null, on_outside=on_outside,
        memory_limit=memory_limit, threads=threads, temporary_directory=temporary_directory, key_types=key_types,
        progress=progress,
    ).rules  # fmt: skip


@secret
class Checked(NamedTuple):
    """The rules as `check_log` gives them, and what bounding would cost, None where that cannot be told. Secret."""

    rules: pl.DataFrame
    bias: pl.DataFrame | None


def checked(
    source: object,
    *,
    domain: Domain | str,
    temporary_directory: Path | None = None,
    bounds: Sequence[int] = (),
    largest_keys: int = 500,
    **declared: Any,
) -> Checked:
    """Run the rules of `check_log`, whose arguments these are, and price bounds of units where some are given.

    The bias of each is max_keys, pairs_cut (the share of all pairs of a unit and a key), keep_bias and share_bias
    (root mean square over the largest keys, in counts).
    """
    domain = Domain.parse(domain) if isinstance(domain, str) else domain
    spill = Path(temporary_directory or tempfile.gettempdir())
    wanted = request(domain=domain, salt=bytes(SALT_BYTES), temporary_directory=spill, **declared)
    if isinstance(domain, Product) and domain.names != wanted.key:
        raise DeclarationError(f"the domain's columns {domain.names} are not the key columns {wanted.key}")
    if isinstance(source, Counts):
        return Checked(_check_counts(source, wanted), None)
    if wanted.unit is None:
        raise DeclarationError("unit is needed unless the source is Counts")
    wanted.report("reading")
    log = open_log(source, wanted.read).with_key_types(wanted.key_types)
    if log.of_spark:
        raise DeclarationError("a Spark frame is not checked here: write it as Parquet, and check its files")
    refusals = _dtype_refusals(log, wanted)
    if refusals:
        return Checked(_table([(rule, None, None, None, None, f"refused: {why}") for rule, why in refusals]), None)
    found, outside, bias = _measured(log.with_unit(wanted.unit, wanted.unit_parts), wanted, bounds, largest_keys)
    return Checked(_table([(*measured, _outcome(measured, outside, wanted)) for measured in found]), bias)


def _measured(
    log: Log, wanted: CountRequest, bounds: Sequence[int], largest_keys: int
) -> tuple[list[Measured], list[str], pl.DataFrame | None]:
    """Run the rules; rows, units, keys and pairs that each touches, the columns with keys outside, and the bias."""
    with engine_errors(log.label, log), _loaded(log, wanted) as connection:
        connection.execute(statement("check_pairs"))
        wanted.report("placing keys")
        keys = connection.sql(statement("check_keys")).pl()["key"]
        judged, outside = _judged(keys, wanted)
        connection.register("judged", judged)
        wanted.report("counting")
        found = connection.execute(statement("check_rules"), {"max_keys": wanted.max_keys}).fetchall()
        bias = None
        if bounds:
            connection.register("bounds", pl.DataFrame({"max_keys": sorted(set(bounds))}))
            bias = connection.sql(statement("check_bias"), params={"largest": largest_keys}).pl()
    measured = [
        (rule, *(None if number is None else int(number) for number in numbers)) for _, rule, *numbers in found
    ]
    return measured, outside, bias


@contextmanager
def _loaded(log: Log, wanted: CountRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of our own, within the limits asked for, with the view log (unit, key), to be read once.

    An empty unit is null; a key of several columns is a struct. Polars reads the log: DuckDB would guess at the
    dialect of a CSV file, take names that differ in case for one, and columns from names of folders.
    """
    import duckdb
    import pyarrow as pa

    unit, *key = wanted.columns
    columns = [_exact(name, log.dtypes[name]).alias(f"key_{i}") for i, name in enumerate(key)]
    of_unit = plain(unit, log.dtypes[unit])
    if plain_dtype(log.dtypes[unit]) == pl.Binary:
        of_unit = pl.when(of_unit.bin.size() > 0).then(of_unit)
    selected = [of_unit.alias("unit"), (pl.struct(columns) if len(key) > 1 else columns[0]).alias("key")]
    empty = pl.DataFrame(schema={name: log.dtypes[name] for name in wanted.columns}).select(selected).to_arrow()
    frames = log.rows.select(selected).collect_batches(maintain_order=False)
    batches = (batch for frame in frames for batch in frame.to_arrow().to_batches())
    with spill_directory(wanted.temporary_directory) as directory, duckdb.connect(":memory:") as connection:
        settings = {
            "temp_directory": str(directory),
            "preserve_insertion_order": False,
            "memory_limit": wanted.memory_limit or f"{available_memory() // 2}B",
            "threads": wanted.threads or cores(),
        }
        draw_no_progress(connection)
        for setting, value in settings.items():
            connection.execute(f"set {setting} = $value", {"value": value})
        connection.register("log", pa.RecordBatchReader.from_batches(empty.schema, batches))
        yield connection


def _exact(name: str, dtype: pl.DataType) -> pl.Expr:
    return pl.col(name).cast(pl.String) if dtype in (pl.Categorical, pl.Enum) else pl.col(name)


def _judged(keys: pl.Series, wanted: CountRequest) -> tuple[pl.DataFrame, list[str]]:
    """Give every distinct key its verdict and its cell; name the columns that hold values outside."""
    columns = unpacked(keys, wanted.domain.columns)
    missing = missing_by_column(columns).select(pl.any_horizontal(pl.all())).to_series().to_numpy()
    verdict = np.where(missing, "missing", "outside").astype(object)
    cell = np.zeros(keys.len(), dtype=np.int64)
    present = columns.filter(pl.Series(~missing))
    cells, inside = find_cells(present, wanted.domain)
    usable = np.flatnonzero(~missing)[inside]
    verdict[usable] = "usable"
    kept = cells.filter(pl.Series(inside))
    cell[usable] = kept.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    judged = pl.DataFrame([keys, pl.Series("verdict", verdict, dtype=pl.String), pl.Series("cell", cell)])
    return judged, [] if inside.all() else outside_columns(present, wanted.key, wanted.domain)


def _outcome(measured: Measured, outside: list[str], wanted: CountRequest) -> str:
    rule, rows, units, *_ = measured
    choices = {
        "null or empty unit": ("on_null", wanted.on_null),
        "null or empty key": ("on_null", wanted.on_null),
        "key outside the domain": ("on_outside", wanted.on_outside),
    }
    if rule == "log":
        return "read" if rows else "refused: the log is empty"
    if rule == "counted":
        return "counted" if units else "refused: nothing remains to be counted"
    if not rows and not (rule == "unit above max_keys" and units):
        return "none"
    if rule in choices:
        option, choice = choices[rule]
        columns = f"column(s) {', '.join(map(repr, outside))}: " if rule == "key outside the domain" else ""
        return "dropped" if choice == "drop" else f'refused: {columns}clean the log or pass {option}="drop"'
    return "bounded" if rule == "unit above max_keys" else "counted once"


def _dtype_refusals(log: Log, wanted: CountRequest) -> list[tuple[str, str]]:
    """Find columns of a dtype that cannot serve."""
    found = []
    try:
        check_unit_dtypes(log, wanted.unit_parts)
    except DataError as refusal:
        found.append(("dtype of the unit", str(refusal)))
    try:
        check_key_dtypes(log, wanted.key, wanted.domain)
    except DataError as refusal:
        found.append(("dtype of the key", str(refusal)))
    return found


def _check_counts(source: Counts, wanted: CountRequest) -> pl.DataFrame:
    try:
        counted = given_counts(source, wanted)
    except DataError as refusal:
        return _table([("counts", None, None, None, None, f"refused: {refusal}")])
    return _table([("counts", counted.height, None, counted.height, None, "counted")])


def _table(rows: list[tuple[str, int | None, int | None, int | None, int | None, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
