"""Write an archive of a store with all kinds of series and their releases: `python -m tests.store.format_1`.

The archive in data/ contains a store in format 1. The format is frozen: later versions of the package must be able to
open this archive and to add releases. So do not write it again; a new format gets a module and an archive of its own.
"""

from __future__ import annotations

import shutil
import tarfile
from datetime import date
from pathlib import Path

import polars as pl

import sparsehist as sh

ARCHIVE = Path(__file__).parent / "data" / "format_1.tar.xz"
PLACE = Path("/tmp/sparsehist-format-1")
DAYS = ("2026-03-10", "2026-03-17")
LEVEL, FINER = "0.5", "2"


def log() -> pl.DataFrame:
    """Return a log of 300 units with up to three keys each."""
    rows = [
        (f"u{i}", f"k{(i * i + j) % 11}", i % 2, DAYS[i % 2], float(i % 7))
        for i in range(300)
        for j in range(i % 3 + 1)
    ]
    return pl.DataFrame(rows, schema=["user", "key", "bit", "day", "price"], orient="row")


def write(place: Path) -> None:
    """Create the store, make releases of every series, and write each release to a file."""
    store = sh.open(place / "store", create=True, who="curator")
    rows, text = log(), "strings(max_bytes=4)"
    rows.select(pl.col("key").unique().sort()).write_parquet(place / "keys.parquet")
    catalogue = f"catalogue(file={str(place / 'keys.parquet')!r}, column='key')"
    store.set_budget(rho=60, delta="1e-4")
    one = {"unit": "user", "key": "key", "max_keys": 3, "domain": text}
    pure = {"population": "others", "max_keys": 1}
    series = {
        "cells": one | {"cap": "4", "measures": [sh.Measure("price", clip=10)]},
        "shares": one | {"bounding": "share"},
        "laplace": one | pure | {"noise": "laplace"},
        "whole": one | pure | {"noise": "discrete_laplace"},
        "skellam": one | pure | {"noise": "skellam"},
        "poisson": one | pure | {"noise": "poisson"},
        "opened": one | {"domain": "open(delta='1e-6')"},
        "listed": one | {"domain": catalogue},
        "pairs": one | {"key": ["key", "bit"], "domain": f"product(key={text}, bit=integers(2))"},
        "units": one | {"key": None, "domain": None, "max_keys": 1},
        "gone": one,
    }
    for name, declared in series.items():
        made = sh.create(store, rows, name=name, **declared)
        for release, level in (("coarse", LEVEL), ("fine", FINER), ("between", "1")):
            if name != "opened" or release == "coarse":
                sums = {"measures": level} if declared.get("measures") else {}
                made.release(release, level=level, **sums).write_parquet(place / f"{name}_{release}.parquet")
    store.series("cells").raise_cap("5", reason="a second study")
    store.series("listed").release("ranges", workload="prefix()", level=LEVEL).write_parquet(place / "ranges.parquet")
    session = store.series("listed").interactive("ad_hoc", level="0.3", accuracy="0.4", mass=100_000)
    session.ask(pl.lit(value=True))  # the answer is measured, because the true sum of counts is far below `mass`
    store.drop("gone", reason="asked for")
    store.declare_disjoint(["default", "others"], reason="by country")
    daily = sh.create(store, name="daily", steps=sh.Steps(8, start=DAYS[0]), **one)
    for step, day in enumerate(DAYS, 1):
        daily.append(rows.filter(day=day), step=step)
        daily.release(f"day_{step}", step=step, level=LEVEL).write_parquet(place / f"daily_{step}.parquet")
    weekly = sh.create(store, name="weekly", every=sh.Every("week", most_periods=3, budget="10"), **one)
    for day in DAYS:
        of_week = weekly.append(rows.filter(day=day), period=date.fromisoformat(day))
        of_week.release("public", level=LEVEL).write_parquet(place / f"weekly_{day}.parquet")


if __name__ == "__main__":
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    write(PLACE)
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        archive.add(PLACE, arcname=".")
    shutil.rmtree(PLACE)
