"""The command demo: a real log, three levels out of order, one series."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
from cyclopts import Parameter
from rich import box
from rich.table import Table

import sparsehist as sh
from sparsehist.cli.answer import Answer
from sparsehist.cli.tables import MISSING, escape, printable
from sparsehist.errors import NameTakenError, NotFoundError, of_kind
from sparsehist.privacy import level_text
from sparsehist.release.metadata import CellMetadata, read_metadata
from sparsehist.report.side_by_side import coarse_to_fine, newly_published, side_by_side
from sparsehist.store import LEDGER_NAME
from sparsehist.store.statements import shipped

if TYPE_CHECKING:
    from rich.console import RenderableType

RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level in the order they are made: coarse, fine, then between."""
_MAX_KEYS = 10
_DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"
_MARKER, _STORE, _REPORT = "this-is-a-sparsehist-demo", "store", "report.html"
_LARGEST, _NEW, _WIDEST_TITLE = 6, 3, 28


def demo(
    *,
    directory: Annotated[
        Path, Parameter("--dir", help="Where to leave store and releases; an earlier demo there is replaced.")
    ] = Path(".demo"),
) -> Answer:
    """Release a real log at three levels, out of order, and show them side by side.

    The log ships with the package: a week of visits to the areas of a web site by
    37,711 people (CC BY 4.0). Takes a few seconds and needs no network.

    For example:
      sparsehist demo
    """
    _prepare(directory)
    series = sh.create(
        directory / _STORE, shipped("data") / "msweb_1998.csv", name="visits", unit="user_id", key="url",
        max_keys=_MAX_KEYS, domain=_DOMAIN, cap="0.5", counting=sh.Counting(progress=False),
    )  # fmt: skip
    released = [series.release(name, level=level, false_keys=1) for name, level in RELEASES]
    for each in released:
        each.write_parquet(directory / f"{each.name}.parquet")
    cost = series.store.ledger().filter(pl.col("scope") == "population")["level"].item()
    titles = pl.read_csv(shipped("data") / "msweb_catalogue.csv")
    rows = side_by_side(released).join(titles, on="url", how="left", maintain_order="left")
    independent = level_text(sum((each.level for each in released), Fraction(0)))
    names = ", ".join(f"{each.name}.parquet" for each in released)
    shown: list[RenderableType] = [
        "[bold]One log, one series, three releases out of order[/]\n",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"Unit: a visitor. Key: an area. Domain: {_DOMAIN}, {series.declaration.domain.describe_size()}.",
        counts_table(released, rows),
        f"{MISSING} is not published: the noisy count is at or below that release's threshold.",
        "Each threshold lets one empty key of the domain through on average; the default is 0.01.",
        f"\n[bold]Together they cost ρ = {cost}[/], as the finest alone; independent noise would cost {independent}.",
        "Ask for a name again and the same numbers come back, at no cost.\n",
        f"Store (secret):      {escape(str(directory / _STORE))}",
        f"Releases (public):   {escape(str(directory))}: {names}",
        _report(directory),
        f"Read one in Python:  sparsehist.read('{escape(str(directory))}/public.parquet').frame",
    ]
    data = {
        "directory": str(directory), "store": str(directory / _STORE), "cost": cost,
        "files": [str(directory / f"{each.name}.parquet") for each in released],
        "releases": [{**each.metadata, "rows": len(each)} for each in released],
    }  # fmt: skip
    return Answer(data, shown)


def _prepare(directory: Path) -> None:
    """Make the directory, or clear the demo that is in it; touch nothing else."""
    marker = directory / _MARKER
    if directory.exists() and not directory.is_dir():
        raise NameTakenError(f"{directory} is a file; choose another place with --dir")
    if directory.is_dir() and any(directory.iterdir()) and not marker.exists():
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


def counts_table(released: Sequence[sh.Release], rows: pl.DataFrame) -> Table:
    """Noisy counts side by side, the most private release first, and their parameters."""
    ordered = coarse_to_fine(released)
    names = [release.name for release in ordered]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in ("title", "key"):  # these give way on a narrow terminal, the numbers do not
        table.add_column(column, overflow="fold")
    for release in ordered:
        order = [other.name for other in released].index(release.name) + 1
        heading = f"{release.name}\nρ = {level_text(release.level)}\nmade as no. {order}"
        table.add_column(heading, justify="right", no_wrap=True)
    unknown = rows.filter(pl.col("title").is_null())
    for release, found in zip(
        ordered, newly_published(rows.filter(pl.col("title").is_not_null()), names), strict=True
    ):
        if release is not ordered[0]:
            table.add_section()
            table.add_row(f"[dim]only from ρ = {level_text(release.level)} on[/]")
        most = _LARGEST if release is ordered[0] else _NEW
        for row in found.head(most).to_dicts():  # a handful, published
            title = row["title"] if len(row["title"]) <= _WIDEST_TITLE else f"{row['title'][: _WIDEST_TITLE - 1]}…"
            counts = [MISSING if row[name] is None else f"{row[name]:,.1f}" for name in names]
            table.add_row(escape(title), escape(printable(row["url"])), *counts)
        if found.height > most:
            table.add_row(f"[dim]… and {found.height - most:,} more[/]")
    table.add_section()
    abouts = [of_kind(read_metadata(release.metadata), CellMetadata) for release in ordered]
    about = {
        "rows published": [f"{len(release):,}" for release in ordered],
        "std of the noise (visitors)": [f"{each.std:,.2f}" for each in abouts],
        "threshold": [f"{each.threshold:,.1f}" for each in abouts],
        "false keys expected": [f"{each.expected_false_keys:.2f}" for each in abouts],
        "false keys published": [str(unknown[name].count()) for name in names],
    }
    for label, values in about.items():
        table.add_row(f"[bold]{label}[/]", "", *values)
    return table
