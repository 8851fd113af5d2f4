"""What the commands about the ledger do: call the Python interface and describe what came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.cli.answer import Answer
from sparsehist.cli.commands import opening
from sparsehist.cli.tables import escape, rows_table
from sparsehist.errors import InputError
from sparsehist.ledger.arguments import checked_output
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, for_people, ledger_rows
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.series.declaration import UNCHECKED_SOURCE
from sparsehist.store import write_file
from sparsehist.store.private_files import PRIVATE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sparsehist.series.store_handle import Store

_PUBLIC = 0o666  # less the umask
_LIMITS = ("cap", "budget", "limit_at_first_release")


def show_ledger(
    store: Path,
    *,
    delta: float,
    series: str | None,
    since: str | None,
    short: bool,
    events: bool,
    out: Path | None,
    wait: float,
) -> Answer:
    """Show what was spent, and write it."""
    if out is not None and store.resolve() in out.resolve().parents:
        raise InputError(f"--out {str(out)!r} is inside the store, which nobody but its owner may read")
    with opening(store, wait) as opened:
        rows = _rows(opened, delta, series=series, since=since, short=short)
        happened = opened.events() if events else None
        if out is not None:
            opened.export_ledger(out, delta=delta)
    shown: list[RenderableType] = (
        _in_tables(rows, delta) if rows else ["nothing: the store has no series, or none of these"]
    )
    data = {"store": str(store), "delta": delta, "ledger": rows}
    if happened is not None:
        data["events"] = happened.to_dicts()
        shown.append(rows_table(_events_for_people(happened)))
    if out is not None:
        data["out"] = str(out)
        shown.append(f"written to {escape(str(out))}, with all events")
    return Answer(data, shown)


def write_report(
    store: Path,
    out: Path,
    *,
    format: str,  # noqa: A002
    about: Path | None,
    delta: float,
    curator: bool,
    wait: float,
) -> Answer:
    """Write the report of a store; the curator's for nobody else to read."""
    checked_output("--out", out, (".html",) if format == "html" else (".yaml", ".yml"))
    if store.resolve() in out.resolve().parents:
        raise InputError(f"--out {str(out)!r} is inside the store, which nobody but its owner may read")
    with opening(store, wait) as opened:
        page = opened.report(format=format, about=about, delta=delta, curator=curator)
    write_file(out, page.encode(), durable=False, mode=PRIVATE if curator else _PUBLIC)
    told = "for the curator only: it holds exact numbers" if curator else "public parameters and published rows only"
    return Answer({"store": str(store), "out": str(out), "curator": curator}, [f"{escape(str(out))}: {told}"])


def _rows(opened: Store, delta: float = DEFAULT_DELTA, **chosen: Any) -> list[dict[str, Any]]:
    with opened._hold() as state:
        return ledger_rows(Ledger.of(state), delta, **chosen)


def _in_tables(rows: Sequence[dict[str, Any]], delta: float) -> list[RenderableType]:
    shown: list[RenderableType] = [rows_table(for_people(rows))]
    shown.append(
        "A path costs its finest level; paths and series of a population add up, and populations too unless they\n"
        f"are disjoint. epsilon holds at delta {delta:g} for what did happen, by the best of all routes, numerical\n"
        "slack included; what holds in advance is the limit. remaining: the largest level of a path."
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


def _events_for_people(events: pl.DataFrame) -> pl.DataFrame:
    return events.select(
        pl.col("happened").dt.strftime("%Y-%m-%d %H:%M:%S"),
        "who",
        "what",
        pl.coalesce("series", "population").alias("of"),
        "release",
        "level",
        pl.coalesce("reason", pl.col("details").str.json_path_match("$.because"), "details").alias("why"),
    )


def set_budget(
    store: Path,
    population: str,
    *,
    poisson: str | None,
    reason: str | None,
    who: str | None,
    wait: float,
    **asked: Any,
) -> Answer:
    """Limit a population."""
    apart = None if poisson is None else EpsilonDelta.parse(poisson)
    with opening(store, wait) as opened:
        said = opened.set_budget(population, poisson=apart, who=who, reason=reason, **asked)
        spent = [row for row in _rows(opened) if row["scope"] == "population" and row["population"] == population]
        empty = without_series(opened, [population])
    data = {
        "store": str(store),
        "population": population,
        "budget": asked | {"poisson": poisson},
        "said": said,
        "status": "set",
    }
    shown = [f"the budget of population {population} is {escape(said)}"]
    if spent and spent[0]["releases"]:
        shown.append("It has releases already, so that the budget holds ex post: see sparsehist ledger")
    shown += empty
    return Answer(data, shown)


def without_series(store: Store, populations: Sequence[str]) -> list[str]:
    """Say which populations no series is in so far: the name may be a slip."""
    known = sorted({store.declared(name).population for name in store.series_names()})
    missing = [population for population in populations if population not in known]
    there = f"series are in {', '.join(known)}" if known else "the store has no series"
    return [f"No series is in {', '.join(missing)} yet; {there}"] if missing else []
