"""What the commands about running series do: call the Python interface and describe what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import sparsehist as sh
from sparsehist.cli.answer import Answer
from sparsehist.cli.commands import check_place, files, unit_columns
from sparsehist.cli.tables import escape, parameters_table
from sparsehist.report.parameter_rows import declaration_rows

if TYPE_CHECKING:
    from rich.console import RenderableType


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


def finish_series(store: Path, series: str, *, who: str | None, wait: float) -> Answer:
    """Erase who counted."""
    check_place(store, wait)
    sh.open_running(store, series, wait=wait).finish(who=who)
    shown = [f"finished the series {series}: who counted is erased, and nothing more can be appended"]
    return Answer({"store": str(store), "series": series, "status": "finished"}, shown)
