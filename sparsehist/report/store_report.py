"""The report of a store as one self-contained HTML page: guarantees, costs and releases.

Everything on it is a public parameter or was published. Its outline follows the questions of NIST SP 800-226
(Guidelines for Evaluating Differential Privacy Guarantees, 2025). The curator's page adds exact numbers that only the
curator may see. The page has no script and makes no request; its policy allows one style sheet, by hash. The
templates escape all text that comes from a store.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from sparsehist import __version__
from sparsehist.declaration import Declaration
from sparsehist.declaration.declaration import CHECKED_QUERY, UNCHECKED_SOURCE
from sparsehist.errors import SparsehistError, of_kind
from sparsehist.histogram.thresholds import mean_error, publication_probability
from sparsehist.html import html_table, shown, templates
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, Row, cost_in_words, event_for_people, ledger_rows
from sparsehist.privacy import as_level
from sparsehist.release import any_kind
from sparsehist.release.metadata import CellMetadata, Metadata, RunningMetadata
from sparsehist.release.parameter_rows import asked_text
from sparsehist.release.pipeline import published_metadata
from sparsehist.release.plots import key_label, require_plots
from sparsehist.release.releases import Release
from sparsehist.release.stored_declaration import declaration_of, read_bounding
from sparsehist.report import charts
from sparsehist.report.charts import MOST_LINES, Picture
from sparsehist.report.side_by_side import side_by_side

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.release.home import Home
    from sparsehist.store import SeriesRecord, State

COUNTS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
CONFIDENCE = 0.95
_LARGEST = 15
_MOST_ROWS = 60
"""Of a table of releases or periods; `sparsehist ledger` lists all."""
_LIMITS = ("set budget", "raise cap", "declare disjoint", "declare periods", "drop periods")
_OTHER = ("drop series", "adopt store", "refuse")
_SOURCES = {UNCHECKED_SOURCE: "nobody: a trusted source", CHECKED_QUERY: "a query, checked", "": "files as they are"}
_HANDLED = {"drop": "left out", "error": "refused"}


@dataclass(frozen=True)
class Section:
    """A section on one series, or on all periods of one: HTML tables, pictures, and remarks."""

    title: str
    tables: list[Markup] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OneSeries:
    """The data of one series for the report."""

    declaration: Declaration
    series_id: str
    releases: list[Metadata]
    secret: list[tuple[str, str]]

    @property
    def key(self) -> tuple[str, ...]:
        """Its key columns."""
        return self.declaration.key

    @property
    def cells(self) -> list[CellMetadata]:
        """Its releases of cells, the most private first."""
        found = [about for about in self.releases if isinstance(about, CellMetadata)]
        return sorted(found, key=lambda about: as_level(about.level))


def store_report(home: Home, *, delta: float = DEFAULT_DELTA, curator: bool = False) -> str:
    """Return the report of a store as HTML; see `Store.report`."""
    require_plots()
    with home.hold() as state:
        ledger = Ledger.of(state)
        rows = ledger_rows(ledger, delta)
        events = state.events()
        found = [
            OneSeries(
                declaration_of(record), record.series_id, published_metadata(state, record),
                _secrets(state, record) if curator else [],
            )
            for record in state.all_series()
        ]  # fmt: skip
        store_id, generation = state.store_id, state.generation
    periodic = dict.fromkeys(each.declaration.population for each in found if each.declaration.period is not None)
    single = [each for each in found if each.declaration.period is None]
    of_periods = {name: [each for each in found if each.declaration.population == name] for name in periodic}
    style = files("sparsehist.templates").joinpath("report.css").read_text(encoding="utf-8")
    return templates().get_template("report.html.jinja").render(
        curator=curator, version=__version__, store=home.path.name, store_id=store_id, generation=generation,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), delta=delta, style=Markup(style),  # noqa: S704 - ours
        digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        everybody=next((row for row in rows if row["scope"] == "everybody"), None),
        spent=list(_spent(rows, delta, periodic)),
        periods=[row for row in rows if row["scope"] == "population" and row.get("periods")],
        warnings=[row["warning"] for row in rows if row["warning"] and row["scope"] != "path"],
        declared=list(_declared([*single, *(each[-1] for each in of_periods.values())])),
        disjoint=[" and ".join(sorted(names)) for names in ledger.limits.disjoint],
        sections=[
            *(_of_series(home, each) for each in single), *(_of_periods(home, *each) for each in of_periods.items())
        ],
        limits=_events("Limits and declarations, in order", _LIMITS, events),
        others=_events("Refusals, erasures and adoptions", _OTHER, events),
    )  # fmt: skip


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: int = 0) -> Markup:
    return Markup(html_table(caption, heads, rows, numbers))  # noqa: S704 - escaped cell by cell


def _limit(row: Row, now: str | None) -> str:
    first = row["limit_at_first_release"]
    return (now or "none") + (f" ({first} at the first release)" if first and first != now else "")


def _spent(rows: Sequence[Row], delta: float, periodic: Mapping[str, object]) -> Iterator[Markup]:
    """Yield tables of costs by population, series and path; a periodic series is a row of populations."""
    epsilon = f"ε at δ = {shown(delta)}"
    total = [
        [
            "everybody" if row["scope"] == "everybody" else f"population {row['population']}", row["releases"],
            shown(row["epsilon"]), cost_in_words(row), _limit(row, row.get("budget")), row.get("remaining") or "—",
            row.get("standing") or "—",
        ]
        for row in rows
        if row["scope"] in ("population", "everybody")
    ]  # fmt: skip
    heads = ["who", "releases", epsilon, "spent", "budget", "remaining", "standing"]
    yield _table("Populations: costs of all series of the same people add up", heads, total)
    single = [row for row in rows if row["population"] not in periodic]
    series = [
        [
            row["series"] + (" (erased)" if row["dropped"] else ""), row["population"], row["releases"],
            shown(row["epsilon"]), cost_in_words(row), _limit(row, row["cap"]), row["remaining"] or "—",
            row["standing"] or "—",
        ]
        for row in single
        if row["scope"] == "series"
    ]  # fmt: skip
    if series:
        heads = ["series", "population", "releases", epsilon, "spent", "cap", "remaining", "standing"]
        yield _table("Series: costs of the noise paths of one histogram add up", heads, series)
    paths = [
        [
            f"{row['series']}: {row['path']}", row["noise"], row["releases"], shown(row["epsilon"]),
            cost_in_words(row), shown(row["delta_infinity"]), shown(row["numerical_slack"]),
        ]
        for row in single
        if row["scope"] == "path" and row["releases"]
    ]  # fmt: skip
    if paths:
        heads = ["path", "noise", "releases", epsilon, "finest level", "δ of open domains", "numerical slack"]
        yield _table("Noise paths: each costs its finest release, however many there are", heads, paths)


def _declared(series: Sequence[OneSeries]) -> Iterator[Markup]:
    if not series:
        return
    declared = [
        [
            _name(told), told.unit_text or "bounded elsewhere", told.max_keys, told.population, ", ".join(told.key),
            told.domain.describe(), _SOURCES.get(told.source, told.source),
        ]
        for told in (each.declaration for each in series)
    ]  # fmt: skip
    heads = ["series", "unit", "max_keys", "population", "key", "domain", "who checked the source"]
    yield _table("Declarations", heads, declared)
    counted = [
        [_name(told), _counted(told), _HANDLED[told.on_null], _HANDLED[told.on_outside]]
        for told in (each.declaration for each in series)
    ]
    yield _table("What counts", ["series", "units", "rows without unit or key", "keys outside the domain"], counted)


def _name(declaration: Declaration) -> str:
    return declaration.name if declaration.period is None else f"{declaration.population} (each period)"


def _counted(declaration: Declaration) -> str:
    if declaration.shares is not None:
        return declaration.shares.describe()
    over = f" over all {declaration.n_steps} steps" if declaration.steps is not None else ""
    most = declaration.max_keys
    return f"a unit with more than {most} keys counts towards {most} of them{over}"


def _of_series(home: Home, series: OneSeries) -> Section:
    """Return the section of a series: releases, errors, largest keys; for a running series, counts over time."""
    name = series.declaration.name
    section = Section(f"Series {name}")
    if not series.releases:
        section.remarks.append("Nothing was released from it.")
    else:
        section.tables.extend(_releases(name, series.releases, section.remarks))
    finest = series.cells[-MOST_LINES:]
    if finest:
        released = [_read(home, series, about.name) for about in finest]
        section.tables.extend(_errors(name, finest))
        largest = side_by_side(released, series.key).select(series.key).head(_LARGEST)
        section.tables.append(_largest_keys(name, released, largest))
        section.tables.extend(_sums(name, released, largest))
        if len(largest):
            section.pictures.append(_picture(name, released, largest))
        section.remarks.append(
            f"An interval holds the bounded count of a published key with a probability of {CONFIDENCE:.0%} over the "
            "noise. Releases of one key share noise: the finest says all that the coarser ones do."
        )
    steps = [about for about in series.cells if isinstance(about, RunningMetadata)]
    if len({about.step for about in steps}) > 1:
        finest_of_step = {about.step: about for about in steps}
        shown_steps = [finest_of_step[step] for step in sorted(finest_of_step)][-_MOST_ROWS:]
        over = [(about.step, _read(home, series, about.name)) for about in shown_steps]
        section.pictures.append(_over_time(name, "step", over, series.key))
    if series.secret:
        section.tables.append(_table(f"SECRET: exact numbers of {name}", ["what", "value"], series.secret, 1))
    return section


def _of_periods(home: Home, name: str, periods: Sequence[OneSeries]) -> Section:
    """Return the section of a periodic series: one table, and the largest keys over time."""
    section = Section(f"Periodic series {name}")
    rows: list[list[object]] = []
    over = []
    for each in periods[-_MOST_ROWS:]:
        period = str(each.declaration.period)
        row: list[object] = [period, len(each.releases), *["—"] * 4]
        if each.cells:
            finest = each.cells[-1]
            released = _read(home, each, finest.name)
            over.append((period, released))
            row[2:] = [asked_text(finest), shown(finest.std), shown(finest.threshold), len(released)]
        rows.append(row)
    heads = ["period", "releases", "finest level", "std (units)", "threshold (units)", "keys published"]
    section.tables.append(_table(f"Periods of {name}, and the finest release of each", heads, rows, 3))
    section.remarks.extend(_left_out(len(periods), "periods"))
    if len(over) > 1:
        section.pictures.append(_over_time(name, "period", over, periods[0].key))
    promised = [about for each in periods for about in each.releases]
    section.tables.extend(_promises(name, promised))
    secret = [(str(each.declaration.period), value) for each in periods for what, value in each.secret[:1]]
    if secret:
        section.tables.append(
            _table(f"SECRET: keys with a count in each period of {name}", ["period", "keys"], secret, 1)
        )
    return section


def _read(home: Home, series: OneSeries, name: str) -> Release:
    return of_kind(any_kind.release(home, series.declaration, series.series_id, name), Release)


def _left_out(number: int, what: str) -> list[str]:
    return [f"The last {_MOST_ROWS} of {number} {what} are shown."] if number > _MOST_ROWS else []


def _releases(name: str, made: Sequence[Metadata], remarks: list[str]) -> Iterator[Markup]:
    rows = [
        [
            about.name, about.kind, asked_text(about), about.noise, shown(about.std), shown(about.threshold),
            shown(getattr(about, "expected_false_keys", None)), getattr(about, "counts", None) or "units",
            (about.released_at or "—")[:16].replace("T", " "),
        ]
        for about in made[-_MOST_ROWS:]
    ]  # fmt: skip
    remarks.extend(_left_out(len(made), "releases"))
    heads = [
        "release", "of", "level", "noise", "std (units)", "threshold (units)", "false keys expected", "it counts",
        "when (UTC)",
    ]  # fmt: skip
    yield _table(f"Releases of {name}", heads, rows)
    yield from _promises(name, made[-_MOST_ROWS:])


def _promises(name: str, made: Sequence[Metadata]) -> Iterator[Markup]:
    """Yield the table of guarantees of single releases; equal guarantees share a row."""
    alike: dict[str, list[str]] = {}
    for about in made:
        slack = f"a numerical slack of {about.numerical_slack:.0e}"
        alike.setdefault(about.guarantee.replace("numerical_slack", slack), []).append(about.name)
    rows = [
        [", ".join(dict.fromkeys(names)) if len(set(names)) <= MOST_LINES else f"{len(names)} releases", promised]
        for promised, names in alike.items()
    ]
    if rows:
        yield _table(f"What each release of {name} promises alone", ["release", "guarantee"], rows)


def _errors(name: str, finest: Sequence[CellMetadata]) -> Iterator[Markup]:
    """Yield the table of probability of publication and mean error by true count, a column per release."""
    rows = [[f"{count:,}"] for count in COUNTS]
    for about in finest:
        level, threshold = as_level(about.level), about.effective_threshold
        probabilities = publication_probability(about.family, level, threshold, COUNTS).tolist()
        for row, count, probability in zip(rows, COUNTS, probabilities, strict=True):
            error = mean_error(about.family, level, threshold, count)
            chance = "below 0.000001" if probability < 0.000001 else shown(probability)
            row.append(f"{chance}, ± {shown(error)} ({error / count:.2g})")
    caption = f"Error by true count, {name}: probability of being published, mean error if so (units)"
    yield _table(caption, ["true count (units)", *(about.name for about in finest)], rows, len(finest))


def _with_limits(release: Release) -> pl.DataFrame:
    try:
        return release.intervals(CONFIDENCE)
    except SparsehistError:  # some noise has no mean error
        return release.frame.with_columns(low="noisy_count", high="noisy_count")


def _limits(largest: pl.DataFrame, release: Release) -> list[tuple[float | None, float | None, float | None]]:
    """Return noisy count and interval of each of these keys; None if the release did not publish it."""
    joined = largest.join(_with_limits(release), on=largest.columns, how="left", maintain_order="left")
    return joined.select("noisy_count", "low", "high").rows()


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    return f"{shown(value, 6)} ({shown(low, 6)} to {shown(high, 6)})"


def _largest_keys(name: str, released: Sequence[Release], largest: pl.DataFrame) -> Markup:
    cells: list[list[str]] = [[" · ".join(map(str, key))] for key in largest.iter_rows()]
    for release in released:
        for row, interval in zip(cells, _limits(largest, release), strict=True):
            row.append("not published" if interval[0] is None else _interval(*interval))
    caption = f"The largest keys of {name}: noisy counts (units) with {CONFIDENCE:.0%} intervals of bounded counts"
    return _table(caption, ["key", *(release.name for release in released)], cells, len(released))


def _sums(name: str, released: Sequence[Release], largest: pl.DataFrame) -> Iterator[Markup]:
    """Yield sums and means of the largest keys, from the finest release that has any."""
    for release in reversed(released):
        measured = [name for name in release.frame.columns if name not in (*largest.columns, "noisy_count")]
        if measured:
            joined = largest.join(_with_limits(release), on=largest.columns, how="inner", maintain_order="left")
            rows = [
                [
                    " · ".join(str(row[column]) for column in largest.columns),
                    *(_interval(row[one], row.get(f"{one}_low"), row.get(f"{one}_high")) for one in measured),
                ]
                for row in joined.iter_rows(named=True)
            ]
            caption = f"Measures of the largest keys of {name} in {release.name}, with {CONFIDENCE:.0%} intervals"
            yield _table(caption, ["key", *measured], rows, len(measured))
            return


def _picture(name: str, released: Sequence[Release], largest: pl.DataFrame) -> Picture:
    known = [(release.name, _limits(largest, release)) for release in released]
    spans = [
        {"key": f"{rank}. {key_label(key)}", "release": release, "value": value, "low": low, "high": high}
        for rank, key in enumerate(largest.iter_rows(), 1)
        for release, limits in known
        for value, low, high in limits[rank - 1 : rank]
        if value is not None
    ]
    return charts.largest_keys(name, spans, [release.name for release in released])


def _over_time(
    name: str, what: str, released: Sequence[tuple[int | str, Release]], columns: Sequence[str]
) -> Picture:
    """Draw the keys that are largest in the last release, over steps or periods."""
    largest = released[-1][1].frame.head(MOST_LINES).select(columns).rows()
    rows = [
        {"when": str(when), "key": f"{largest.index(key) + 1}. {key_label(key)}", "noisy_count": value}
        for when, release in released
        for *parts, value in release.frame.select(*columns, "noisy_count").iter_rows()
        if (key := tuple(parts)) in largest
    ]
    about = f"Of each {what} the finest release; keys are those that are largest in the last one."
    return charts.over_time(
        f"Noisy counts of {name} by {what}", about, what, rows, [str(when) for when, _ in released]
    )


def _events(caption: str, wanted: Sequence[str], events: Sequence[Row]) -> Markup | None:
    found = [event_for_people(event) for event in events if event["what"] in wanted]
    rows = [["—" if value is None else value for value in event.values()] for event in found]
    return _table(caption, ["when (UTC)", *list(found[0])[1:]], rows) if rows else None


def _secrets(state: State, record: SeriesRecord) -> list[tuple[str, str]]:
    """Return what only the curator may see of a series: exact sizes."""
    declaration = declaration_of(record)
    if declaration.steps is not None:  # its counts differ from step to step
        return [("bias of bounding", "not known: what did not count in a step is not kept")]
    count, _, cells = state.series_files(record).groups
    bounded = int((count * cells).sum()) / declaration.unit_of_counts
    rows = [
        ("keys with a count", f"{int(cells.sum()):,}"),
        ("sum of all bounded counts", f"{bounded:,.0f}"),
        ("cells whose noise was drawn", f"{len(state.tracked(record.path_id).position):,}"),
    ]
    met = read_bounding(record)
    if not met:
        rows.append(("bias of bounding", "not known: bounded elsewhere"))
    else:
        lost = met["pairs"] - bounded
        rows.append(("bias of bounding: of all pairs, lost", f"{lost:,.0f} ({lost / max(met['pairs'], 1):.3%})"))
        rows.append(("units above max_keys", f"{met['units_above']:,}"))
    return rows
