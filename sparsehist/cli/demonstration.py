"""The command demo: a real log, three levels out of order, one series."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter
from rich.markup import escape

import sparsehist as sh
from sparsehist.cli.answer import MISSING, Answer, rows_table
from sparsehist.errors import NameTakenError, NotFoundError
from sparsehist.privacy import level_text
from sparsehist.report.side_by_side import coarse_to_fine, side_by_side
from sparsehist.store import LEDGER_NAME
from sparsehist.store.statements import shipped

RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level in the order they are made: coarse, fine, then between."""
_DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"
_MARKER, _STORE, _REPORT = "this-is-a-sparsehist-demo", "store", "report.html"
_LARGEST, _NEW, _WIDEST_TITLE = 6, 3, 28


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
    released = [series.release(name, level=level, false_keys=1) for name, level in RELEASES]
    files = [directory / f"{each.name}.parquet" for each in released]
    for each, file in zip(released, files, strict=True):
        each.write_parquet(file)
    areas = pl.read_csv(shipped("data") / "msweb_catalogue.csv")
    cost = series.store.ledger().filter(pl.col("scope") == "population")["level"].item()
    independent = level_text(sum((each.level for each in released), Fraction(0)))
    where = escape(str(directory))
    shown = [
        "[bold]One log, one series, three releases out of order: public, partner, internal[/]\n",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"Unit: a visitor. Key: an area. Domain: {_DOMAIN}, {series.declaration.domain.describe_size()}.",
        rows_table(_largest_keys(released, areas)),
        f"{MISSING} is not published: the noisy count is at or below that release's threshold.",
        rows_table([_parameters(each, areas["url"]) for each in coarse_to_fine(released)]),
        "Each threshold lets one empty key of the domain through on average; the default is 0.01.",
        f"\n[bold]Together they cost ρ = {cost}[/], as the finest alone; independent noise would cost {independent}.",
        "Ask for a name again and the same numbers come back, at no cost.\n",
        f"Store (secret):      {where}/{_STORE}",
        f"Releases (public):   {where}: {', '.join(file.name for file in files)}",
        _report(directory),
        f"Read one in Python:  sparsehist.read('{where}/public.parquet').frame",
    ]
    data = {
        "directory": str(directory), "store": str(directory / _STORE), "cost": cost, "files": list(map(str, files)),
        "releases": [{**each.metadata, "rows": len(each)} for each in released],
    }  # fmt: skip
    return Answer(data, shown)


def _prepare(directory: Path) -> None:
    """Make the directory, or clear the demo that is in it; touch nothing else."""
    marker = directory / _MARKER
    if directory.exists() and not marker.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise NameTakenError(f"{directory} is not empty and no earlier demo; choose another place with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("sparsehist demo replaces what it made in this directory.\n", encoding="utf-8")
    shutil.rmtree(directory / _STORE, ignore_errors=True)
    for name in (f"{_STORE}.generation", LEDGER_NAME, _REPORT, *(f"{name}.parquet" for name, _ in RELEASES)):
        (directory / name).unlink(missing_ok=True)


def _report(directory: Path) -> str:
    try:
        page = sh.open(directory / _STORE).report()
    except NotFoundError as missing:
        return escape(str(missing))
    (directory / _REPORT).write_text(page, encoding="utf-8")
    return f"Report (public):     {escape(str(directory / _REPORT))}"


def _largest_keys(released: Sequence[sh.Release], areas: pl.DataFrame) -> list[dict[str, Any]]:
    """Return noisy counts side by side: the largest keys, then some that only a finer release publishes."""
    names = [release.name for release in coarse_to_fine(released)]
    known = side_by_side(released, ["url"]).join(areas, on="url", how="inner", maintain_order="left")
    first = pl.coalesce(pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in names)
    rows = pl.concat([known.filter(first == name).head(_LARGEST if name == names[0] else _NEW) for name in names])
    return rows.select(pl.col("title").str.slice(0, _WIDEST_TITLE), "url", *names).to_dicts()


def _parameters(release: sh.Release, areas: pl.Series) -> dict[str, Any]:
    about = release.metadata
    return {
        "release": release.name, "ρ": about["level"], "rows published": len(release), "std (visitors)": about["std"],
        "threshold": about["threshold"], "false keys expected": about["expected_false_keys"],
        "false keys published": int((~release.frame["url"].is_in(areas.implode())).sum()),
    }  # fmt: skip
