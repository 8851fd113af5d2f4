"""The command that releases workloads, as it is parsed and explained; its work is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.app import app
from sparsehist.cli.parameters import SeriesName, StorePath, Wait, Who

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType


_ABOUT_PLAN = (
    "nothing was released; std: root of the mean variance of a query, in units; lower_bound: no factorization "
    "has less at one key a unit; ratio: of the variances"
)


@app.command(sort_key=1)
def release_workload(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    name: Annotated[str, Parameter(help="Name of the release, unique over the series: a-z, 0-9 and _.")],
    workload: Annotated[
        str | None,
        Parameter(
            help="What is asked: prefix(), ranges(), 'ranges([(0, 9), (10, 99)])', identity(), total(), "
            "marginals(k=2), \"marginals([['country'], ['country', 'day']])\", kronecker(…, …), union(…, …). "
            "Needed for a new name."
        ),
    ] = None,
    level: Annotated[str | None, Parameter(help="Privacy level, exact; needed for a new name.")] = None,
    strategy: Annotated[
        str,
        Parameter(
            help="How it is answered: auto takes the least mean error and keeps to it; --plan lists what there is."
        ),
    ] = "auto",
    post_processing: Annotated[
        list[str] | None, Parameter(help="consistent or non_negative; repeat it for both. Costs nothing.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Parquet file to write: queries, answers, metadata.")] = None,
    head: Annotated[int, Parameter(help="Also print this many of the first rows.")] = 0,
    plan: Annotated[bool, Parameter(help="Release nothing: compare the strategies at this level.")] = False,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Release prefix sums, ranges, marginals or other sums of a series.

    Each workload is a noise path of its own: all its releases together cost what
    the finest costs, and that adds to the cost of the cells. All ranges are
    published as one row a key, from which any range is answered later with its
    standard deviation (`sh.read(file).answer(low, high)` in Python). --plan
    spends nothing.

    For example:
      sparsehist release-workload logs.sparsehist --series visits --name by_hour \
          --workload 'ranges()' --level 0.1 --out by_hour.parquet
    """
    from sparsehist.cli.commands import MOST_ROWS, check_output, counted, opening, write_committed
    from sparsehist.cli.tables import escape, parameters_table, rows_table
    from sparsehist.errors import DeclarationError
    from sparsehist.release import refuse_to_replace

    if head < 0:
        raise DeclarationError(f"--head takes a number of rows from 0 up, got {head}")
    if out is not None:
        check_output(out, store)  # before anything is drawn
    with opening(store, wait) as opened:
        known = opened.series(series)
        if plan:
            if workload is None:
                raise DeclarationError("--plan needs --workload")
            compared = known.plan_workload(workload, level)
            return Answer({"plan": compared.to_dicts()}, [_ABOUT_PLAN, rows_table(compared)])
        if out is not None:
            with opened.state() as state:
                refuse_to_replace(out, {"store": state.store_id, "series": series, "name": name})
        released = known.release_workload(
            name, workload, level=level, strategy=strategy, post_processing=post_processing, who=who
        )
    if out is not None:
        write_committed(released, out)
    metadata = dict(released.metadata)
    data: dict[str, Any] = {"release": name, "rows": len(released), "out": None if out is None else str(out)}
    data["metadata"] = metadata
    shown: list[RenderableType] = [
        f"[bold]release {name}[/] of {series}: {counted(len(released), 'row')}",
        parameters_table(_rows(metadata)),
    ]
    if head > 0:
        data["head"] = released.frame.head(head).to_dicts()
        shown.append(rows_table(released.frame.head(min(head, MOST_ROWS)), keys=metadata["key"]))
    again = "committed to the store, written nowhere: give --out to write it, now or later"
    shown.append(again if out is None else f"written to {escape(str(out))}")
    return Answer(data, shown)


def _rows(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters one reads an answer by."""
    return [
        ("workload", f"{metadata['workload']}, by {metadata['strategy']}"),
        ("level", f"{metadata['level']} ({metadata['guarantee']}, for {metadata['neighbours']})"),
        (
            "noise",
            f"{metadata['noise']}, standard deviation of an answer {metadata['std']:.4g} units (root mean square)",
        ),
        ("post-processing", ", ".join(metadata["post_processing"]) or "none"),
    ]
