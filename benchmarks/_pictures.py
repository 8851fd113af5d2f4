"""Pictures of the page; they need the extra `plots`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]


def picture_of_release(result: Result) -> Any:
    """Stacked phases of every case, and how long it may take."""
    import altair as alt

    total: Counter[str] = Counter()
    for at in result["cases"].values():
        total.update({phase: found["wall_s"]["median"] for phase, found in at["phases"].items()})
    shown = [phase for phase, _ in total.most_common(9)]
    rows = [
        {"case": case, "phase": phase if phase in shown else "small ones", "ms": 1e3 * found["wall_s"]["median"]}
        for case, at in result["cases"].items()
        for phase, found in at["phases"].items()
    ]
    targets = [
        {"case": case, "ms": 1e3 * (at["left_of_target_s"]["wall_s"]["median"] + whole["wall_s"]["median"])}
        for case, at in result["cases"].items()
        for whole in [at["medians"]["release, all in all"]]
    ]
    y = alt.Y("case:N", title=None, sort=None, axis=alt.Axis(labelLimit=240))
    colour = alt.Color("phase:N", title=None, sort=[*shown, "small ones"], scale=alt.Scale(scheme="tableau10"))
    bars = alt.Chart(alt.Data(values=rows)).mark_bar()
    ticks = alt.Chart(alt.Data(values=targets)).mark_tick(color="black", thickness=3, height=24)
    stacked = bars.encode(x=alt.X("sum(ms):Q", title="wall, ms; black: the target"), y=y, color=colour)
    return (stacked + ticks.encode(x="ms:Q", y=y)).properties(width=520)


def picture_of_real_logs(result: Result) -> Any:
    """Share of the cells published, by size of their count."""
    import altair as alt

    rows = [
        {"log": name, "release": f"level {made['level']}", "count": 10 ** decade["decade"],
         "share": (decade["published"] or 0) / decade["cells"]}
        for name, found in result["cases"].items()
        for made in found["releases"]
        for decade in made["by_decade"]
    ]  # fmt: skip
    decades = alt.Axis(values=[10**exponent for exponent in range(8)], format="~s")
    lines = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    return lines.encode(
        x=alt.X("count:Q", title="true count, from", scale=alt.Scale(type="log"), axis=decades),
        y=alt.Y("share:Q", title="share of the keys published", axis=alt.Axis(format="%")),
        color=alt.Color("release:N", title=None, sort=None),
        facet=alt.Facet("log:N", title=None, columns=3, sort=None),
    ).properties(width=170, height=130)


def picture_of_lossless(result: Result) -> Any:
    """Figure 2 made anew: variance of the noise over the level, by number of audiences."""
    import altair as alt

    rows = [row for row in result["variances"] if row["way"] == "independent"]
    rows += [row | {"releases": "lossless, any number"} for row in _finest(result, "lossless")]
    values = [{"rho": row["rho"], "variance": row["variance"], "who": _named(row["releases"])} for row in rows]
    lines = alt.Chart(alt.Data(values=values)).mark_line(point={"size": 12})
    return lines.encode(
        x=alt.X("rho:Q", title="level of the audience, ρ", scale=alt.Scale(type="log")),
        y=alt.Y("variance:Q", title="variance of its noise", scale=alt.Scale(type="log")),
        color=alt.Color("who:N", title=None, sort=None),
    ).properties(width=460, height=300)


def _finest(result: Result, way: str) -> list[dict[str, Any]]:
    most = max(row["releases"] for row in result["variances"])
    return [row for row in result["variances"] if row["way"] == way and row["releases"] == most]


def _named(releases: int | str) -> str:
    return releases if isinstance(releases, str) else f"{releases} independent"


def picture_of_dense_sparse(result: Result) -> Any:
    """Time of a gradual release over the size of the domain, dense and sparse."""
    import altair as alt

    values = [
        {
            "cells": float(row["cells"]),
            "s": row[way]["rounds_wall_s"]["median"],
            "who": f"{way}, {row['m']} round{'s' * (row['m'] > 1)}",
        }
        for row in result["compared"]
        for way in ("dense", "sparse")
    ]
    decades = alt.Axis(values=[10**exponent for exponent in range(10)], format="~e")
    lines = alt.Chart(alt.Data(values=values)).mark_line(point=True)
    return lines.encode(
        x=alt.X("cells:Q", title="cells of the domain", scale=alt.Scale(type="log"), axis=decades),
        y=alt.Y("s:Q", title="wall clock, s", scale=alt.Scale(type="log")),
        color=alt.Color("who:N", title=None, sort=None),
    ).properties(width=460, height=300)


PICTURES: dict[str, Callable[[Result], Any]] = {
    "release": picture_of_release,
    "real_logs": picture_of_real_logs,
    "lossless": picture_of_lossless,
    "dense_sparse": picture_of_dense_sparse,
}


def save_picture(name: str, title: str, result: Result, results: Path, page: Path) -> str:
    """Draw a picture beside the results, where the extra is installed; the Markdown by which the page shows it."""
    try:
        import altair  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        return ""
    picture = results / f"{name}.svg"
    PICTURES[name](result).save(picture)
    return f"\n![{title}]({Path(os.path.relpath(picture, page.parent)).as_posix()})\n"
