"""What the commands about running series do: call the Python interface and describe what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sparsehist as sh
from sparsehist.cli.answer import Answer
from sparsehist.cli.commands import check_place, files, in_periods, opening, unit_columns
from sparsehist.cli.tables import escape, parameters_table
from sparsehist.report.parameter_rows import declaration_rows, periodic_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

_EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}


def declare_running(store: Path, *, unit: list[str], **declared: Any) -> Answer:
    """Declare a series to which steps will be appended."""
    check_place(store, declared["wait"])
    series = sh.create_running(store, unit=unit_columns(unit), **declared)
    declaration = series.declaration
    data = {"store": str(store), "series": series.name, "status": "created", "declaration": declaration.as_json()}
    hint = f"sparsehist append {store} --series {series.name} --step 1 --input day_1.parquet"
    shown: list[RenderableType] = [
        f"[bold]created the running series {series.name}[/] in {escape(str(store))}",
        parameters_table(declaration_rows(declaration)),
        "Nothing is counted yet. Next, for example:",
        f"  {escape(hint)}",
    ]
    return Answer(data, shown)


def append_step(store: Path, series: str, log: list[str], *, step: int, who: str | None, wait: float) -> Answer:
    """Append the log of a step."""
    check_place(store, wait)
    running = sh.open_running(store, series, wait=wait)
    before = running.appended()
    running.append(files(log, None, None), step=step, who=who)
    done = "appended" if step > before else "repeated"
    shown = (
        f"appended step {step} of {running.steps} to the series {series}; nothing is published by that"
        if step > before
        else f"step {step} of the series {series} was appended with this log before; nothing changed"
    )
    return Answer({"store": str(store), "series": series, "step": step, "status": done}, [shown])


def declare_periodic(store: Path, *, unit: list[str], period: str, **declared: Any) -> Answer:
    """Declare a log in periods."""
    check_place(store, declared["wait"])
    cut = int(period) if period.isdecimal() else period
    made = sh.create_periodic(store, unit=unit_columns(unit), period=cut, **declared)
    row, named = made.progress(), _EXAMPLES.get(period, "1")
    data = {"store": str(store), "series": made.name, "status": "created", "declaration": made.rule.as_json()}
    shown: list[RenderableType] = [
        f"[bold]created {made.name}, a log in {made.rule.what}s,[/] in {escape(str(store))}",
        parameters_table(periodic_rows(made, row)),
        "Nothing is counted yet. Next, for example:",
        f"  {escape(f'sparsehist append {store} --series {made.name} --period {named} --input log.parquet')}",
    ]
    return Answer(data, shown)


def append_period(
    store: Path, name: str, log: list[str], *, period: str, time: str | None, drop: bool, who: str | None, wait: float
) -> Answer:
    """Count the log of a period."""
    check_place(store, wait)
    made = sh.open_periodic(store, name, wait=wait)
    before = made.added()
    choice: Literal["error", "drop"] = "drop" if drop else "error"
    series = made.add(files(log, None, None), period=period, time=time, on_other_period=choice, who=who, wait=wait)
    done = "repeated" if series.declaration.period in before else "appended"
    shown = (
        f"{series.declaration.period} of {name} was appended with this log before; nothing changed"
        if done == "repeated"
        else f"appended {series.declaration.period} to {name}: the series {series.name}; nothing is published by that"
    )
    return Answer({"store": str(store), "series": series.name, "status": done}, [shown])


def finish_series(store: Path, series: str, *, who: str | None, wait: float) -> Answer:
    """Erase who counted."""
    check_place(store, wait)
    with opening(store, wait) as opened:
        periodic = series in in_periods(opened)
    (sh.open_periodic if periodic else sh.open_running)(store, series, wait=wait).finish(who=who)
    shown = [f"finished the series {series}: who counted is erased, and nothing more can be appended"]
    return Answer({"store": str(store), "series": series, "status": "finished"}, shown)
