"""Tables as HTML, all text escaped: for the report and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import isfinite

from sparsehist.errors import SparsehistError, printable

ABOUT = ("parameter", "value")


def escaped(value: object) -> str:
    """Text for HTML and its attributes; control and bidirectional characters are written out."""
    return escape(printable(str(value)))


def shown(value: object, digits: int = 4) -> str:
    """A value for people: numbers rounded, a dash for None."""
    if value is None:
        return "—"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    size = abs(value)
    if not isfinite(value) or size >= 10**15 or 0 < size < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 or value == int(value) else f"{value:.{digits}g}"


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A table whose rows begin with their heads; the last `numbers` columns stand to the right.

    Roles and labels of cells let a style sheet lay it out as cards on a small screen.
    """
    first = len(heads) - numbers
    classes = [' class="n"' if i >= first else "" for i in range(len(heads))]
    told = list(map(escaped, heads))
    lines = [f'<table role="table">\n<caption>{escaped(caption)}</caption>', '<thead role="rowgroup"><tr role="row">']
    lines += [
        f'<th role="columnheader" scope="col"{one}>{head}</th>' for head, one in zip(told, classes, strict=True)
    ]
    lines.append('</tr></thead>\n<tbody role="rowgroup">')
    for row in rows:  # a screenful, public
        head, *cells = map(escaped, row)
        lines.append(f'<tr role="row">\n<th role="rowheader" scope="row"><bdi>{head}</bdi></th>')
        lines += [
            f'<td role="cell" data-label="{label}"{one}><bdi>{cell}</bdi></td>'
            for label, one, cell in zip(told[1:], classes[1:], cells, strict=True)
        ]
        lines.append("</tr>")
    return "\n".join([*lines, "</tbody>\n</table>"])


def table_of_dicts(caption: str, rows: Sequence[Mapping[str, object]]) -> str:
    """A table of rows that have the same keys."""
    heads = list(rows[0]) if rows else ["nothing yet"]
    return html_table(caption, heads, (list(map(shown, row.values())) for row in rows))


def in_notebook(value: object, tables: Callable[[], Iterable[str]]) -> str:
    """The tables of a value, or its repr if they cannot be made."""
    try:
        return "\n".join(tables())
    except SparsehistError:
        return f"<pre>{escaped(repr(value))}</pre>"
