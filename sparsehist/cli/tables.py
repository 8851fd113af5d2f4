"""Tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sparsehist.errors import printable

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MISSING", "counted", "escape", "parameters_table", "printable", "rows_table", "significant"]

MISSING = "—"
_NUMBERS = {int, float, Decimal}
_LONGEST_CELL = 400  # characters


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
    """Rows of a frame, or mappings by column, as a table.

    Numbers are aligned right and null is a dash. Values of `keys`, and all if `exact`, are written as they are.
    """
    if isinstance(rows, Sequence):
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    else:
        columns = rows.to_dict(as_series=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    written = []
    for name, values in columns.items():  # a screenful, already published
        kinds = {type(value) for value in values} - {type(None)}
        write = _exact_text if exact else str if name in keys and kinds == {int} else _cell_text
        justify = "right" if kinds and kinds <= _NUMBERS else "left"
        table.add_column(escape(printable(name)), justify=justify, overflow="fold")  # type: ignore[arg-type]
        written.append([escape(write(value)) for value in values])
    for row in zip(*written, strict=True):
        table.add_row(*row)
    return table


def _cell_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _exact_text(value)


def _exact_text(value: Any) -> str:
    if value is None:
        return MISSING
    text = str(value)
    if len(text) <= _LONGEST_CELL:
        return printable(text)
    return f"{printable(text[:_LONGEST_CELL])}… ({len(text):,} characters)"


def significant(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with real numbers rounded to three digits."""
    return [
        {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def counted(n: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
