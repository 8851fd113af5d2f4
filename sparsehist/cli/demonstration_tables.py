"""What the demonstration shows: the releases side by side, the ledger, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import polars as pl
from rich import box
from rich.console import RenderableType
from rich.table import Table

from sparsehist.cli.tables import MISSING, escape, printable
from sparsehist.privacy import as_level, level_text
from sparsehist.report.side_by_side import coarse_to_fine, newly_published
from sparsehist.series.release import Release

_LARGEST, _NEW, _FALSE, _WIDEST_TITLE = 6, 3, 5, 28
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")


def shown_demo(
    released: Sequence[Release], rows: pl.DataFrame, directory: Path, *, cost: str
) -> list[RenderableType]:
    """Lay out the demonstration.

    Args:
        released: In the order they were made.
        rows: From `side_by_side`, with the catalogue's title; null where the catalogue has no such key.
        directory: Where the files are.
        cost: What the ledger of the store shows, exact text.
    """
    metadata = released[0].metadata
    size = _power(int(metadata["domain_size"]))
    return [
        "[bold]One log, one series, three releases out of order[/]",
        "",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"A unit is a visitor, a key is an area. Domain: printable ASCII of at most 32 bytes, {size} keys.",
        f"max_keys = {metadata['max_keys']}: few people open more areas in a week, and noise grows with its root.",
        counts_table(released, rows),
        *_reading(rows),
        ledger_table(released),
        f"The store's ledger shows {cost} for the three: a coarser release is made from the noise of a finer one",
        "and adds nothing to it. Ask for a name again and the same numbers come back, at no cost.",
        "",
        f"Store (secret):      {escape(str(directory / 'store'))}",
        f"Releases (public):   {escape(str(directory))}/{{{','.join(release.name for release in released)}}}.parquet",
        f"Read one in Python:  sparsehist.read('{escape(str(directory))}/public.parquet').frame",
    ]


def counts_table(released: Sequence[Release], rows: pl.DataFrame) -> Table:
    """Noisy counts side by side, the most private first, and what one reads them by."""
    ordered = coarse_to_fine(released)
    names = [release.name for release in ordered]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), title_justify="left", pad_edge=False)
    for column in ("title", "key"):  # these give way on a narrow terminal, never the numbers
        table.add_column(column, overflow="fold")
    for release in ordered:
        made = _ORDINALS[[other.name for other in released].index(release.name)]
        heading = f"{release.name}\nρ = {release.metadata['level']}\nmade {made}"
        table.add_column(heading, justify="right", no_wrap=True)
    known, unknown = rows.filter(pl.col("title").is_not_null()), rows.filter(pl.col("title").is_null())
    first, *finer = newly_published(known, names)
    _add_rows(table, first, _LARGEST, names)
    for release, new in zip(ordered[1:], finer, strict=True):
        _add_heading(table, f"only from ρ = {release.metadata['level']} on", len(names))
        _add_rows(table, new, _NEW, names)
    if unknown.height:
        _add_heading(table, "not in the site's catalogue", len(names), "false keys")
        _add_rows(table, unknown, _FALSE, names)
    table.add_section()
    for label, values in _parameters(ordered, unknown).items():
        table.add_row(f"[bold]{label}[/]", "", *values)
    return table


def ledger_table(released: Sequence[Release]) -> Table:
    """What the releases cost together after each of them, and what independent ones would."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("release, in the order made")
    for heading in ("ρ", "spent so far", "if drawn independently"):
        table.add_column(heading, justify="right")
    finest = total = Fraction(0)
    for release in released:
        level = as_level(release.metadata["level"])
        finest, total = max(finest, level), total + level
        table.add_row(release.name, level_text(level), f"[bold]{level_text(finest)}[/]", level_text(total))
    return table


def _reading(rows: pl.DataFrame) -> list[str]:
    false_keys = rows.filter(pl.col("title").is_null()).height
    found = {0: "none was published", 1: "one was published"}.get(false_keys, f"{false_keys} were published")
    return [
        f"{MISSING} is not published: the noisy count is at or below that release's threshold.",
        f"Each threshold lets one empty key of the whole domain through on average; here {found}.",
        "The noise is the same for every key of a release; its standard deviation (std) is in visitors.",
    ]


def _parameters(ordered: Sequence[Release], unknown: pl.DataFrame) -> dict[str, list[str]]:
    found = {release.name: unknown[release.name].count() for release in ordered}
    return {
        "rows published": [f"{len(release):,}" for release in ordered],
        "std of the noise": [f"{release.metadata['std']:,.2f}" for release in ordered],
        "threshold": [f"{release.metadata['threshold']:,.1f}" for release in ordered],
        "false keys expected": [f"{release.metadata['expected_false_keys']:.2f}" for release in ordered],
        "false keys found": [str(found[release.name]) for release in ordered],
    }


def _add_heading(table: Table, text: str, n_columns: int, what: str = "") -> None:
    table.add_section()
    table.add_row(f"[dim]{text}[/]", f"[dim]{what}[/]", *[""] * n_columns)


def _add_rows(table: Table, rows: pl.DataFrame, n: int, names: Sequence[str]) -> None:
    for row in rows.head(n).iter_rows(named=True):  # a handful, published
        title = escape(_shortened(row["title"] or ""))
        counts = [MISSING if row[name] is None else f"{row[name]:,.1f}" for name in names]
        table.add_row(title, escape(printable(row["url"])), *counts)
    if rows.height > n:
        table.add_row(f"[dim]… and {rows.height - n:,} more[/]", *[""] * (len(names) + 1))


def _shortened(title: str) -> str:
    return title if len(title) <= _WIDEST_TITLE else f"{title[: _WIDEST_TITLE - 1].rstrip()}…"


def _power(size: int) -> str:
    digits = str(size)
    return f"{digits[0]}.{digits[1:3]}·10^{len(digits) - 1}"
