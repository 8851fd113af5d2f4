"""What the commands about running series do: call the Python interface and describe what came out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sparsehist as sh
from sparsehist.cli.answer import Answer
from sparsehist.cli.commands import check_place, in_periods, key_types, opening, unit_columns
from sparsehist.cli.tables import escape, parameters_table
from sparsehist.periods.periodic_series import LEAVING_OUT
from sparsehist.report.parameter_rows import declaration_rows, periodic_rows
from sparsehist.series.store_handle import reporting

if TYPE_CHECKING:
    from rich.console import RenderableType

_EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}


def declare_running(store: Path, *, unit: list[str], key_type: list[str] | None, **declared: Any) -> Answer:
    """Declare a series to which steps will be appended."""
    done = _done(store, **declared)
    series = sh.create_running(store, unit=unit_columns(unit), key_types=key_types(key_type), **declared)
    declaration = series.declaration
    data = {"store": str(store), "series": series.name, "status": done, "declaration": declaration.as_json()}
    hint = f"sparsehist append {store} --series {series.name} --step 1 --input day_1.parquet"
    shown: list[RenderableType] = [
        f"[bold]{done} the running series {series.name}[/] in {escape(str(store))}",
        parameters_table(declaration_rows(declaration)),
        *(("Nothing is counted yet. Next, for example:", f"  {escape(hint)}") if done == "created" else ()),
    ]
    return Answer(data, shown)


def _done(store: Path, *, name: str, wait: float, **_: Any) -> str:
    """Whether what is declared will be made, or is there and will be kept or refused."""
    check_place(store, wait)
    if not store.exists():
        return "created"
    with opening(store, wait) as opened:
        return "reused" if name in (*opened.series_names(), *in_periods(opened)) else "created"


def append_step(store: Path, series: str, log: sh.Files, *, step: int, wait: float, **how: Any) -> Answer:
    """Append the log of a step."""
    check_place(store, wait)
    running = sh.open_running(store, series, wait=wait)
    before = running.appended()
    running.append(log, step=step, **how)
    done = "appended" if step > before else "repeated"
    shown = (
        f"appended step {step} of {running.steps} to the series {series}; nothing is published by that"
        if step > before
        else f"step {step} of the series {series} was appended with this log before; nothing changed"
    )
    return Answer({"store": str(store), "series": series, "step": step, "status": done}, [shown])


def declare_periodic(
    store: Path, *, unit: list[str], key_type: list[str] | None, period: str, **declared: Any
) -> Answer:
    """Declare a log in periods."""
    done = _done(store, **declared)
    cut = int(period) if period.isdecimal() else period
    made = sh.create_periodic(store, unit=unit_columns(unit), key_types=key_types(key_type), period=cut, **declared)
    row, named = made.progress(), _EXAMPLES.get(period, "1")
    data = {"store": str(store), "series": made.name, "status": done, "declaration": made.rule.as_json()}
    hint = f"sparsehist append {store} --series {made.name} --period {named} --input log.parquet"
    shown: list[RenderableType] = [
        f"[bold]{done} {made.name}, a log in {made.rule.what}s,[/] in {escape(str(store))}",
        parameters_table(periodic_rows(made, row)),
        *(("Nothing is counted yet. Next, for example:", f"  {escape(hint)}") if done == "created" else ()),
    ]
    return Answer(data, shown)


def append_period(
    store: Path, name: str, log: sh.Files, *, period: str, time: str | None, drop: bool, wait: float, **how: Any
) -> Answer:
    """Count the log of a period."""
    check_place(store, wait)
    made = sh.open_periodic(store, name, wait=wait)
    before = made.added()
    choice: Literal["error", "drop"] = "drop" if drop else "error"
    with reporting(None) as report:

        def tell(phase: str) -> None:
            report(phase)
            if phase.startswith(LEAVING_OUT) and not sys.stderr.isatty():  # where no phases are shown
                sys.stderr.write(f"{phase}\n")

        series = made.add(log, period=period, time=time, on_other_period=choice, progress=tell, wait=wait, **how)
    done = "repeated" if series.declaration.period in before else "appended"
    shown = (
        f"{series.declaration.period} of {name} was appended with this log before; nothing changed"
        if done == "repeated"
        else f"appended {series.declaration.period} to {name}: the series {series.name}; nothing is published by that"
    )
    return Answer({"store": str(store), "series": series.name, "status": done}, [shown])
