"""Show what counting would refuse, drop or bound in a log. For the owner of the log: the numbers are secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting.contract import Choice, CountRequest, Counts, request
from sparsehist.counting.count import given_counts
from sparsehist.counting.keys import place
from sparsehist.counting.log import Log, check_key_dtypes, check_unit_dtypes, engine_errors
from sparsehist.counting.progress import Counting, reporting
from sparsehist.counting.sources import open_log
from sparsehist.counting.tuples import tuple_text
from sparsehist.declaration.declaration import Declaration
from sparsehist.domain.base import Domain, key_names
from sparsehist.errors import DataError, DeclarationError

_NUMBERS = ("rows", "units", "keys", "pairs")
_SCHEMA = {"rule": pl.String, **dict.fromkeys(_NUMBERS, pl.Int64), "outcome": pl.String}


def check_log(
    source: object,
    *,
    unit: str | Sequence[str] | None,
    key: Sequence[str],
    max_keys: int,
    domain: Domain | str,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    key_types: Mapping[str, str] | None = None,
    counting: Counting | None = None,
) -> pl.DataFrame:
    """List the rows that each rule of counting affects, and how `count_keys` treats them.

    The distinct pairs of a unit and a key must fit in memory. The numbers are secret: they are for the owner.
    Parameters are as for `create`; `key_types` are the types of `Files`.

    Returns:
        One row per rule: rule; rows, units and distinct keys that it affects, and pairs of a unit and a key: those
        cut for "unit above max_keys", those kept for "counted" (Int64, null if not meaningful); outcome: "read",
        "none", "refused: why", "dropped", "counted once", "bounded" or "counted". Then a row for `max_keys` and for
        a quarter, half, twice and four times of it: the units above this bound, and the pairs and the share of all
        pairs that it cuts.

    Raises:
        DeclarationError: If a declared parameter is wrong.
        NotFoundError: If a file does not exist.
        DataError: If the log cannot be read at all.

    Example:
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user_id": [1, 1, 2], "query": ["a", "b", None]})
        >>> check_log(log, unit="user_id", key=["query"], max_keys=1, domain=sh.Strings(max_bytes=32)).filter(
        ...     pl.col("outcome") != "none").select("rule", "outcome").rows()[1:4]
        [('null or empty key', 'refused: clean the log or pass on_null="drop"'), ('unit above max_keys', 'bounded'),
        ('counted', 'counted')]
    """
    counting = counting or Counting()
    declared: dict[str, Any] = {
        "unit": unit, "key": key, "max_keys": max_keys, "domain": domain, "on_null": on_null,
        "on_outside": on_outside, "key_types": key_types or {},
    }  # fmt: skip
    checked = Declaration(name="log", **declared)
    declared |= {"domain": checked.domain, "salt": b"", "temporary_directory": Path()}
    with reporting(counting.progress) as progress:
        rows = list(_checked(source, request(**declared, progress=progress)))
    return pl.DataFrame([[row.get(name) for name in _SCHEMA] for row in rows], schema=_SCHEMA, orient="row")


def _checked(source: object, wanted: CountRequest) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table, one rule after another."""
    wanted.report("reading")
    log = None if isinstance(source, Counts) else open_log(source, wanted.read).with_key_types(wanted.key_types)
    try:
        if log is None:
            n = given_counts(source, wanted).height  # type: ignore[arg-type]
            yield {"rule": "counts", "rows": n, "keys": n, "outcome": "counted"}
            return
        check_unit_dtypes(log, wanted.unit)
        check_key_dtypes(log, wanted.key, wanted.domain)
    except DataError as refusal:
        yield {"rule": "types of columns" if log else "counts", "outcome": f"refused: {refusal}"}
        return
    if log.of_spark:
        raise DeclarationError("Spark frames cannot be checked: write the frame as Parquet, and check the files")
    if not wanted.unit:
        raise DeclarationError("unit is needed unless the source is Counts")
    with engine_errors(log.label, log):
        pairs = _pairs(log, wanted)
    wanted.report("placing keys")
    columns = key_names(wanted.domain.columns)
    judged, outside = _judged(pairs.select(columns).unique(), wanted)
    wanted.report("counting")
    pairs = pairs.join(judged, on=columns, nulls_equal=True)
    usable = pairs.filter(pl.col("verdict") == "usable", pl.col("unit").is_not_null())
    usable = usable.group_by("unit", "cell").agg(pl.col("rows").sum(), pl.col("key").first())
    yield from _met(pairs, usable, outside, wanted)


