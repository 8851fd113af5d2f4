"""The report of a store as one self-contained HTML page: guarantees, costs and releases.

The page contains only public parameters and published rows. Its outline follows the questions of NIST SP 800-226
(Guidelines for Evaluating Differential Privacy Guarantees, 2025). The page has no scripts and makes no requests; its
content security policy allows one style sheet, identified by its hash. The templates escape all text from stores.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from sparsehist import __version__
from sparsehist.declaration import Declaration
from sparsehist.declaration.measures import MEAN_COLUMN
from sparsehist.errors import SparsehistError, of_kind
from sparsehist.histogram.thresholds import mean_error, publication_probability
from sparsehist.html import ABOUT, shown, table_of_dicts, templates
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, Row, event_for_people, for_people, ledger_rows
from sparsehist.privacy import as_level
from sparsehist.release import any_kind
from sparsehist.release.metadata import (
    CellMetadata,
    Metadata,
    RunningMetadata,
    declaration_rows,
    level_in_words,
    read_metadata,
)
from sparsehist.release.pipeline import published
from sparsehist.release.releases import Release
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.report import charts
from sparsehist.report.charts import MOST_LINES, Picture, key_label, require_plots

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.release.home import Home

COUNTS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
CONFIDENCE = 0.95
_LARGEST = 15
_MOST_ROWS = 60
"""Largest number of rows in a table of releases or periods; the ledger lists all of them."""
_LIMITS = ("set budget", "raise cap", "declare disjoint", "declare periods", "drop periods")
_OTHER = ("drop series", "adopt store", "refuse")
_SCOPES = ("scope", "population", "series", "path")
_COSTS = ("releases", "epsilon", "spent", "limit", "remaining", "standing")
# Name of the key column. It contains spaces, so it differs from the other columns, which are named after releases.
_KEY = "key (largest first)"


@dataclass(frozen=True)
class Table:
    """A table of the report, shown only if it has rows. The last `numbers` columns are right-aligned."""

    caption: str
    rows: Sequence[Row]
    numbers: int = 0

    def __html__(self) -> str:
        return table_of_dicts(self.caption, self.rows, self.numbers) if self.rows else ""


@dataclass(frozen=True)
class OneSeries:
    """What the report shows about one series."""

    declaration: Declaration
    series_id: str
    releases: list[Metadata]

    @property
    def cells(self) -> list[CellMetadata]:
        """Metadata of the releases of cells, beginning with the smallest level."""
        cells = [metadata for metadata in self.releases if isinstance(metadata, CellMetadata)]
        return sorted(cells, key=lambda metadata: as_level(metadata.level))


def store_report(home: Home, *, delta: float = DEFAULT_DELTA) -> str:
    """Return the report of a store as HTML; see `Store.report`."""
    require_plots()
    with home.hold() as state:
        ledger = Ledger.of(state)
        rows, events = ledger_rows(ledger, delta), state.events()
        store_id, generation = state.store_id, state.generation
        series = [
            OneSeries(
                declaration_of(record), record.series_id,
                [read_metadata(record.metadata) for record in published(state, record)],
            )
            for record in state.all_series()
        ]  # fmt: skip
    single = [each for each in series if each.declaration.period is None]
    periodic: dict[str, list[OneSeries]] = {}
    for each in series:
        if each.declaration.period is not None:
            periodic.setdefault(each.declaration.population, []).append(each)
    style = files("sparsehist.templates").joinpath("report.css").read_text(encoding="utf-8")
    return templates().get_template("report.html.jinja").render(
        version=__version__, store=home.path.name, store_id=store_id, generation=generation,
        made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), delta=delta, style=Markup(style),  # noqa: S704 - ours
        digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        everybody=next((row for row in rows if row["scope"] == "everybody"), None),
        spent=Table(f"The ledger, with ε at δ = {shown(delta)}", _spent(rows, periodic)),
        periods=[row for row in rows if row["scope"] == "population" and row["periods"]],
        warnings=[row["warning"] for row in rows if row["warning"] and row["scope"] != "path"],
        declared=[_declared(each.declaration) for each in (*single, *(each[-1] for each in periodic.values()))],
        disjoint=[" and ".join(sorted(names)) for names in ledger.limits.disjoint],
        sections={
            **{f"Series {each.declaration.name}": list(_of_series(home, each)) for each in single},
            **{f"Periodic series {name}": list(_of_periods(home, name, each)) for name, each in periodic.items()},
        },
        limits=Table("Limits and declarations, in order", _events(_LIMITS, events)),
        others=Table("Refusals, erasures and adoptions", _events(_OTHER, events)),
    )  # fmt: skip


def _spent(rows: Sequence[Row], periodic: Mapping[str, object]) -> list[Row]:
    """Return the rows of the ledger for the report, with one row for all periods of a periodic series."""
    return [
        {"scope": " ".join(filter(None, map(row.get, _SCOPES)))} | {column: row[column] for column in _COSTS}
        for row in for_people(rows)
        if row["series"] is None or (row["population"] not in periodic and row["releases"])
    ]


def _declared(declaration: Declaration) -> Table:
    rows = [dict(zip(ABOUT, row, strict=True)) for row in declaration_rows(declaration)]
    return Table(f"Declaration of {declaration.name}", rows)


def _of_series(home: Home, series: OneSeries) -> Iterator[Table | Picture | str]:
    """Yield tables of the releases, of their errors, and of the keys with the largest noisy counts.

    For a running series, also yield a chart of noisy counts over time.
    """
    name, key, recent = series.declaration.name, series.declaration.key, series.releases[-_MOST_ROWS:]
    if not series.releases:
        yield "Nothing was released from this series."
    yield Table(f"Releases of {name}", [_release(metadata) for metadata in recent])
    yield from _left_out(len(series.releases), "releases")
    yield _promises(name, recent)
    finest = series.cells[-MOST_LINES:]
    if finest:
        yield _errors(name, finest)
        released = [_read(home, series, metadata.name) for metadata in finest]
        largest = released[-1].frame.select(key).head(_LARGEST)
        yield from _largest_keys(name, {release.name: _limits(largest, release) for release in released})
        yield (
            f"An interval contains the bounded count of a published key with a probability of {CONFIDENCE:.0%} over "
            "the noise. Releases share noise, so coarser releases add no information to the finest release."
        )
    finest_of_step = {each.step: each.name for each in series.cells if isinstance(each, RunningMetadata)}
    if len(finest_of_step) > 1:
        steps = sorted(finest_of_step)[-_MOST_ROWS:]
        yield _over_time(name, "step", {str(step): _read(home, series, finest_of_step[step]) for step in steps}, key)


def _of_periods(home: Home, name: str, periods: Sequence[OneSeries]) -> Iterator[Table | Picture | str]:
    """Yield a table of periods, a chart of the most frequent keys over time, and a table of guarantees."""
    rows, over = list[Row](), dict[str, Release]()
    for each in periods[-_MOST_ROWS:]:
        period, finest = str(each.declaration.period), each.cells[-1] if each.cells else None
        if finest:
            over[period] = _read(home, each, finest.name)
        rows.append({
            "period": period, "releases": len(each.releases), "finest level": finest and level_in_words(finest),
            "std (units)": finest and finest.std, "threshold (units)": finest and finest.threshold,
            "keys published": finest and len(over[period]),
        })  # fmt: skip
    yield Table(f"Periods of {name}, and the finest release of each", rows, 3)
    yield from _left_out(len(periods), "periods")
    if len(over) > 1:
        yield _over_time(name, "period", over, periods[0].declaration.key)
    yield _promises(name, [metadata for each in periods for metadata in each.releases])


def _read(home: Home, series: OneSeries, name: str) -> Release:
    return of_kind(any_kind.release(home, series.declaration, series.series_id, name), Release)


def _left_out(number: int, what: str) -> Iterator[str]:
    if number > _MOST_ROWS:
        yield f"The last {_MOST_ROWS} of {number} {what} are shown."


def _release(metadata: Metadata) -> Row:
    return {
        "release": metadata.name, "kind": metadata.kind, "level": level_in_words(metadata), "noise": metadata.noise,
        "std (units)": metadata.std, "threshold (units)": metadata.threshold,
        "false keys expected": getattr(metadata, "expected_false_keys", None),
        "counted": getattr(metadata, "counts", None) or "units",
        "when (UTC)": metadata.released_at and metadata.released_at[:16].replace("T", " "),
    }  # fmt: skip


def _promises(name: str, releases: Sequence[Metadata]) -> Table:
    """Return a table with the guarantee of each release by itself. Releases with the same guarantee share a row."""
    alike: dict[str, dict[str, None]] = {}
    for metadata in releases:
        slack = f"a numerical slack of {metadata.numerical_slack:.0e}"
        alike.setdefault(metadata.guarantee.replace("numerical_slack", slack), {})[metadata.name] = None
    rows = [
        {"release": ", ".join(names) if len(names) <= MOST_LINES else f"{len(names)} releases", "guarantee": promised}
        for promised, names in alike.items()
    ]
    return Table(f"Guarantee of each release of {name} by itself", rows)


def _errors(name: str, finest: Sequence[CellMetadata]) -> Table:
    """Return a table of the probability of publication and the mean error, by possible true count and release."""
    rows: list[Row] = [{"true count (units)": count} for count in COUNTS]
    for metadata in finest:
        level, threshold = as_level(metadata.level), metadata.effective_threshold
        probabilities = publication_probability(metadata.family, level, threshold, COUNTS).tolist()
        for row, count, probability in zip(rows, COUNTS, probabilities, strict=True):
            error = mean_error(metadata.family, level, threshold, count)
            chance = "below 0.000001" if probability < 0.000001 else shown(probability)
            row[metadata.name] = f"{chance}, ± {shown(error)} ({error / count:.2g})"
    caption = f"Error by true count, {name}: probability of publication, mean error if published (units)"
    return Table(caption, rows, len(finest))


def _limits(largest: pl.DataFrame, release: Release) -> list[Row]:
    """Return a row for each key in `largest`, with noisy count and confidence interval (None if not published)."""
    try:
        frame = release.intervals(CONFIDENCE)
    except SparsehistError:  # not all noise families have intervals
        frame = release.frame.with_columns(low="noisy_count", high="noisy_count")
    rows = largest.join(frame, on=largest.columns, how="left", maintain_order="left").to_dicts()
    return [{_KEY: [row.pop(column) for column in largest.columns], **row} for row in rows]


def _largest_keys(name: str, limits: dict[str, list[Row]]) -> Iterator[Table]:
    """Yield a table of the keys with the largest noisy counts and, if published, a table of their measures."""
    *_, finest = limits.values()
    keys = [" · ".join(map(str, row[_KEY])) for row in finest]
    published = zip(*(map(_interval, of_release) for of_release in limits.values()), strict=True)
    caption = f"The largest keys of {name}: noisy counts (units) with {CONFIDENCE:.0%} intervals of bounded counts"
    table = [{_KEY: key, **dict(zip(limits, each, strict=True))} for key, each in zip(keys, published, strict=True)]
    yield Table(caption, table, len(limits))
    for release, of_release in reversed(limits.items()):
        sums = [column for column in (of_release or [{}])[0] if column.endswith(("_sum", MEAN_COLUMN))]
        if sums:
            caption = f"Measures of the largest keys of {name} in {release}, with {CONFIDENCE:.0%} intervals"
            table = [
                {_KEY: key} | {column: _interval(row, column) for column in sums}
                for key, row in zip(keys, of_release, strict=True)
            ]
            yield Table(caption, table, len(sums))
            return


def _interval(row: Row, column: str = "noisy_count") -> str:
    prefix = "" if column == "noisy_count" else f"{column}_"
    low, high = (shown(row.get(f"{prefix}{end}"), 6) for end in ("low", "high"))
    return "not published" if row[column] is None else f"{shown(row[column], 6)} ({low} to {high})"


def _over_time(name: str, what: str, released: Mapping[str, Release], columns: Sequence[str]) -> Picture:
    """Plot noisy counts over steps or periods, for the keys with the largest noisy counts in the last release."""
    *_, last = released.values()
    largest = last.frame.head(MOST_LINES).select(columns).rows()
    rows = [
        {"when": when, "key": f"{largest.index(key) + 1}. {key_label(key)}", "noisy_count": value}
        for when, release in released.items()
        for *parts, value in release.frame.select(*columns, "noisy_count").iter_rows()
        if (key := tuple(parts)) in largest
    ]
    description = f"The finest release of each {what}; the keys are the largest keys of the last release."
    return charts.over_time(f"Noisy counts of {name} by {what}", description, what, rows, list(released))


def _events(wanted: Sequence[str], events: Sequence[Row]) -> list[Row]:
    return [event_for_people(event) for event in events if event["what"] in wanted]
