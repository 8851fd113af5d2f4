"""The ledger as a file that outlives the store: JSON to be read and signed, Parquet to be computed with.

Schema version 1. JSON: one object with

- `schema` "sparsehist ledger", `schema_version`, `store` (its random id), `generation` (raised by every change),
  `exported_at` (UTC), `delta` (at which epsilon is shown), `columns` (what each column means);
- `spent`: one object per noise path, series and population, and one for everybody, with the columns of `COLUMNS`;
- `events`: one object per event, in order, with the columns of `EVENT_COLUMNS`; they are only ever appended to.

Parquet: one table of both; its column `entry` is "spent" or "event", its metadata `sparsehist_ledger` is the head of
the JSON. Times are UTC, levels and limits exact text (decimal or fraction), a missing value says that there is none.
A later version may add columns and keys; what one means never changes.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.errors import InputError
from sparsehist.ledger.arguments import checked_output
from sparsehist.store import read_json, write_file
from sparsehist.store.private_files import PUBLIC

SCHEMA, SCHEMA_VERSION = "sparsehist ledger", 1
COLUMNS = {
    "scope": "path, series (sum over its paths), population (sum over its series), or everybody (the most that one "
    "person may bear over all populations: of disjoint ones the largest, of others the sum)",
    "population": "the people behind the units",
    "series": "name of the series",
    "path": "kind of the noise path: cells, workload with its name and strategy, or interactive "
    "with the name of the session and its strategy",
    "noise": "family of noise",
    "releases": "how many releases were made; of a session of queries one, and one for each measured answer",
    "currency": "what level is: rho (zCDP), epsilon (pure DP), or none (neither; see epsilon)",
    "level": "exact sum of the finest levels; missing where nothing was spent or currencies are mixed",
    "cost": "rho of zCDP, which pure DP implies too; missing where noise has none",
    "delta_infinity": "probability that a key of an open domain was published that one unit alone has",
    "numerical_slack": "total variation by which draws may miss their law, summed over releases",
    "epsilon": "all of it together is (epsilon, delta)-DP, delta_infinity and numerical_slack included, by the best "
    "of all routes: ex post, for what did happen; missing where no epsilon is",
    "delta": "at which epsilon holds",
    "cap": "limit on the sum of levels of a series, as it stands",
    "budget": "limit on a population, as it stands",
    "limit_at_first_release": "the cap or budget that stood when the first release was made",
    "remaining": "what the limits leave: of a path the largest level it may be released at, of a series what another "
    "path could take, of a population what is left on the route of its budget, as route and amount",
    "standing": "ex ante: a limit stood before the first release and was never raised; ex post: it came later, was "
    "raised, its route or split changed, or there is none, and only what was spent is a guarantee",
    "warning": "what has to be known to rely on the row",
    "first_release": "time of the first release",
    "last_release": "time of the last release",
    "dropped": "when the series was erased; what it spent stays",
    "unverified": "whether nobody checked that the query of the log keeps units apart",
    "source": "what the guarantee rests on: checked query, unchecked source, or missing (files)",
    "periods": "of a population whose log is cut into periods: how many were added, how many there will be at "
    "most, in how many a unit counts, how many were released, and how many more can be at the level of the last one",
    "per_period": "exact sum of the finest levels that one unit in one period bears; level is what one unit bears",
    "per_period_epsilon": "the same as epsilon, at delta",
}
EVENT_COLUMNS = {
    "number": "counts the events of the store from 1",
    "generation": "of the store once this had happened; a refusal changes nothing",
    "happened": "when",
    "who": "asked for it, as given by the caller; else the user of the operating system",
    "what": "create store, create series, append, finish series, release, refuse, set budget, raise cap, declare "
    "disjoint, declare periods, finish periods, accept changed source, drop series, adopt store, move store",
    "series": "name of the series",
    "series_id": "its random id: names of dropped series can be used again",
    "path_id": "number of the noise path",
    "level": "asked for or set, exact",
    "population": "of the series, or whose budget it is",
    "release": "name of the release asked for",
    "reason": "as given by the caller",
    "details": "JSON: the budget (with its route, limit and split of delta), the disjoint populations, the periods "
    "with what their series share, or what refused and why",
}
_METADATA_KEY = "sparsehist_ledger"
_JSON, _PARQUET = (".json",), (".parquet", ".pq")


def checked_target(target: Path) -> Path:
    """Return a place for an export."""
    checked_output("an exported ledger", target, _JSON + _PARQUET)
    if (target.exists() or target.is_symlink()) and not _is_export(target):
        raise InputError(f"{target} exists and is no exported ledger: name another file, or move that one away first")
    return target


def write_ledger(
    target: Path, spent: pl.DataFrame, events: pl.DataFrame, *, store_id: str, generation: int, delta: float
) -> None:
    """Write an export, whole or not at all."""
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "store": store_id,
        "generation": generation,
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "delta": delta,
        "columns": {"spent": COLUMNS, "events": EVENT_COLUMNS},
    }
    if target.suffix in _JSON:
        happened = events.to_dicts()
        for event in happened:
            event["details"] = None if event["details"] is None else json.loads(event["details"])
        body = head | {"spent": spent.to_dicts(), "events": happened}
        content = json.dumps(body, indent=1, ensure_ascii=False, default=_as_text).encode() + b"\n"
    else:
        entries = [
            spent.insert_column(0, pl.lit("spent").alias("entry")),
            events.insert_column(0, pl.lit("event").alias("entry")),
        ]
        table = pl.concat(entries, how="diagonal").with_columns(pl.col(pl.Datetime).dt.replace_time_zone("UTC"))
        sink = io.BytesIO()
        table.write_parquet(sink, metadata={_METADATA_KEY: json.dumps(head, ensure_ascii=False)})
        content = sink.getvalue()
    write_file(target, content, durable=True, mode=PUBLIC)


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat()
    raise TypeError


def _is_export(target: Path) -> bool:
    try:
        if target.suffix in _JSON:
            head = read_json(target)
        else:
            head = json.loads(pl.read_parquet_metadata(target)[_METADATA_KEY]) if target.is_file() else {}
        return bool(head["schema"] == SCHEMA)
    except (pl.exceptions.PolarsError, OSError, KeyError, ValueError, TypeError):
        return False
