"""The answers of a workload: keys as cell numbers, and noise on its grid.

Rounding must reveal no more than the noisy value. If the state holds one number per cell, each cell gets noise
rounded to a grid that divides 1, before cells are summed. Otherwise exact whole answers get rounded noise. Noise is
rounded up or down at random, so that its mean stays the same (docs/mathematics.md, "Numerical slack").
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsehist.declaration.checks import checked_confidence
from sparsehist.domain import Domain, Product
from sparsehist.entropy import generator
from sparsehist.errors import DeclarationError, InputError, NotFoundError, raise_alone, shown
from sparsehist.histogram import count_near, grid_step, numerical_slack, round_to_grid
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Family
from sparsehist.noise.family import NoiseArray
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.store.series_files import SeriesFiles
from sparsehist.store.support import LOTS, salt_for
from sparsehist.typing import FloatArray, Generator, IntArray
from sparsehist.workload import Cells, Strategy, Workload, answers_of_state, cells_of_state
from sparsehist.workload.queries.workload import AnswerArray, KeyNumbers

if TYPE_CHECKING:
    from sparsehist.release.releases import WorkloadRelease

# The values of a column with more values, such as text, are not numbered.
_NUMBERED = 2**63
# In a query, this means that the key column is summed over.
_ALL_VALUES = -1


# Keys and cell numbers


def key_domains(domain: Domain) -> tuple[Domain, ...]:
    """Return the domain of each key column."""
    return domain.components if isinstance(domain, Product) else (domain,)


def column_sizes(domain: Domain) -> tuple[int, ...]:
    """Number of values of each key column."""
    return tuple(column.size for column in key_domains(domain))


def as_keys(
    asked: Any, dtype: pl.DataType, what: str = "this release", error: type[InputError] = NotFoundError
) -> pl.Series:
    """Return keys that a caller gave as a series of the key's type; dates may be text."""
    try:
        if dtype != pl.Date:
            return pl.Series(asked, dtype=dtype)
        days = pl.Series(asked)
        return days if days.dtype == pl.Date else days.str.to_date("%Y-%m-%d")
    except (TypeError, ValueError, pl.exceptions.PolarsError, OverflowError):
        kind = "dates such as '2026-01-31'" if dtype == pl.Date else f"of type {dtype}"
        raise_alone(error(f"the keys of {what} are {kind}"))


def numbers_of(domain: Domain, name: str) -> KeyNumbers:
    """Return a function from the keys of a column, as a caller gives them, to their numbers."""

    def numbers(keys: Sequence[Any]) -> IntArray:
        if domain.size >= _NUMBERED:
            raise DeclarationError(f"{domain.describe()} has too many keys for ranges of {name}")
        given = pl.DataFrame({"key_0": as_keys(keys, domain.dtypes[0], name, DeclarationError)})
        inside = domain.contains(given)
        if not inside.all():
            raise DeclarationError(f"{shown(keys[int(np.argmin(inside))])} is no key of {name}: {domain.describe()}")
        return domain.index(given)

    return numbers


def cells_of(files: SeriesFiles, domain: Domain) -> Cells:
    """Return the bounded counts of a series by cell number. Secret; reads the whole counts file."""
    counted, columns = files.all_counted(), key_domains(domain)
    coordinates = tuple(
        # There are at most 2**31 queries, so every query sums over a column that is too large to be numbered.
        np.zeros(counted.height, np.int64)
        if column.size >= _NUMBERED
        else column.index(counted.select(pl.col(f"key_{i}").alias("key_0")))
        for i, column in enumerate(columns)
    )
    return Cells(column_sizes(domain), coordinates, counted["count"].to_numpy().astype(np.int64, copy=False))


