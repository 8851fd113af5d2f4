"""The report of a store: what was promised, to whom, and what was released, as one page that asks nothing of anybody.

Everything on it is a public parameter or was published: declarations, the ledger, events, metadata and rows of
releases. Its outline follows the questions of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy
Guarantees, 2025): how strong the guarantee is and of whom, what was released and how good it is, by which mechanism,
who is trusted, and what was exposed besides. The curator's page adds what only the curator may see, and says so.

The page is self-contained: no script, no request; its policy allows the one style sheet by hash and nothing else. All
text that comes from a store is escaped by the template, control and bidirectional characters before that.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sparsehist import __version__
from sparsehist.declaration import Declaration
from sparsehist.errors import SparsehistError, needing, printable
from sparsehist.histogram.publication import mean_error, publication_probability
from sparsehist.html import html_table, shown
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, Row, ledger_rows
from sparsehist.privacy import as_level
from sparsehist.release import any_kind
from sparsehist.release.metadata import CellMetadata, Metadata
from sparsehist.release.pipeline import published_metadata
from sparsehist.release.releases import of_cells
from sparsehist.release.stored_declaration import declaration_of, read_bounding
from sparsehist.report.charts_as_svg import MOST_LINES, Chart, bar_chart, interval_chart, line_chart
from sparsehist.report.side_by_side import side_by_side

if TYPE_CHECKING:
    from sparsehist.release.home import Home
    from sparsehist.release.releases import Release
    from sparsehist.store import SeriesRecord, State

COUNTS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
CONFIDENCE = 0.95
_SMOOTH = tuple(sorted({round(3 * 10 ** (step / 8)) for step in range(30)}))
_LARGEST = 15
_LIMITS = {
    "set budget": "budget set",
    "raise cap": "cap raised",
    "declare disjoint": "populations declared disjoint",
    "declare periods": "log cut into periods",
}
_OTHER = {"drop series": "series erased", "adopt store": "copy adopted", "refuse": "request refused"}


@dataclass(frozen=True)
class SeriesPart:
    """What the page says of one series: `secret` stands on the curator's page alone.

    `errors` has, for each release of cells and each of `COUNTS`, the probability of being published and mean error;
    `keys` the largest keys, with (low, noisy count, high) or None for each of the releases `names`, coarsest first.
    """

    declaration: Declaration
    releases: list[Metadata]
    errors: list[tuple[str, list[tuple[float, float]]]]
    keys: list[tuple[str, list[tuple[float, float, float] | None]]]
    names: list[str]
    charts: list[Chart]
    secret: list[tuple[str, str]]


def store_report(store: Home, *, delta: float = DEFAULT_DELTA, curator: bool = False) -> str:
    """The report of a store as HTML; see `Store.report`."""
    template = _template()
    with store.hold() as state:
        ledger = Ledger.of(state)
        rows = ledger_rows(ledger, delta)
        events = [_told(event) for event in state.events()]
        records = state.all_series()
        made = {record.name: published_metadata(state, record) for record in records}
        secrets = {record.name: _secrets(state, record) if curator else [] for record in records}
        store_id, generation = state.store_id, state.generation
    parts = [
        _part(store, declaration_of(record), record.series_id, made[record.name], secrets[record.name])
        for record in records
    ]
    style = files("sparsehist.report").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page: str = template.render(
        curator=curator,
        version=__version__,
        store_id=store_id,
        generation=generation,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        delta=delta,
        style=style,
        digest=digest,
        populations=[row for row in rows if row["scope"] == "population"],
        everybody=next((row for row in rows if row["scope"] == "everybody"), None),
        spent_by_series=[row for row in rows if row["scope"] == "series"],
        paths=[row for row in rows if row["scope"] == "path" and row["releases"]],
        warnings=[row["warning"] for row in rows if row["warning"] and row["scope"] != "path"],
        spending=_spending_chart(rows, delta),
        limits=[event for event in events if event["what"] in _LIMITS.values()],
        others=[event for event in events if event["what"] in _OTHER.values()],
        disjoint=ledger.limits.disjoint,
        parts=parts,
        counts=COUNTS,
        handled={"drop": "left out", "error": "refused"},
        confidence=CONFIDENCE,
    )
    return page


def _template() -> Any:
    """The template, with everything it is given escaped."""
    with needing("a report", "'sparsehist[report]'"):
        import jinja2
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    environment.filters |= {"shown": shown, "style_sheet": _markup}
    environment.globals["table"] = lambda *parts: _markup(html_table(*parts))
    return environment.from_string(files("sparsehist.report").joinpath("page.html.jinja").read_text(encoding="utf-8"))


def _markup(text: str) -> Any:
    """What is not escaped again: the package's own style sheet, and tables."""
    import markupsafe

    return markupsafe.Markup(text)  # noqa: S704 - a file of this package, or escaped cell by cell


