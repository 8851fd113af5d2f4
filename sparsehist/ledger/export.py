"""Export the ledger as a JSON file, for archives and signatures.

Schema version 1, one object:

- `schema` "sparsehist ledger", `schema_version`, `store` (its random id), `generation` (raised by every change),
  `exported_at` (UTC), `delta` (at which epsilon is shown), `columns` (what each column means);
- `spent`: one object per noise path, series and population, and one for everybody, with the columns of `COLUMNS`;
- `events`: one object per event, in order, with the columns of `EVENT_COLUMNS`; events are only appended.

Times are UTC, levels and limits are exact text (decimal or fraction), null means none. Later versions may add columns
and keys; the meaning of existing ones never changes.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from sparsehist.declaration.checks import checked_output
from sparsehist.errors import InputError
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import ledger_rows
from sparsehist.store import State, read_json, write_file
from sparsehist.store.private_files import PUBLIC
from sparsehist.store.statements import shipped

SCHEMA = "sparsehist ledger"
_MEANINGS = json.loads((shipped("data") / "ledger_columns.json").read_text(encoding="utf-8"))
COLUMNS: dict[str, str] = _MEANINGS["spent"]
EVENT_COLUMNS: dict[str, str] = _MEANINGS["events"]
"""The meaning of each column, from data/ledger_columns.json; every export contains it."""


def check_target(target: Path) -> None:
    """Refuse a file that is not JSON by its name, or one that exists and is not an export."""
    checked_output("an exported ledger", target, (".json",))
    if (target.exists() or target.is_symlink()) and not _is_export(target):
        raise InputError(f"{target} exists and is not an exported ledger: name another file, or move that one first")


def write_ledger(target: Path, state: State, *, delta: float) -> None:
    """Write an export, completely or not at all."""
    events = state.events()
    for event in events:
        event["details"] = json.loads(event["details"] or "null")
    body = {
        "schema": SCHEMA,
        "schema_version": 1,
        "store": state.store_id,
        "generation": state.generation,
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "delta": delta,
        "columns": _MEANINGS,
        "spent": ledger_rows(Ledger.of(state), delta, every_period=True),
        "events": events,
    }
    content = json.dumps(body, indent=1, ensure_ascii=False, default=_in_utc).encode() + b"\n"
    write_file(target, content, durable=True, mode=PUBLIC)


def _in_utc(time: datetime) -> str:
    return time.replace(tzinfo=UTC).isoformat()


def _is_export(target: Path) -> bool:
    try:
        return bool(read_json(target)["schema"] == SCHEMA)
    except (OSError, KeyError, ValueError, TypeError):
        return False
