"""The charts, each with a caption that names paper and figure.

Papers: [KHP Figure 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from curves import (
    doubling_over_lossless,
    independent_over_lossless,
    path_points,
    relaxation_atom,
    relaxation_density,
    staircase_density,
)
from year import AUDIENCES, SHOWN, WEEKS, running_counts

import sparsehist as sh
from sparsehist.audiences import Audiences, by_distance, distances, read_graph
from sparsehist.counting import Counts
from sparsehist.dense import sample_laplace_path
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.domain import Catalogue
from sparsehist.entropy import seeded
from sparsehist.local import Degradation, Rappor, decode, draw_memo, draw_report, finer_history
from sparsehist.noise import Laplace
from sparsehist.release.releases import Release
from sparsehist.report.charts import COLOURS, require_plots

_OWNER = 0
_DAY_BITS = 384
_SHOWN_PAGES = 15
_MOST_QUERIES = 300


@dataclass(frozen=True)
class Figure:
    """One figure: name of its file, title and caption (plain text, escaped where they are shown), altair chart."""

    name: str
    title: str
    caption: str
    chart: Any


@dataclass(frozen=True)
class Data:
    """Public data that ships with the package: the karate club, start pages of the MSWeb log, all of its pages."""

    friends: pl.DataFrame
    start_pages: pl.DataFrame
    catalogue: pl.DataFrame


def all_figures(data: Data, seed: int) -> list[Figure]:
    """Draw all figures, the same for a seed."""
    alt = require_plots()
    kinds: list[Callable[[Any, Data, int], Figure]] = [
        laplace_paths,
        staircase,
        relaxation,
        independent_releases,
        audience,
        decoded_pages,
        interactive_error,
        running_audiences,
    ]
    return [kind(alt, data, seed + number) for number, kind in enumerate(kinds)]


def laplace_paths(alt: Any, _: Data, seed: int) -> Figure:
    """Figure 1 of Koufogiannis, Han and Pappas."""
    path = sample_laplace_path(6, "1/100", 100, rng=seeded(seed))
    points = path_points(path).with_columns(pl.col("coordinate").cast(pl.String))
    across = alt.X("level:Q", title="ε", scale=_log(alt))
    up = alt.Y("angle:Q", title="arctan of the noise", scale=alt.Scale(domain=[-math.pi / 2, math.pi / 2]))
    colour = alt.Color("coordinate:N", legend=None)
    chart = _lines(alt, points, across, up, colour, interpolate="step-after", strokeWidth=1.5)
    return Figure(
        "laplace_paths",
        "The noise at every privacy level is one path",
        "Koufogiannis, Han and Pappas, Figure 1. Six paths of the Laplace process from ε = 0.01 to 100, on a "
        "logarithmic axis. A path is drawn once and read at any level; it moves by few jumps, 2 ln(100/0.01) = 18.4 "
        "on average here. Between ε = 1 and 2 it stands still with probability 1/4.",
        chart,
    )


def staircase(alt: Any, _: Data, __: int) -> Figure:
    """Figure 2 of Koufogiannis, Han and Pappas."""
    x = np.round(np.linspace(-4, 4, 1601), 4)
    frame = _long(x, {"staircase": staircase_density(x, 1.0), "Laplace": 0.5 * np.exp(-np.abs(x))}, "law")
    across, up = alt.X("x:Q", title="noise"), alt.Y("value:Q", title="density")
    colour = alt.Color("law:N", title=None, legend=alt.Legend(orient="top-right"))
    chart = _lines(alt, frame, across, up, colour, interpolate="step-after")
    return Figure(
        "staircase",
        "The staircase mechanism and the Laplace mechanism",
        "Koufogiannis, Han and Pappas, Figure 2, at ε = 1 and sensitivity 1. The staircase has the least variance of "
        "all ε-private noise; Laplace noise is close, and can be released at many levels without loss.",
        chart,
    )


def relaxation(alt: Any, _: Data, __: int) -> Figure:
    """Figure 3 of Koufogiannis, Han and Pappas."""
    y = np.linspace(-3, 3, 601)
    known = (0.0, 0.5, 2.0)
    lines = _long(y, {f"V₁ = {v}": relaxation_density(y, v, 1, 2) for v in known}, "given")
    atoms = pl.DataFrame(
        {"x": list(known), "value": [relaxation_atom(v, 1, 2) for v in known], "given": [f"V₁ = {v}" for v in known]}
    )
    colour = alt.Color("given:N", title=None, legend=alt.Legend(orient="top-left"))
    across = alt.X("x:Q", title="V₂")
    density = _chart(alt, lines).mark_line().encode(x=across, y=alt.Y("value:Q", title="density; atom"), color=colour)
    stems = _chart(alt, atoms).mark_rule(strokeWidth=2).encode(x=across, y="value:Q", color=colour)
    heads = _chart(alt, atoms).mark_point(filled=True, size=60).encode(x=across, y="value:Q", color=colour)
    return Figure(
        "relaxation",
        "From ε = 1 to ε = 2, given what was released",
        "Koufogiannis, Han and Pappas, Figure 3. The law of the noise at ε = 2 given the noise V₁ at ε = 1: a "
        "density and an atom (the stem) at V₁ itself, of 0.303 at V₁ = 0.5.",
        _canvas(density + stems + heads),
    )


def independent_releases(alt: Any, _: Data, __: int) -> Figure:
    """Figure 2 of Andersson, Retschmeier, Nelson and Pagh, with doubling beside it."""
    parts = []
    for many in (2, 5, 10, 50):
        rho = np.geomspace(0.001, 5, many)
        ratio = np.full(many, independent_over_lossless(many, 0.001, 5))
        ratio[0] = 1.0
        parts.append(_long(rho, {f"{many} independent releases": ratio / (2 * rho)}, "how"))
    rho = np.geomspace(0.001, 5, 800)
    parts.append(_long(rho, {"doubling": doubling_over_lossless(rho) / (2 * rho)}, "how"))
    parts.append(_long(rho, {"lossless": 1 / (2 * rho)}, "how"))
    across = alt.X("x:Q", title="ρ", scale=_log(alt))
    up = alt.Y("value:Q", title="variance of the noise", scale=_log(alt))
    colour = alt.Color("how:N", title=None, legend=alt.Legend(orient="top-right"))
    chart = _lines(alt, pl.concat(parts), across, up, colour)
    return Figure(
        "independent_releases",
        "What releases cost that do not know of each other",
        "Andersson, Retschmeier, Nelson and Pagh, Figure 2: budgets evenly apart on a logarithmic scale from "
        "ρ = 0.001 to 5. Independent releases have 1.135 times the lossless variance when there are 5, and 6.27 "
        "times when there are 50. Doubling each time, so that any number of releases is possible, costs 2 to 4 "
        "times. Lossless releases have the least variance whatever their number.",
        chart,
    )


def audience(alt: Any, data: Data, _: int) -> Figure:
    """Levels by distance in a public graph."""
    graph = read_graph(data.friends)
    hops = distances(graph, _OWNER)
    place: dict[Any, tuple[float, float]] = {}
    for far in range(max(hops.values()) + 1):
        ring = [person for person, each in hops.items() if each == far]
        for number, person in enumerate(ring):
            angle = 2 * math.pi * (number + far / 3) / len(ring)
            place[person] = (far * math.cos(angle), far * math.sin(angle))
    ends = list(data.friends.iter_rows())
    edges = pl.DataFrame(
        {
            "x": [place[one][0] for one, _ in ends],
            "y": [place[one][1] for one, _ in ends],
            "x2": [place[other][0] for _, other in ends],
            "y2": [place[other][1] for _, other in ends],
        }
    )
    people = pl.DataFrame(
        {
            "x": [place[person][0] for person in hops],
            "y": [place[person][1] for person in hops],
            "who": ["the owner" if far == 0 else f"ε = {Fraction(1, far)}" for far in hops.values()],
        }
    )
    readers = Audiences(MultipleRelease(Laplace(), [0]), by_distance(hops))
    coalition = readers.coalition([person for person, far in hops.items() if far >= 2])
    plain = alt.Axis(labels=False, ticks=False, grid=False, title=None, domain=False)
    lines = (
        _chart(alt, edges)
        .mark_rule(color="#bbbbbb")
        .encode(x=alt.X("x:Q", axis=plain), y=alt.Y("y:Q", axis=plain), x2="x2:Q", y2="y2:Q")
    )
    points = (
        _chart(alt, people)
        .mark_point(filled=True, size=130, opacity=1)
        .encode(x="x:Q", y="y:Q", color=alt.Color("who:N", title="reads at"))
    )
    return Figure(
        "audience",
        "A value shown to a social network",
        "After Koufogiannis, Han and Pappas, Figures 5 to 7, on the karate club of Zachary (1977): everybody reads "
        f"the owner's value at ε = 1/distance. A coalition of all {len(coalition.readers)} members at distance 2 or "
        f"more knows it with a standard deviation of {coalition.std:.2f}, as the nearest of them does alone. Had "
        f"each an answer of their own, it would be {coalition.std_if_independent:.2f}, at a cost of "
        f"ε = {float(coalition.sum_of_levels):.2f}.",
        _canvas(lines + points),
    )


def decoded_pages(alt: Any, data: Data, seed: int) -> Figure:
    """RAPPOR on the start pages of the MSWeb log."""
    rng = seeded(seed)
    pages = data.catalogue["url"].to_list()
    counted = data.start_pages["url"].value_counts().sort(["count", "url"], descending=[True, False])
    truth = dict(counted.iter_rows())
    shown = counted["url"].to_list()[:_SHOWN_PAGES]
    settings = [Rappor(_DAY_BITS, 2, keep=keep, one_if_set="3/4", one_if_not="1/4") for keep in ("1/4", "1/2", "3/4")]
    filters = {page: settings[0].filter(page) for page in truth}
    everybody = np.stack([filters[page] for page in data.start_pages["url"].to_list()])
    parts = []
    for number, setting in enumerate(settings):
        if number == 0:
            memo = draw_memo(setting, everybody, rng=rng)
            reports = draw_report(setting, memo, rng=rng)
        else:
            step = Degradation(settings[number - 1], setting)
            memo, relaxed = finer_history(step, everybody, memo, reports[None], rng=rng)
            reports = relaxed[0]
        found = pl.DataFrame(decode(reports, setting, [*dict.fromkeys([*pages, *truth])])._asdict()).with_columns(
            pl.col("candidate").cast(pl.String)
        )
        epsilon = setting.epsilon(reports=1)
        parts.append(
            found.filter(pl.col("candidate").is_in(shown)).with_columns(
                setting=pl.lit(f"keep {setting.keep}: ε of one report {epsilon:.2f}"),
                low=pl.col("estimate") - pl.col("std"),
                high=pl.col("estimate") + pl.col("std"),
            )
        )
    frame = pl.concat(parts)
    exact = counted.filter(pl.col("url").is_in(shown)).rename({"url": "candidate"})
    down = alt.Y("candidate:N", title="start page", sort=shown)
    across = alt.X("estimate:Q", title="visitors")
    colour = alt.Color("setting:N", title=None, legend=alt.Legend(orient="bottom-right"))
    offset = alt.YOffset("setting:N")
    low = alt.X("low:Q", title="visitors")
    spans = _chart(alt, frame).mark_rule().encode(x=low, x2="high:Q", y=down, yOffset=offset, color=colour)
    dots = _chart(alt, frame).mark_point(filled=True).encode(x=across, y=down, yOffset=offset, color=colour)
    ticks = _chart(alt, exact).mark_tick(color="#000000", thickness=2).encode(x="count:Q", y=down)
    return Figure(
        "decoded_pages",
        "Start pages, decoded from reports that say little each",
        f"RAPPOR on the MSWeb log (UCI, CC BY 4.0): the first page of each of {data.start_pages.height:,} visitors, "
        f"filters of {_DAY_BITS} bits, one report each, and that same report at two finer settings after relaxing "
        "(Koufogiannis, Han and Pappas, section 4.2, with the histories put right). Dots and lines: estimate and one "
        "standard deviation; ticks: the truth.",
        _canvas(spans + dots + ticks, height=460),
    )


def interactive_error(alt: Any, data: Data, seed: int) -> Figure:
    """Private multiplicative weights, and where they lose."""
    rng = seeded(seed)
    pages = list(dict.fromkeys([*data.catalogue["url"].to_list(), *data.start_pages["url"].to_list()]))
    known = dict(data.start_pages["url"].value_counts().iter_rows())
    counts = np.array([known.get(page, 0) for page in pages])
    mass = int(counts.sum())
    queries = rng.random((_MOST_QUERIES, len(pages))) < 0.5
    exact = queries @ counts
    series = sh.create(
        sh.open(":memory:", seed=seed),
        Counts(pl.DataFrame({"url": list(known), "count": list(known.values())}), largest=1), name="pages",
        key="url", max_keys=1, domain=Catalogue(pages), noise="laplace",
    )  # fmt: skip
    released = counts + Laplace().sample(counts.size, 1, rng=rng)
    start = Release(pl.DataFrame({"url": pages, "noisy_count": released}), {"name": "released"})
    asked = {
        "from nothing": series.interactive("from_nothing", level=1, accuracy="0.4", mass=mass),
        "from a release": series.interactive("from_a_release", level=1, accuracy="0.4", mass=mass, start=start),
    }
    halves = [
        pl.col("url").is_in([page for page, is_in in zip(pages, half, strict=True) if is_in]) for half in queries
    ]
    errors = {
        name: np.array([abs(session.ask(half).value - truth) for half, truth in zip(halves, exact, strict=True)])
        for name, session in asked.items()
    }
    errors["the release alone"] = np.abs(queries @ released - exact)
    number = np.arange(1, _MOST_QUERIES + 1)
    mean = {name: np.cumsum(each) / number for name, each in errors.items()}
    across = alt.X("x:Q", title="queries asked")
    up = alt.Y("value:Q", title="mean error so far (visitors)", scale=_log(alt))
    colour = alt.Color("how:N", title=None, legend=alt.Legend(orient="right"))
    chart = _lines(alt, _long(number, mean, "how"), across, up, colour)
    return Figure(
        "interactive_error",
        "Queries as they come to mind",
        "The interactive mechanism of the lecture notes, with a sparse vector as its checker: random halves of the "
        f"{len(pages)} start pages of the MSWeb log, {mass:,} visitors, ε = 1 for the session and 1 for the release. "
        f"Each answer is within its stated error of {asked['from nothing'].parameters.error:,.0f}. "
        "Where all cells can be released, the release alone is better: multiplicative weights are for domains and "
        "predicates that nobody can list beforehand.",
        chart,
    )


def running_audiences(alt: Any, _: Data, seed: int) -> Figure:
    """Running counts of a generated year, with bands."""
    levels = {name: f"{name}, ρ = {level}" for name, level in AUDIENCES.items()}
    rows = running_counts(seeded(seed), seed).with_columns(pl.col("audience").replace_strict(levels))
    across = alt.X("week:Q", title="week", scale=alt.Scale(domain=[0, WEEKS], nice=False))
    colour = alt.Color(
        "audience:N", title=None, legend=alt.Legend(orient="top"),
        scale=alt.Scale(domain=[*levels.values()], range=COLOURS[:3]),
    )  # fmt: skip
    title = "visitors so far"
    base = alt.Chart().encode(x=across)
    bands = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    lines = base.mark_line(strokeWidth=1.5).encode(y=alt.Y("noisy_count:Q", title=title), color=colour)
    truth = base.mark_line(color="#000000", strokeWidth=1, strokeDash=[3, 3]).encode(y="max(visitors):Q")
    chart = alt.layer(bands, lines, truth, data=alt.InlineData(values=rows.to_dicts())).properties(
        width=190, height=260
    )
    pages = alt.Facet("page:N", title=None, sort=[*SHOWN], header=alt.Header(labelFontSize=13))
    return Figure(
        "running_audiences",
        "A year that goes on, for three audiences",
        "Running counts of three pages of a generated year of 52 weeks, released every other week at three levels, "
        "with 95 % intervals; dashed, the true counts. All of it together costs the finest level, ρ = 0.2, once. An "
        "audience sees a page once its count is above the threshold of that level. The noise of an audience goes "
        "from week to week along one path, so that its line stays on one side for a while.",
        chart.facet(column=pages, background="#ffffff"),
    )


def _chart(alt: Any, frame: pl.DataFrame) -> Any:
    return alt.Chart(alt.InlineData(values=frame.to_dicts()))


def _log(alt: Any) -> Any:
    return alt.Scale(type="log", nice=False)


def _lines(alt: Any, frame: pl.DataFrame, across: Any, up: Any, colour: Any, **mark: Any) -> Any:
    return _canvas(_chart(alt, frame).mark_line(**mark).encode(x=across, y=up, color=colour))


def _canvas(chart: Any, height: int = 340) -> Any:
    return chart.properties(width=620, height=height, background="#ffffff")


def _long(x: Any, columns: dict[str, Any], name: str) -> pl.DataFrame:
    """One row per point and column."""
    return pl.concat(
        [
            pl.DataFrame({"x": np.asarray(x, np.float64), "value": np.asarray(y), name: key})
            for key, y in columns.items()
        ]
    )
