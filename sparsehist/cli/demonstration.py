"""`sparsehist demo`: a real log, three levels out of order, one series."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from fractions import Fraction
from io import StringIO
from pathlib import Path

import polars as pl
from rich import box
from rich.console import (  # type: ignore[attr-defined]  # its documentation names the format of pictures there
    CONSOLE_SVG_FORMAT,
    Console,
    RenderableType,
)
from rich.table import Table
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

import sparsehist as sh
from sparsehist.cli.answer import PIPED_WIDTH, Answer, print_shown
from sparsehist.cli.tables import MISSING, escape, printable
from sparsehist.declaration.checks import checked_output
from sparsehist.errors import NameTakenError, NotFoundError, StoreError, of_kind
from sparsehist.privacy import level_text
from sparsehist.release.metadata import CellMetadata, read_metadata
from sparsehist.release.releases import Release
from sparsehist.report.side_by_side import coarse_to_fine, newly_published, side_by_side
from sparsehist.store import LEDGER_NAME
from sparsehist.store.statements import shipped

MAX_KEYS = 10
DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"
RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level in the order they are made: coarse, fine, then between."""

_MARKER = "this-is-a-sparsehist-demo"
_STORE, _REPORT = "store", "report.html"
_LARGEST, _NEW, _FALSE, _WIDEST_TITLE = 6, 3, 5, 28
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")
# Rich's own picture of a terminal, without the fonts that it would fetch from elsewhere.
_SVG = re.sub(r"<!--.*?-->|@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def demonstrate(directory: Path, *, picture: Path | None = None) -> Answer:
    """Release the shipped log three times and show what came out."""
    if picture is not None:
        checked_output("--picture writes SVG", picture, (".svg",))
    _prepare(directory)
    catalogue = pl.read_csv(shipped("data") / "msweb_catalogue.csv")
    released, cost = _release_log(directory)
    rows = side_by_side(released).join(catalogue, on="url", how="left", maintain_order="left")
    shown = shown_demo(released, rows, directory, cost=cost)
    shown.append(_report(directory))
    if picture is not None:
        save_picture(shown, picture)
    data = {
        "directory": str(directory),
        "store": str(directory / _STORE),
        "files": [str(directory / f"{release.name}.parquet") for release in released],
        "cost": cost,
        "releases": [{**release.metadata, "rows": len(release)} for release in released],
    }
    return Answer(data, shown)


def _release_log(directory: Path) -> tuple[list[Release], str]:
    """Create the series, release it, write the files; the releases in the order made, and what they cost."""
    series = sh.create(
        directory / _STORE, shipped("data") / "msweb_1998.csv", name="visits", unit="user_id", key="url",
        max_keys=MAX_KEYS, domain=DOMAIN, cap="0.5", counting=sh.Counting(progress=False),
    )  # fmt: skip
    released = []
    for name, level in RELEASES:
        release = series.release(name, level=level, false_keys=1)
        release.write_parquet(directory / f"{name}.parquet")
        released.append(release)
    ledger = series.store.ledger()
    return released, str(ledger.filter(pl.col("scope") == "population")["level"].item())


def _report(directory: Path) -> str:
    """Write the report, and say where it is or what it needs."""
    try:
        page = sh.open(directory / _STORE).report()
    except NotFoundError as missing:
        return escape(str(missing))
    (directory / _REPORT).write_text(page, encoding="utf-8")
    return f"Report (public):     {escape(str(directory / _REPORT))}"


def _prepare(directory: Path) -> None:
    """Make the directory, or clear the demo that is in it; touch nothing else."""
    marker = directory / _MARKER
    try:
        if directory.is_dir() and any(directory.iterdir()) and not marker.exists():
            raise NameTakenError(f"{directory} is not empty and no earlier demo; choose another place with --dir")
        if directory.exists() and not directory.is_dir():
            raise NameTakenError(f"{directory} is a file; choose another place with --dir")
        directory.mkdir(parents=True, exist_ok=True)
        marker.write_text("sparsehist demo replaces what it made in this directory.\n", encoding="utf-8")
        shutil.rmtree(directory / _STORE, ignore_errors=True)
        made = [f"{name}.parquet" for name, _ in RELEASES]
        for name in (f"{_STORE}.generation", LEDGER_NAME, *made, _REPORT):
            (directory / name).unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot write {directory}: {problem.strerror}") from None


def shown_demo(
    released: Sequence[Release], rows: pl.DataFrame, directory: Path, *, cost: str
) -> list[RenderableType]:
    """Lay out the demonstration."""
    about = _about(released[0])
    size = _power(int(about.domain_size or 0))
    return [
        "[bold]One log, one series, three releases out of order[/]",
        "",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"A unit is a visitor, a key is an area. Domain: printable ASCII of at most 32 bytes, {size} keys.",
        f"max_keys = {about.max_keys}: few people open more areas in a week, and noise grows with its root.",
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
        heading = f"{release.name}\nρ = {level_text(release.level)}\nmade {made}"
        table.add_column(heading, justify="right", no_wrap=True)
    known, unknown = rows.filter(pl.col("title").is_not_null()), rows.filter(pl.col("title").is_null())
    first, *finer = newly_published(known, names)
    _add_rows(table, first, _LARGEST, names)
    for release, new in zip(ordered[1:], finer, strict=True):
        _add_heading(table, f"only from ρ = {level_text(release.level)} on", len(names))
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
        level = release.level
        finest, total = max(finest, level), total + level
        table.add_row(release.name, level_text(level), f"[bold]{level_text(finest)}[/]", level_text(total))
    return table


def _reading(rows: pl.DataFrame) -> list[str]:
    false_keys = rows.filter(pl.col("title").is_null()).height
    found = {0: "none was published", 1: "one was published"}.get(false_keys, f"{false_keys} were published")
    return [
        f"{MISSING} is not published: the noisy count is at or below that release's threshold.",
        f"Each threshold lets one empty key of the whole domain through on average; here {found}.",
        "That is on purpose: by default it is one in a hundred releases.",
        "The noise is the same for every key of a release; its standard deviation (std) is in visitors.",
    ]


def _about(release: Release) -> CellMetadata:
    return of_kind(read_metadata(release.metadata), CellMetadata)


def _parameters(ordered: Sequence[Release], unknown: pl.DataFrame) -> dict[str, list[str]]:
    found = {release.name: unknown[release.name].count() for release in ordered}
    return {
        "rows published": [f"{len(release):,}" for release in ordered],
        "std of the noise": [f"{_about(release).std:,.2f}" for release in ordered],
        "threshold": [f"{release.threshold:,.1f}" for release in ordered],
        "false keys expected": [f"{_about(release).expected_false_keys:.2f}" for release in ordered],
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


def save_picture(shown: Sequence[RenderableType], path: Path) -> None:
    """Write what would be printed on a terminal of 100 columns."""
    console = Console(
        width=PIPED_WIDTH, record=True, force_terminal=True, file=StringIO(), highlight=False, emoji=False
    )
    print_shown(console, shown)
    text = console.export_svg(
        title="sparsehist demo", theme=DEFAULT_TERMINAL_THEME, code_format=_SVG, unique_id="demo"
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}") from None
