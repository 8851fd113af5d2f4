"""Tables for people: plain lines when piped, colours on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from sparsehist.errors import printable

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console, ConsoleOptions

__all__ = ["escape", "parameters_table", "printable", "rows_table"]

MISSING = "—"
_NUMBERS = {int, float, Decimal}
_WORD, _CELL = 40, 400  # characters: longer words, keys above all, may be broken, and longer cells are cut


def parameters_table(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and values, without a frame."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(printable(value)))
    return table


def rows_table(
    rows: pl.DataFrame | Sequence[Mapping[str, Any]], *, keys: Sequence[str] = (), exact: bool = False
) -> Table:
    """Some rows, of a frame or by column, as a table.

    Numbers stand to the right, nulls are a dash; keys, and everything if `exact`, are written as they are.
    """
    if isinstance(rows, Sequence):
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    else:
        columns = rows.to_dict(as_series=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    written = []
    for name, values in columns.items():  # a screenful, already published
        kinds = {type(value) for value in values} - {type(None)}
        write = exact_text if exact else str if name in keys and kinds == {int} else cell_text
        cells = [write(value) for value in values]
        table.add_column(
            escape(printable(name)),
            justify="right" if kinds and kinds <= _NUMBERS else "left",
            overflow="fold",
            min_width=_longest_word(name, *cells),
        )
        written.append(map(escape, cells))
    for row in zip(*written, strict=True):
        table.add_row(*row)
    return table


def _longest_word(*texts: str) -> int:
    """Room in which no word is broken, as far as words are."""
    return max(min(cell_len(word), _WORD) for text in texts for word in text.split() or [""])


def cell_text(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else exact_text(value)


def exact_text(value: Any) -> str:
    """A value as it is: to be copied, not read; the beginning of a very long one."""
    if value is None:
        return MISSING
    text = str(value)
    return printable(text) if len(text) <= _CELL else f"{printable(text[:_CELL])}… ({len(text):,} characters)"


def blocks(table: Table, console: Console, width: int) -> Iterator[Table]:
    """Cut a table whose columns have a least width into tables of all its rows that fit a width.

    A column that does not fit by itself is folded.
    """
    options = console.options.update(width=10 * (width + sum(column.min_width or 0 for column in table.columns)))
    first = 0
    while first < len(table.columns):
        last = first + 1
        while last < len(table.columns) and _needed(_part(table, first, last + 1), console, options) <= width:
            last += 1
        part = _part(table, first, last)
        if _needed(part, console, options) > width:
            part.columns[0].min_width = None
        yield part
        first = last


def _needed(table: Table, console: Console, options: ConsoleOptions) -> int:
    return Measurement.get(console, options, table).minimum


def _part(table: Table, first: int, last: int) -> Table:
    """Columns from `first` up to but not including `last`."""
    part = Table(box=table.box, padding=table.padding, show_header=table.show_header)
    part.columns = [replace(column, _index=i) for i, column in enumerate(table.columns[first:last])]
    part.rows = table.rows
    return part
