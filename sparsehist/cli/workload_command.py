"""The command that releases workloads, as it is parsed and explained; its work is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.parameters import SeriesName, StorePath, Wait, Who

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparsehist.series.release import WorkloadRelease
    from sparsehist.series.series_handle import Series


_ABOUT_PLAN = (
    "Nothing was released. std: root of the mean variance of a query, in units.\n"
    "lower_bound: what no factorization goes below at one key a unit; ratio: of the variances."
)


def release_workload(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    name: Annotated[str, Parameter(help="Name of the release, unique over the series: a-z, 0-9 and _.")],
    workload: Annotated[
        str | None,
        Parameter(
            help="What is asked: prefix(), ranges(), \"ranges(keys=[('2024-01-01', '2024-01-31')])\", "
            "identity(), total(), marginals(k=2), \"marginals([['country'], ['country', 'day']])\", kronecker(…, …), "
            "union(…, …). Needed for a new name."
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
    from sparsehist.cli.commands import released_answer

    if plan:
        return _compared(store, series, workload, level, wait)

    def release(known: Series) -> WorkloadRelease:
        return known.release_workload(
            name, workload, level=level, strategy=strategy, post_processing=post_processing, who=who
        )

    return released_answer(store, series, name, release, _rows, out=out, head=head, wait=wait)


def _compared(store: Path, series: str, workload: str | None, level: str | None, wait: float) -> Answer:
    """What each strategy would do; nothing is released."""
    import polars as pl

    from sparsehist.cli.commands import opening
    from sparsehist.cli.tables import rows_table
    from sparsehist.errors import DeclarationError

    if workload is None:
        raise DeclarationError("--plan needs --workload")
    with opening(store, wait) as opened:
        compared = opened.series(series).plan_workload(workload, level)
    marked = compared.with_columns(chosen=pl.when("chosen").then(pl.lit("*")).otherwise(pl.lit("")))
    return Answer({"plan": compared.to_dicts()}, [_ABOUT_PLAN, rows_table(marked)])


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
