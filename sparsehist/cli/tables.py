"""Tables for people: plain lines when piped, colours on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["escape", "parameters_table", "printable", "rows_table"]

MISSING = "—"


def parameters_table(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and values, without a frame."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(printable(value)))
    return table


def rows_table(frame: pl.DataFrame, *, keys: Sequence[str] = (), exact: bool = False) -> Table:
    """A short frame as a table: numbers to the right, nulls as a dash; keys, and all if `exact`, as they are."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name, dtype in frame.schema.items():
        table.add_column(
            name, justify="right" if dtype.is_numeric() else "left", overflow="fold", min_width=len(name)
        )
    writers = [str if name in keys and dtype.is_integer() else cell_text for name, dtype in frame.schema.items()]
    writers = [exact_text] * frame.width if exact else writers
    for row in frame.iter_rows():  # a screenful, already published
        table.add_row(*(escape(write(value)) for write, value in zip(writers, row, strict=True)))
    return table


def cell_text(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else printable(str(value))


def exact_text(value: Any) -> str:
    """A value as it is: to be copied, not read."""
    return MISSING if value is None else printable(str(value))


def printable(text: str) -> str:
    """The text with control and invisible characters escaped: a false key may be any string."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