def _part(
    store: Home, declaration: Declaration, series_id: str, made: list[Metadata], secret: list[tuple[str, str]]
) -> SeriesPart:
    cells = sorted(
        (about for about in made if isinstance(about, CellMetadata)), key=lambda about: as_level(about.level)
    )
    errors = [(about.name, found) for about in cells if (found := _errors(about, COUNTS))]
    finest = cells[-MOST_LINES:]
    curves = [(about.name, list(zip(_SMOOTH, _errors(about, _SMOOTH), strict=False))) for about in finest]
    released = [of_cells(any_kind.release(store, declaration, series_id, about.name)) for about in finest]
    keys = _largest_keys(released, list(declaration.key))
    names = [release.name for release in released]
    name = declaration.name
    about = "One line for each release, over the true number of units with the key; the table below has the numbers."
    of_keys = (
        f"A row for each key, with noisy count and {CONFIDENCE:.0%} interval of each release; the table below has "
        "the numbers."
    )
    shown = [
        (f"Probability that a key of {name} is published", "probability"),
        (f"Mean error of a published count of {name}", "mean error (units)"),
    ]
    charts = [
        line_chart(
            title,
            about,
            "true count (units, logarithmic)",
            y_title,
            [(release, [(count, each[which]) for count, each in curve]) for release, curve in curves],
            log_y=which == 1,
        )
        for which, (title, y_title) in enumerate(shown)
    ]
    charts.append(interval_chart(f"The largest keys of {name}", of_keys, "units", names, keys))
    drawn = [chart for chart in charts if chart is not None]
    return SeriesPart(declaration, made, errors, keys, names, drawn, secret)


def _errors(about: CellMetadata, counts: Sequence[int]) -> list[tuple[float, float]]:
    """Probability of being published and mean error; nothing for a family that this process does not know."""
    try:
        family = about.family
    except SparsehistError:
        return []
    level, threshold = as_level(about.level), about.effective_threshold
    probabilities = publication_probability(family, level, threshold, counts).tolist()
    return [
        (probability, mean_error(family, level, threshold, count))
        for probability, count in zip(probabilities, counts, strict=True)
    ]


def _largest_keys(
    released: list[Release], columns: list[str]
) -> list[tuple[str, list[tuple[float, float, float] | None]]]:
    if not released:
        return []
    largest = side_by_side(released).head(_LARGEST).select(columns)
    found: list[list[tuple[float, float, float] | None]] = [[] for _ in range(largest.height)]
    for release in released:
        try:
            known = release.intervals(CONFIDENCE)
        except SparsehistError:
            known = release.frame.with_columns(low="noisy_count", high="noisy_count")
        joined = largest.join(known, on=columns, how="left", maintain_order="left")
        limits = joined.select("low", "noisy_count", "high").iter_rows()  # a handful, published
        for row, (low, value, high) in zip(found, limits, strict=True):
            row.append(None if value is None else (low, value, high))
    labels = [" · ".join(map(str, key)) for key in largest.iter_rows()]
    return list(zip(labels, found, strict=True))


def _spending_chart(rows: Sequence[Row], delta: float) -> Chart | None:
    bars = [
        (f"{row['series']}: {row['path'] or ''}", row["epsilon"])
        for row in rows
        if row["scope"] == "path" and row["epsilon"]
    ]
    about = "A bar for each noise path on its own; together they cost less than the sum. The table has the numbers."
    return bar_chart("Epsilon of each noise path", about, f"epsilon at delta {delta:g}", bars)


def _told(event: dict[str, Any]) -> dict[str, str]:
    """An event in words."""
    details = json.loads(event["details"]) if event["details"] else {}
    happened: datetime = event["happened"]
    about = event["series"] or event["population"] or ", ".join(details.get("populations", ())) or ""
    budget = details.get("route") and " ".join(
        f"{name} {details[name]}" for name in ("rho", "epsilon", "delta") if details.get(name) not in (None, "0")
    )
    periods = (
        details.get("protects") and f"{details['periods']} of {details['period']}, protects {details['protects']}"
    )
    return {
        "when": happened.strftime("%Y-%m-%d %H:%M"),
        "who": event["who"],
        "what": (_LIMITS | _OTHER).get(event["what"], event["what"]),
        "about": about + (f", {event['release']}" if event["release"] else ""),
        "to": event["level"] or budget or periods or "",
        "why": event["reason"] or details.get("because", ""),
    }


def _bias(met: dict[str, int], bounded: float) -> list[tuple[str, str]]:
    """By how much bounding moved the counts together; a line that says so where nobody noted it."""
    if not met:
        return [("bias of bounding", "not known: bounded elsewhere, or by an engine that does not tell")]
    pairs = met["pairs"]
    return [
        ("sum of all counts without a bound", f"{pairs:,}"),
        ("bias of bounding: of that sum, lost", f"{pairs - bounded:,.0f} ({(pairs - bounded) / max(pairs, 1):.3%})"),
        ("units above max_keys", f"{met['units_above']:,}"),
    ]


def _secrets(state: State, record: SeriesRecord) -> list[tuple[str, str]]:
    """What only the curator may see of a series: exact sizes."""
    declaration = declaration_of(record)
    if declaration.steps is not None:  # its counts differ from step to step
        return [("bias of bounding", "not known: what did not count in a step is not kept")]
    count, _, cells = state.series_files(record).groups
    bounded = int((count * cells).sum()) / declaration.unit_of_counts
    return [
        ("keys with a count", f"{int(cells.sum()):,}"),
        ("sum of all bounded counts", f"{bounded:,.0f}"),
        *_bias(read_bounding(record), bounded),
        ("groups of equal count", f"{len(count):,}"),
        ("cells whose noise was drawn", f"{len(state.tracked(record.path_id).position):,}"),
    ]
