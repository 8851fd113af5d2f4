"""Export the ledger as a file: JSON for reading and signing, Parquet for computing.

Schema version 1. JSON: one object with

- `schema` "sparsehist ledger", `schema_version`, `store` (its random id), `generation` (raised by every change),
  `exported_at` (UTC), `delta` (at which epsilon is shown), `columns` (what each column means);
- `spent`: one object per noise path, series and population, and one for everybody, with the columns of `COLUMNS`;
- `events`: one object per event, in order, with the columns of `EVENT_COLUMNS`; events are only appended.

Parquet: one table of both; the column `entry` is "spent" or "event", the metadata `sparsehist_ledger` is the rest of
the JSON. Times are UTC, levels and limits are exact text (decimal or fraction), null means none. Later versions may
add columns and keys; the meaning of existing ones never changes.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.declaration.checks import checked_output
from sparsehist.errors import InputError
from sparsehist.store import read_json, write_file
from sparsehist.store.private_files import PUBLIC
from sparsehist.store.statements import shipped

SCHEMA, SCHEMA_VERSION = "sparsehist ledger", 1
_TOLD = json.loads((shipped("data") / "ledger_columns.json").read_text(encoding="utf-8"))
COLUMNS: dict[str, str] = _TOLD["spent"]
EVENT_COLUMNS: dict[str, str] = _TOLD["events"]
"""The meaning of each column, from data/ledger_columns.json; every export contains it."""
_METADATA_KEY = "sparsehist_ledger"
_JSON, _PARQUET = (".json",), (".parquet", ".pq")


def checked_target(target: Path) -> Path:
    """Check the path of an export, and return it."""
    checked_output("an exported ledger", target, _JSON + _PARQUET)
    if (target.exists() or target.is_symlink()) and not _is_export(target):
        raise InputError(f"{target} exists and is not an exported ledger: name another file, or move that one first")
    return target


def write_ledger(
    target: Path, spent: pl.DataFrame, events: pl.DataFrame, *, store_id: str, generation: int, delta: float
) -> None:
    """Write an export, completely or not at all."""
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
