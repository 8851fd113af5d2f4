"""What the commands about the ledger show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.cli.tables import escape, rows_table
from sparsehist.declaration.declaration import UNCHECKED_SOURCE
from sparsehist.ledger.budgets import budget_from
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, for_people, ledger_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sparsehist.series.store import Store


def rows_of(opened: Store, delta: float = DEFAULT_DELTA, **chosen: Any) -> list[dict[str, Any]]:
    """Rows of the ledger, as `ledger_rows` chooses them."""
    with opened.home.hold() as state:
        return ledger_rows(Ledger.of(state), delta, **chosen)


def in_tables(rows: Sequence[dict[str, Any]], delta: float) -> list[RenderableType]:
    """A table for people, and what has to be said about it."""
    shown: list[RenderableType] = [rows_table(for_people(rows))]
    shown.append(
        "A path costs its finest level; paths and series of a population add up, and populations too unless they\n"
        f"are disjoint. epsilon holds at delta {delta:g} for what did happen, by the best of all routes, numerical\n"
        "slack included; what holds in advance is the limit. remaining: of a path the largest level it may be\n"
        "released at, of a series or population what another path may take."
    )
    for row in rows:
        what = f"series {row['series']}" if row["series"] else f"population {row['population']}"
        limit = row["limit_at_first_release"]
        if limit is not None and row["standing"] == "ex post" and row["scope"] != "path":
            shown.append(f"The limit of {what} was {limit} when its first release was made.")
    for row in rows:
        if row["warning"] is not None and row["scope"] != "path":
            what = row["series"] or row["population"] or row["scope"]
            shown.append(f"[bold]warning[/], {what}: {escape(row['warning'])}")
    unchecked = dict.fromkeys(row["series"] for row in rows if row["source"] == UNCHECKED_SOURCE)
    return [
        *shown,
        *(f"[bold]warning[/], series {name}: unchecked source; see sparsehist show" for name in unchecked),
    ]


def events_for_people(events: pl.DataFrame) -> pl.DataFrame:
    """The columns that people read events by."""
    return events.select(
        pl.col("happened").dt.strftime("%Y-%m-%d %H:%M:%S"),
        "who",
        "what",
        pl.coalesce("series", "population").alias("of"),
        "release",
        "level",
        pl.Series("why", map(_why, events["details"], events["reason"]), pl.String),
    )


def _why(details: str | None, reason: str | None) -> str | None:
    """What an event declares, in words, and the reason that was given for it."""
    said = json.loads(details or "{}")
    if "because" in said:
        words = said["because"]
    elif "route" in said:
        words = str(budget_from(said))
    else:
        # What a log in periods declares for its series is theirs, and `show` has it.
        told = {
            name.replace("_", " "): value for name, value in said.items() if value and not isinstance(value, dict)
        }
        words = ", ".join(
            f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in told.items()
        )
    return "; ".join(part for part in (words, reason) if part) or None


def without_series(store: Store, populations: Sequence[str]) -> list[str]:
    """Say which populations no series is in so far: the name may be a slip."""
    with store.home.hold() as state:
        known = sorted({record.population for record in state.all_series()})
    missing = [population for population in populations if population not in known]
    there = f"series are in {', '.join(known)}" if known else "the store has no series"
    return [f"No series is in {', '.join(missing)} yet; {there}"] if missing else []
