"""The command `release`, which releases a series or writes an existing release to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsehist.cli.answer import Answer, parameter_lines, rows_table
from sparsehist.cli.options import (
    DEFAULT,
    LevelOptions,
    PublishedOptions,
    SeriesName,
    StorePath,
    Using,
    Workload,
    arguments,
)
from sparsehist.errors import InputError, StoreError
from sparsehist.release import any_kind
from sparsehist.release.metadata import read_metadata, release_rows
from sparsehist.release.release_files import check_target

MOST_ROWS = 1000


def release(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    name: str,
    at: LevelOptions | None = None,
    published: PublishedOptions | None = None,
    workload: Workload = None,
    strategy: str | None = None,
    out: Path | None = None,
    head: Annotated[int, Parameter(validator=Number(gte=0, lte=MOST_ROWS))] = 0,
    using: Using = DEFAULT,
) -> Answer:
    r"""Release a series at a level, or write an existing release to a file.

    All releases of the cells of a series, in any order, together cost as much as the
    finest release. With --workload, sums over keys are released. Each workload is a
    separate noise path, and its cost is added to the cost of the cells.

    For example:
      sparsehist release logs.sparsehist --series queries --name public \
          --level 0.01 --out public.parquet
      sparsehist release logs.sparsehist --series visits --name by_hour \
          --workload 'ranges()' --epsilon 1 --delta 1e-6 --out by_hour.parquet

    Args:
        name: Name of the release: a-z, 0-9 and _. The same name always gives the same numbers, at no further cost.
        strategy: With --workload: the strategy that answers it; by default the strategy with the least mean error.
        out: File to write: .parquet, .json or .arrow with metadata, or .csv.
        head: Also print this many of the largest rows.
    """
    if out is not None:  # refuse a wrong path before anything is drawn
        check_target("--out", out, store)
    options = arguments(at, published, workload=workload, strategy=strategy)
    released = any_kind.release(using.home(store), series, None, name, target=out, **options)
    where = "committed to the store; pass --out to write a file, now or later"
    if out is not None:
        try:
            released.write(out)
        except (StoreError, InputError) as problem:
            problem.args = (f"{problem}. The release is committed to the store: repeat the command to write it",)
            raise
        where = f"written to {out}"
    status = "repeated" if released.repeated else "released"
    data = {"release": name, "status": status, "rows": len(released), "out": out, "metadata": released.metadata}
    before = ", released before: nothing is spent" if released.repeated else ""
    shown: list[Any] = [
        f"release {name} of {series}: rows: {len(released):,}{before}",
        parameter_lines(release_rows(read_metadata(released.metadata))),
    ]
    if head:
        data["head"] = rows = released.frame.head(head).to_dicts()
        shown.append(rows_table(rows, exact=True))
    return Answer(data, [*shown, where])
