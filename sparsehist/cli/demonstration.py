"""The command demo: a real log, three levels out of order, one series."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter
from rich.markup import escape

import sparsehist as sh
from sparsehist.cli.answer import MISSING, Answer, rows_table
from sparsehist.errors import NameTakenError
from sparsehist.privacy import level_text
from sparsehist.report.side_by_side import coarse_to_fine, side_by_side
from sparsehist.store import LEDGER_NAME
from sparsehist.store.statements import shipped

RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level in the order they are made: coarse, fine, then between."""
_DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"
_MARKER, _STORE = "this-is-a-sparsehist-demo", "store"


def demo(*, directory: Annotated[Path, Parameter("--dir")] = Path(".demo")) -> Answer:
    """Release a real log at three levels, out of order, and show them side by side.

    The log ships with the package: a week of visits to the areas of a web site by
    37,711 people (CC BY 4.0). Takes a few seconds and needs no network.

    For example:
      sparsehist demo

    Args:
        directory: Where to leave store and releases; an earlier demo there is replaced.
    """
    _prepare(directory)
    series = sh.create(
        directory / _STORE, shipped("data") / "msweb_1998.csv", name="visits", unit="user_id", key="url",
        max_keys=10, domain=_DOMAIN, cap="0.5", counting=sh.Counting(progress=False),
    )  # fmt: skip
    made = [series.release(name, level=level, false_keys=1) for name, level in RELEASES]
    for release in made:
        release.write_parquet(directory / f"{release.name}.parquet")
    cost = series.store.ledger().filter(scope="population")["level"].item()
    independent = level_text(sum((release.level for release in made), Fraction(0)))
    titles = pl.read_csv(shipped("data") / "msweb_catalogue.csv").select(pl.col("title").str.head(28), "url")
    largest = titles.join(side_by_side(made, ["url"]), on="url", maintain_order="right")
    # The largest keys, then some that only finer releases publish.
    finer = (largest.filter(pl.col("public").is_null()), largest.filter(pl.col("internal").is_null()))
    largest = pl.concat([largest.head(6), *(rows.head(3) for rows in finer)])
    parameters = [
        {
            "release": each.name, "ρ": each.metadata["level"], "rows published": len(each),
            "std (visitors)": each.metadata["std"], "threshold": each.threshold,
        }
        for each in coarse_to_fine(made)
    ]  # fmt: skip
    where = escape(str(directory))
    shown = [
        "[bold]One log, one series, three releases out of order: public, partner, internal[/]\n",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"Unit: a visitor. Key: an area. Domain: {_DOMAIN}, {series.declaration.domain.describe_size()}.",
        rows_table(largest.to_dicts()),
        f"{MISSING} is not published: the noisy count is at or below that release's threshold.",
        rows_table(parameters),
        "Each threshold lets one empty key of the domain through on average; the default is 0.01.",
        f"\n[bold]Together they cost ρ = {cost}[/], as the finest alone; independent noise would cost {independent}.",
        "Ask for a name again and the same numbers come back, at no cost.\n",
        f"Store (secret):      {where}/{_STORE}",
        f"Releases (public):   {where}: {', '.join(f'{each.name}.parquet' for each in made)}",
        f"Report for people:   sparsehist report {where}/{_STORE} --out report.html",
        f"Read one in Python:  sparsehist.read('{where}/public.parquet').frame",
    ]
    released = [{**each.metadata, "rows": len(each)} for each in made]
    return Answer({"directory": str(directory), "cost": cost, "releases": released}, shown)


def _prepare(directory: Path) -> None:
    """Make the directory, or clear the demo that is in it; touch nothing else."""
    marker = directory / _MARKER
    if directory.exists() and not marker.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NameTakenError(f"{directory} is neither empty nor an earlier demo; choose another with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("sparsehist demo replaces what it made in this directory.\n", encoding="utf-8")
    shutil.rmtree(directory / _STORE, ignore_errors=True)
    for name in (f"{_STORE}.generation", LEDGER_NAME, *(f"{name}.parquet" for name, _ in RELEASES)):
        (directory / name).unlink(missing_ok=True)
