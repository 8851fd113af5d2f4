"""Use the public interface in ways that mypy must accept; this file is type-checked but never run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, assert_type

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.series.series import RunningSeries, Series
from sparsehist.sqlfront.results import SqlResult


def creates(log: pl.LazyFrame) -> Series:
    """Create a store and a series in it."""
    with sh.open("logs.sparsehist", create=True) as store:
        assert_type(store, sh.Store)
        series = sh.create(
            store, log, name="queries", unit=["day", "user"], key="query", max_keys=20,
            domain=sh.Strings(max_bytes=32), noise=sh.noise.Laplace(20.0), cap="1/3",
            counting=sh.Counting(progress=print),
        )  # fmt: skip
        assert_type(series, Series)
        assert_type(store.ledger(full=True), pl.DataFrame)
        assert_type(store.report(), str)
    return series


def releases(series: Series) -> None:
    """Release cells and a workload, with each way to specify a level."""
    for level in (0.1, 1, "0.5", Fraction(1, 3), sh.EpsilonDelta(1, 1e-6)):
        release = series.release("public", level=level, false_keys=1)
        assert_type(release, sh.Release)
    assert_type(release.frame, pl.DataFrame)
    assert_type(release.level, Fraction)
    assert_type(release.threshold, float | None)
    assert_type(release.metadata, dict[str, Any])
    assert_type(release.intervals(0.9), pl.DataFrame)
    release.write("public.arrow")
    assert_type(sh.read("public.parquet"), sh.Release | sh.WorkloadRelease)
    ranges = series.release("ranges", workload=sh.workload.Ranges(), level="0.1")
    assert_type(ranges, sh.WorkloadRelease)
    assert_type(ranges.answer(1, 5), tuple[float, float])
    assert_type(series.plan([0.1, "0.2"]), sh.Plan)


def declares() -> None:
    """Declare domains and a running series, draw noise, and catch an error."""
    domain: sh.Domain = sh.Product(day=sh.Integers(7))
    running = sh.create(":memory:", name="daily", unit="user", key="url", max_keys=5, domain=domain, steps=7)
    assert_type(running, RunningSeries)
    running.append(sh.Files("log/*.csv"), step=1)
    noise = sh.noise.Gaussian(sensitivity=2.0).sample(5, 0.1, rng=np.random.default_rng(1))
    assert_type(float(noise[0]), float)
    try:
        assert_type(sh.sql("show ledger", store="logs.sparsehist"), SqlResult)
    except sh.errors.SparsehistError as problem:
        assert_type(problem.exit_code, int)
