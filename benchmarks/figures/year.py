"""A year of visits that goes on week by week, with pages that grow, die and come late; generated, of nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

import sparsehist as sh

WEEKS = 52
AUDIENCES = {"public": "0.005", "partners": "0.02", "internal": "0.2"}
SHOWN = ("/growing", "/dying", "/late")
_VISITORS, _OTHERS = 20_000, 200


def expected_visits(week: int) -> dict[str, float]:
    """How many visits each page has in a week, from 1, on average."""
    shown = {
        "/growing": 2 * float(np.exp(week / 13)),
        "/dying": 120 * float(np.exp(-week / 11)),
        "/late": 40.0 * (week > WEEKS // 2),
    }
    return shown | {f"/other{page}": 100 / page for page in range(1, _OTHERS)}


def weeks_of_a_year(rng: np.random.Generator) -> Iterator[pl.DataFrame]:
    """The log of each week: columns visitor and page. Visitors come back, to the same page and to others."""
    for week in range(1, WEEKS + 1):
        expected = expected_visits(week)
        visits = rng.poisson(list(expected.values()))
        pages = np.repeat(np.array(list(expected)), visits)
        yield pl.DataFrame({"visitor": rng.integers(0, _VISITORS, pages.size), "page": pages})


def running_counts(rng: np.random.Generator, seed: int) -> pl.DataFrame:
    """Append the year week by week, and release running counts for three audiences every other week.

    Returns:
        Columns page, audience, week, noisy_count, low, high and visitors (the true running count): of the pages that
        are shown, in the weeks in which they were published.
    """
    pages = sh.create(
        sh.open(":memory:", seed=seed), name="pages", unit="visitor", key="page", max_keys=5,
        domain=sh.Strings(max_bytes=12), steps=WEEKS,
    )  # fmt: skip
    found: list[pl.DataFrame] = []
    counted: dict[str, set[Any]] = {page: set() for page in SHOWN}
    for week, log in enumerate(weeks_of_a_year(rng), 1):
        pages.append(log, step=week)
        for page in SHOWN:
            counted[page].update(log.filter(pl.col("page") == page)["visitor"])
        if week % 2:
            continue
        truth = pl.DataFrame({"page": list(counted), "visitors": [len(known) for known in counted.values()]})
        for audience, level in AUDIENCES.items():
            made = pages.release(f"{audience}_{week}", step=week, level=level).intervals()
            found.append(made.join(truth, on="page").with_columns(audience=pl.lit(audience), week=week))
    return pl.concat(found).select("page", "audience", "week", "noisy_count", "low", "high", "visitors")
