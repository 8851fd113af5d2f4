"""Show what `create` would refuse, drop or cut in a log. Only the owner of the log may see the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting.contract import Choice, CountRequest, request_of
from sparsehist.counting.count import checked_log
from sparsehist.counting.keys import place
from sparsehist.counting.log import TEXTS, Log, engine_errors
from sparsehist.counting.progress import Counting, reporting
from sparsehist.counting.tuples import tuple_text
from sparsehist.declaration.declaration import Declaration, domain_of
from sparsehist.domain.base import Domain, key_names
from sparsehist.errors import DataError

_SCHEMA = {"rule": pl.String, **dict.fromkeys(("rows", "units", "keys", "pairs"), pl.Int64), "outcome": pl.String}
_NO_UNIT, _NO_KEY, _OUTSIDE = "null or empty unit", "null or empty key", "key outside the domain"


def check_log(
    source: object,
    *,
    unit: str | Sequence[str],
    key: Sequence[str],
    max_keys: int,
    domain: Domain | str,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    key_types: Mapping[str, str] | None = None,
    counting: Counting | None = None,
) -> pl.DataFrame:
    """Return how many rows, units and keys each rule of counting affects, and what `count_keys` does with them.

    All distinct pairs of a unit and a key must fit in memory. The results are exact, without noise: keep them
    secret. Parameters are as for `create`, except that `source` cannot be `Counts` or a Spark frame, and `key_types`
    means the same as `types` of `sh.Files`.

    Returns:
        One row per rule: its name; the rows, units and keys that it affects, and the pairs of a unit and a key that
        "unit above max_keys" cuts and "counted" keeps (Int64, null if not meaningful); and the outcome: "read",
        "none", "refused: why", "dropped", "counted once", "bounded" or "counted". Then one row for each of five
        bounds, from a quarter of `max_keys` to four times `max_keys`: the units with more keys, and the pairs and the
        share of all pairs that the bound cuts.

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
        "unit": unit, "key": key, "max_keys": max_keys, "on_null": on_null, "on_outside": on_outside,
        "key_types": key_types or {}, "domain": domain_of(domain),
    }  # fmt: skip
    Declaration(name="log", **declared)
    with reporting(counting.progress) as progress:
        request = request_of(**declared, salt=b"", temporary_directory=Path(), progress=progress)
        rows = list(_checked(source, request))
    return pl.DataFrame(rows, schema=_SCHEMA)


def _checked(source: object, request: CountRequest) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table that `check_log` returns, in the order of the rules."""
    try:
        log = checked_log(source, request)
    except DataError as refusal:
        yield {"rule": "log", "outcome": f"refused: {refusal}"}
        return
    with engine_errors(log.label, log):
        pairs = _pairs(log, request)
    request.report("counting")
    columns = key_names(request.domain.columns)
    keys = pairs.select(columns).unique()
    placed = place(keys, request.domain)
    rule = np.where(placed.usable, "", np.where(placed.present, _OUTSIDE, _NO_KEY))
    # Number the keys. Keys that map to one cell get the same negative number; each unusable key gets its own number.
    number = np.arange(keys.height)
    number[placed.usable] = (
        -placed.cells.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    )
    keys = keys.with_columns(rule=pl.Series(rule.tolist(), dtype=pl.String), key=pl.Series(number))
    pairs = pairs.join(keys, on=columns, nulls_equal=True).with_columns(
        rule=pl.when(pl.col("unit").is_null()).then(pl.lit(_NO_UNIT)).otherwise("rule"),
        key=pl.when(pl.col("rule") != _NO_KEY).then("key"),
    )
    yield from _by_rule(pairs, [request.key[at] for at in placed.outside], request)


def _pairs(log: Log, request: CountRequest) -> pl.DataFrame:
    """Return the distinct pairs of a unit and a key, each with its number of rows. Empty units become null."""

    def column(name: str) -> pl.Expr:
        return pl.col(name).cast(pl.String) if log.dtypes[name] in TEXTS else pl.col(name)

    unit = column(request.unit[0]) if len(request.unit) == 1 else tuple_text(request.unit, log.dtypes)
    if log.dtypes[request.unit[0]] in (*TEXTS, pl.Binary):
        unit = pl.when(unit.cast(pl.Binary).bin.size() > 0).then(unit)
    keys = [column(name).alias(f"key_{i}") for i, name in enumerate(request.key)]
    rows = log.rows.select(unit.alias("unit"), *keys)
    pairs: pl.DataFrame = rows.group_by(pl.all()).agg(rows=pl.len().cast(pl.Int64)).collect(engine="streaming")
    return pairs


def _by_rule(pairs: pl.DataFrame, outside: Sequence[str], request: CountRequest) -> Iterator[dict[str, Any]]:
    """Yield a row of the table for each rule. A row of the log is counted under the first rule that it breaks."""

    def row(rule: str, pairs: pl.DataFrame, outcome: str, empty: str = "none") -> dict[str, Any]:
        distinct = pl.col("unit", "key").drop_nulls().n_unique().name.suffix("s")
        numbers = pairs.select(pl.col("rows").sum(), distinct).row(0, named=True)
        return {"rule": rule, **numbers, "outcome": outcome if pairs.height else empty}

    yield row("log", pairs, "read", "refused: the log is empty")
    names = f"column(s) {', '.join(map(repr, outside))}: "
    for rule, option, columns in (
        (_NO_UNIT, "on_null", ""), (_NO_KEY, "on_null", ""), (_OUTSIDE, "on_outside", names),
    ):  # fmt: skip
        refused = f'refused: {columns}clean the log or pass {option}="drop"'
        dropped = getattr(request, option) == "drop"
        yield row(rule, pairs.filter(pl.col("rule") == rule), "dropped" if dropped else refused)
    usable = pairs.filter(pl.col("rule") == "").group_by("unit", "key").agg(pl.col("rows").sum())
    repeated = usable.filter(pl.col("rows") > 1).with_columns(pl.col("rows") - 1)
    yield row("repeated unit and key", repeated, "counted once") | {"pairs": repeated.height}
    sizes = usable.group_by("unit").len()["len"].cast(pl.Int64)

    def above(bound: int) -> dict[str, int]:
        cut = sizes.filter(sizes > bound) - bound
        return {"units": cut.len(), "pairs": int(cut.sum())}

    most, n_pairs = request.most_keys, usable.height
    counted = {"rule": "counted", "units": sizes.len(), "pairs": n_pairs - above(most)["pairs"]}
    yield {"rule": "unit above max_keys", "outcome": "bounded" if above(most)["units"] else "none", **above(most)}
    yield counted | {"outcome": "counted" if n_pairs else "refused: nothing remains to be counted"}
    for bound in sorted({max(most // 4, 1), max(most // 2, 1), most, 2 * most, 4 * most} if n_pairs else ()):
        outcome = f"cuts {above(bound)['pairs'] / n_pairs:.2%}"
        yield {"rule": f"max_keys = {bound}", "outcome": outcome, **above(bound)}