def _pairs(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Return distinct pairs: unit (null if empty), key_0, …, and `rows`, the number of rows of each."""

    def text(name: str) -> pl.Expr:
        return pl.col(name).cast(pl.String) if log.dtypes[name] in (pl.Categorical, pl.Enum) else pl.col(name)

    unit = text(wanted.unit[0]) if len(wanted.unit) == 1 else tuple_text(wanted.unit, log.dtypes)
    if len(wanted.unit) > 1 or log.dtypes[wanted.unit[0]] in (pl.String, pl.Categorical, pl.Enum, pl.Binary):
        unit = pl.when(unit.cast(pl.Binary).bin.size() > 0).then(unit)
    keys = [text(name).alias(f"key_{i}") for i, name in enumerate(wanted.key)]
    rows = log.rows.select(unit.alias("unit"), *keys)
    found: pl.DataFrame = rows.group_by(pl.all()).agg(rows=pl.len().cast(pl.Int64)).collect(engine="streaming")
    return found


def _met(
    pairs: pl.DataFrame, usable: pl.DataFrame, outside: Sequence[str], wanted: CountRequest
) -> Iterator[dict[str, Any]]:
    """Yield each rule with the rows, units and keys that it affects, and its outcome; omit meaningless numbers."""

    def touched(rule: str, some: pl.DataFrame, numbers: str, met: str, none: str = "none") -> dict[str, Any]:
        distinct = [pl.col(name).drop_nulls().n_unique().alias(f"{name}s") for name in ("unit", "key")]
        found = some.select(pl.col("rows").sum(), *distinct).row(0, named=True)
        return {
            "rule": rule,
            "outcome": met if some.height else none,
            **{name: found[name] for name in numbers.split()},
        }

    def choice(option: str, columns: str = "") -> str:
        dropped = getattr(wanted, option) == "drop"
        return "dropped" if dropped else f'refused: {columns}clean the log or pass {option}="drop"'

    names = f"column(s) {', '.join(map(repr, outside))}: "
    yield touched("log", pairs, "rows units keys", "read", "refused: the log is empty")
    yield touched("null or empty unit", pairs.filter(pl.col("unit").is_null()), "rows keys", choice("on_null"))
    missing, beyond = (pairs.filter(pl.col("verdict") == verdict) for verdict in ("missing", "outside"))
    yield touched("null or empty key", missing, "rows units", choice("on_null"))
    yield touched("key outside the domain", beyond, "rows units keys", choice("on_outside", names))
    repeated = usable.filter(pl.col("rows") > 1)
    again = repeated.with_columns(pl.col("rows") - 1, key="cell")
    yield touched("repeated unit and key", again, "rows units keys", "counted once") | {"pairs": repeated.height}
    sizes = usable.group_by("unit").len("cells")["cells"].cast(pl.Int64)

    def above(bound: int) -> dict[str, int]:
        cut = sizes.filter(sizes > bound) - bound
        return {"units": cut.len(), "pairs": int(cut.sum())}

    most, n_pairs = wanted.max_keys, int(sizes.sum())
    counted = {"rule": "counted", "units": sizes.len(), "pairs": n_pairs - above(most)["pairs"]}
    yield {"rule": "unit above max_keys", "outcome": "bounded" if above(most)["units"] else "none", **above(most)}
    yield counted | {"outcome": "counted" if n_pairs else "refused: nothing remains to be counted"}
    for bound in sorted({max(most // 4, 1), max(most // 2, 1), most, 2 * most, 4 * most} if n_pairs else ()):
        yield {
            "rule": f"max_keys = {bound}",
            "outcome": f"cuts {above(bound)['pairs'] / n_pairs:.2%}",
            **above(bound),
        }


def _judged(keys: pl.DataFrame, wanted: CountRequest) -> tuple[pl.DataFrame, list[str]]:
    """Return each distinct key with number, verdict and cell; and the columns with values outside the domain."""
    placed = place(keys, wanted.domain)
    cell = np.zeros(keys.height, dtype=np.int64)
    cell[placed.usable] = placed.cells.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
    verdict = np.where(placed.usable, "usable", np.where(placed.present, "outside", "missing"))
    some = pl.any_horizontal(pl.col(keys.columns).is_not_null())  # keys whose columns are all null are not counted
    numbered = keys.with_columns(pl.Series("verdict", verdict.tolist()), cell=cell, key=pl.int_range(pl.len()))
    return numbered.with_columns(key=pl.when(some).then("key")), [wanted.key[at] for at in placed.outside]
