"""Make HTML tables for the report and for notebooks, with templates that escape all text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

from sparsehist.errors import SparsehistError, printable

if TYPE_CHECKING:
    from jinja2 import Environment

ABOUT = ("parameter", "value")


def shown(value: object, digits: int = 4) -> str:
    """Return a value as human-readable text: numbers are rounded, and None is a dash."""
    if value is None:
        return "—"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    size = abs(value)
    if not isfinite(value) or size >= 10**15 or 0 < size < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 or value == int(value) else f"{value:.{digits}g}"


@cache
def templates() -> Environment:
    """Return the Jinja environment of the templates, which escapes control and bidirectional characters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sparsehist", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    environment.filters["shown"] = shown
    return environment


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """Return an HTML table. The first column has row headings; the last `numbers` columns are right-aligned."""
    table = {"caption": caption, "heads": heads, "rows": rows, "first_number": len(heads) - numbers}
    return templates().get_template("table.html.jinja").render(table)


def table_of_dicts(caption: str, rows: Sequence[Mapping[str, object]], numbers: int = 0) -> str:
    """Return an HTML table of dicts with the same keys; see `html_table`."""
    heads = list(rows[0]) if rows else ["nothing yet"]
    return html_table(caption, heads, (list(map(shown, row.values())) for row in rows), numbers)


def in_notebook(value: object, tables: Callable[[], Iterable[str]]) -> str:
    """Return the HTML tables that `tables` makes for a value; if `tables` fails, return the repr of the value."""
    try:
        return "\n".join(tables())
    except SparsehistError:
        return templates().from_string("<pre>{{ value }}</pre>").render(value=repr(value))
