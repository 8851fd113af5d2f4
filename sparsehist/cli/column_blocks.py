"""Tables wider than the terminal: as many columns as fit side by side, the others below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions


def blocks(table: Table, console: Console, width: int) -> Iterator[Table]:
    """Cut a table into tables of all its rows that fit a width.

    A column that does not fit by itself is folded.

    Args:
        table: Whose columns have a least width.
        console: Where it is to be drawn.
        width: In characters.
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