def queries_frame(queries: Mapping[str, IntArray], domain: Domain, names: Sequence[str]) -> pl.DataFrame:
    """Describe the queries in keys instead of numbers.

    The columns are low and high; or the key columns, null if the query sums over one, with name_low and name_high
    instead for ranges of a column; or the number of the query.
    """
    columns = key_domains(domain)
    known = {end: (end, columns[0]) for end in ("low", "high") if len(columns) == 1}
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        known |= {f"column_{i}": (name, column)}
        known |= {f"{end}_{i}": (f"{name}_{end}", column) for end in ("low", "high")}
    if set(queries) <= set(known) and len({known[kind][0] for kind in queries}) == len(queries):
        return pl.DataFrame([_values(numbers, *known[kind]) for kind, numbers in queries.items()])
    return pl.DataFrame(dict(queries))


def _values(numbers: IntArray, name: str, domain: Domain) -> pl.Series:
    given = numbers != _ALL_VALUES
    if not given.any():
        return pl.Series(name, [None] * len(numbers), dtype=domain.dtypes[0])
    values = domain.keys(np.where(given, numbers, 0))["key_0"]
    return values.scatter(np.flatnonzero(~given), None).alias(name)


def quantiles(release: WorkloadRelease, probabilities: Sequence[float], confidence: float) -> pl.DataFrame:
    """Estimate quantiles from prefix sums; see `WorkloadRelease.quantiles`."""
    from scipy.special import ndtri

    frame = release.frame
    if release.implicit:
        keys = frame[:, 0]
        frame = release.answers(pl.Series([keys[0]] * len(keys), dtype=keys.dtype), keys)
    elif "low" in frame.columns:
        frame = frame.filter(pl.col("low") == pl.col("low").min()).unique("high").sort("high")
    if "low" not in frame.columns or frame.height != Workload.parse(release.metadata["workload"]).n_cells:
        raise DeclarationError(
            "quantiles need prefix sums of all cells of one column of keys: release workload=sh.workload.Prefix()"
        )
    prefix, std = (frame[name].to_numpy() for name in ("noisy_answer", "std"))
    factor, last, rising = float(ndtri(0.5 + confidence / 2)), len(prefix) - 1, np.maximum.accumulate(prefix)
    rows = []
    for share in (checked_confidence(given, "a probability") for given in probabilities):
        excess, margin = prefix - share * prefix[-1], factor * (std + share * std[-1])
        low = np.flatnonzero(excess >= -margin).min(initial=last)  # the first key that may be the quantile
        high = min(np.flatnonzero(excess < margin).max(initial=-1) + 1, last)  # all before may lie below it
        value = min(max(np.searchsorted(rising, share * prefix[-1]), low), high)
        rows.append((share, *(frame["high"][int(at)] for at in (value, low, high))))
    schema = dict.fromkeys(("value", "low", "high"), frame["high"].dtype)
    return pl.DataFrame(rows, [("q", pl.Float64()), *schema.items()], orient="row")


def positions(keys: pl.Series, asked: Any) -> IntArray:
    """Return the positions of keys in the order of the domain."""
    wanted = as_keys(asked, keys.dtype)
    numbered = pl.DataFrame({"key": keys}).with_row_index("position")
    found = pl.DataFrame({"key": wanted}).join(numbered, on="key", how="left", maintain_order="left")["position"]
    if found.null_count():
        which = shown(wanted[0]) if len(wanted) == 1 else "one of these"
        raise NotFoundError(f"{which} is no key of the domain {keys.name!r} was declared with")
    return found.to_numpy().astype(np.int64)


# Noise and answers


def check_noise(family: Family) -> None:
    """Refuse a family of noise that does not support workloads."""
    if family.norm is None or not is_dataclass(family):
        raise DeclarationError(
            f"{type(family).__name__} noise has no workloads: take noise='gaussian', 'laplace' or 'discrete_laplace'"
        )


