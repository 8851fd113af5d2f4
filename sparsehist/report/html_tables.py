"""Tables as HTML, all text escaped: those of the report, and what notebooks show of stores, series and releases.

What is shown is public: declarations, the ledger, metadata and published rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from sparsehist.errors import SparsehistError, printable
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import for_people, ledger_rows
from sparsehist.release.metadata import read_metadata
from sparsehist.release.pipeline import published
from sparsehist.release.planning import Plan
from sparsehist.release.releases import Release
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.report.parameter_rows import declaration_rows, keys_text, release_rows
from sparsehist.series.periodic_series import PeriodicSeries
from sparsehist.series.series_handle import StoredSeries
from sparsehist.series.store_handle import Store

if TYPE_CHECKING:
    from sparsehist.store import State

_ROWS_SHOWN = 10
_ABOUT = ("parameter", "value")


def escaped(value: object) -> str:
    """Text for HTML and its attributes; control and bidirectional characters are written out."""
    return escape(printable(str(value)))


def shown(value: object, digits: int = 4) -> str:
    """A value for people: numbers rounded, a dash where there is none."""
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


def in_notebook(value: object) -> str:
    """What a notebook shows of a store, a series, a release, a plan or a ledger; their repr where that fails."""
    try:
        return "\n".join(_tables(value))
    except SparsehistError:
        return f"<pre>{escaped(repr(value))}</pre>"


@singledispatch
def _tables(value: object) -> Iterator[str]:
    """The tables of a value."""
    raise SparsehistError(f"no tables of {type(value).__name__}")


@_tables.register
def _(value: Store) -> Iterator[str]:
    with value._hold() as state:
        ledger, rows = Ledger.of(state), _series(state)
    heads = ("series", "unit", "key", "max_keys", "domain", "noise", "cap", "population", "releases")
    yield html_table(repr(value), heads, rows, 1)
    yield from _tables(ledger)


def _series(state: State) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for record in state.all_series():
        told = declaration_of(record)
        domain = f"{told.domain.describe()}, {keys_text(told.domain)}"
        unit = told.unit_text or "bounded elsewhere"
        declared = (told.max_keys, domain, told.noise, told.cap_text or "none", told.population)
        found.append((told.name, unit, ", ".join(told.key), *declared, len(published(state, record))))
    return found


@_tables.register
def _(value: StoredSeries) -> Iterator[str]:
    yield html_table(f"Series {value.name}", _ABOUT, declaration_rows(value.declaration))
    yield _of_dicts("Its releases", value._listing())


@_tables.register
def _(value: PeriodicSeries) -> Iterator[str]:
    yield html_table(f"Periods of {value.name}", _ABOUT, declaration_rows(value.declaration))
    yield _of_dicts("What they cost", for_people([value.progress()]))


@_tables.register
def _(value: Release) -> Iterator[str]:
    about = read_metadata(value.metadata)
    yield html_table(f"Release {about.name} of {about.series}", _ABOUT, release_rows(about))
    frame = value.frame.head(_ROWS_SHOWN)
    rows = [tuple(map(shown, row)) for row in frame.iter_rows()]
    numbers = sum(dtype.is_numeric() for dtype in frame.dtypes[len(about.key) :])
    yield html_table(f"The first {len(rows)} of {len(value):,} rows", frame.columns, rows, numbers)


@_tables.register
def _(value: Plan) -> Iterator[str]:
    yield _of_dicts(f"Plan of {value.noise} noise: by level", value.by_level)
    yield _of_dicts("By true count, in units", value.by_count)


@_tables.register
def _(value: Ledger) -> Iterator[str]:
    yield _of_dicts("Ledger: what was spent, and what remains", for_people(ledger_rows(value)))


def _of_dicts(caption: str, rows: Sequence[Mapping[str, object]]) -> str:
    heads = list(rows[0]) if rows else ["nothing yet"]
    return html_table(caption, heads, (list(map(shown, row.values())) for row in rows))