def family_for(family: Family, strategy: Strategy, sensitivity: float) -> Family:
    """Return the family of the noise on R·x: that of the series, with the sensitivity of the strategy."""
    if family.integer and not strategy.integral:
        raise DeclarationError(
            f"{type(family).__name__} noise needs counts: the strategy {strategy.name} measures sums with real "
            "weights; strategy='auto' takes one that measures counts"
        )
    remade: Callable[..., Family] = replace
    return remade(family, sensitivity=round(sensitivity) if family.integer else sensitivity)


def cell_grid(strategy: Strategy, noise_std: float) -> float | None:
    """Return the grid of the noise of each cell, which is rounded before it is summed; None if answers are rounded.

    The grid divides 1, so counts may be added afterwards. A sum a·(R⁻¹Z) has the variance a(RᵀR)⁻¹aᵀ, at least a·aᵀ
    over the largest eigenvalue of RᵀR. Random rounding adds a·aᵀ/6 times the square of the grid, less than 7e-4 of
    that.
    """
    if not strategy.invertible:
        return None
    trace = strategy.workload.n_cells * strategy.l2(1) ** 2
    return grid_step(noise_std / math.sqrt(min(trace, strategy.largest_eigenvalue())))


def slack_of(
    family: Family, strategy: Strategy, level: Level, max_keys: int, *, least: float, past: Sequence[Level]
) -> float:
    """Return the numerical slack of a release, from the noisy numbers that are rounded first.

    `least` is the least variance of an answer, for Z of variance 1; `past` are the levels released on this path.
    """
    std, near, workload = family.std(level), count_near(past, level), strategy.workload
    if strategy.word == "identity":  # only cells of the changed unit differ between neighbours
        return numerical_slack(min(max_keys, workload.n_cells), std, grid_step(std), near=near)
    number, variance = workload.n_queries, strategy.mean_variance
    grid = cell_grid(strategy, std)
    if grid is not None:
        number, variance = workload.n_cells, strategy.cell_variance
    spread = std * math.sqrt(variance())
    return numerical_slack(
        number, spread, grid or grid_step(std * math.sqrt(least)), near=near, terms=strategy.n_noise
    )


def noisy_answers(
    family: Family,
    strategy: Strategy,
    noise: NoiseArray,
    cells: Cells,
    *,
    grid: float,
    by_cell: float | None,
    lots: Generator,
) -> AnswerArray:
    """Return A·x + L·Z for every listed query, on the grid; shape (queries,). `by_cell` is the result of `cell_grid`.

    If queries are not listed: return noisy cells whose sums over any range are A·x + L·Z, shape (cells,). Prefix sums
    of the noise are rounded to the grid, so the sum over a range has one rounding error, not many.
    """
    workload = strategy.workload
    if by_cell is None and workload.explicit:
        added, exact = answers_of_state(family, strategy, noise), workload.answers(cells)
        return exact + rounded(added, grid, lots) if workload.integral else rounded(exact + added, grid, lots)
    added, counts = cells_of_state(family, strategy, noise), cells.dense().reshape(-1)
    if by_cell is not None:
        added = rounded(added, by_cell, lots)
    if workload.explicit:
        return round_to_grid(workload.apply(counts + added), grid)
    return np.asarray(counts + np.diff(round_to_grid(np.cumsum(added), grid), prepend=0.0), np.float64)


def lots_for(secret: bytes, path: PathName, level: Level) -> Generator:
    """Return the generator that rounds the noise of a level of a path: independent of the noise, and reproducible."""
    about = "\n".join((*map(str, path), level_text(as_level(level))))
    key = hashlib.blake2b(about.encode(), key=salt_for(LOTS, secret), digest_size=16).digest()
    return generator(int.from_bytes(key))


def rounded(values: AnswerArray, step: float, lots: Generator) -> FloatArray:
    """Round values randomly to multiples of a step, a power of two, so that the mean is the value."""
    units = np.asarray(values, np.float64) / step
    below = np.floor(units)
    below += lots.random(below.shape) < units - below
    below *= step
    return below
