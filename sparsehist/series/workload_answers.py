"""The noisy answers of a workload: counts and noise are added so that no rounding of their sum tells counts apart.

Where one number for each cell is kept, each cell gets its noise, rounded to a grid that divides 1, before anything is
summed or weighed: what follows sees the noisy cells and nothing else, and may round as it likes. Otherwise sums of
whole numbers are exact, so whole answers get noise rounded to such a grid. Real weights have none, and the sum of a
rounded A·x and a rounded L·Z would show what was rounded: of many answers that rest on few numbers, or of a small
answer beside large entries. An optimised strategy without a left inverse adds rounded noise to R·x, rounded too,
which its sensitivity is charged with, and weighs these sums.

Noise is rounded up or down by lot, with the probabilities that keep its mean. Where it lies between two steps then
does not decide whether an error of its last digits is seen, and the numerical slack is a sum of mean errors. The lots
must not depend on the noise: they come from a secret of the series, the path and the level (`lots_for`), so that a
release made again is the same.

Post-processing is declared, random in nothing and free of cost: a function of the noisy answers alone, so releases at
several levels together still cost what the finest costs. The stated standard deviations are those before it. Releases
of cells and of workloads that are made to agree get errors of their own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsehist.domain import Domain
from sparsehist.entropy import generator
from sparsehist.errors import DeclarationError, InputError, of_kind
from sparsehist.histogram import count_near, grid_step, numerical_slack, round_to_grid
from sparsehist.ledger.ledger import PathName
from sparsehist.noise import Family
from sparsehist.noise.family import NoiseArray, sensitivity_norm
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series.metadata import CellMetadata, WorkloadMetadata, read_metadata
from sparsehist.series.workload_keys import column_sizes, key_domains
from sparsehist.store.support import LOTS, salt_for
from sparsehist.typing import FloatArray, Generator, IntArray
from sparsehist.workload import (
    Cells,
    MatrixWorkload,
    Strategy,
    Workload,
    answers_of_state,
    cells_of_state,
    strategy_named,
)
from sparsehist.workload.agreed import Measured, agree, measured
from sparsehist.workload.queries.linear_queries import AnswerArray, Composite
from sparsehist.workload.strategies.optimised import Optimised

if TYPE_CHECKING:
    from sparsehist.series.release import Release, WorkloadRelease

# Of the sensitivity; `family_for` charges for it.
_BITS_BELOW_SENSITIVITY = 20
# Further apart, noise of the largest answers would not reach the grid, which is that of the smallest.
_FARTHEST = 2.0**30
# Of the sensitivity: what rounding R·x to `measured_grid` may add to it, 512 entries of 2**-20 in L1, and more.
_CHARGE = 2.0**-10
STEPS = ("consistent", "non_negative")
BY_LOT = "by lot"
_LARGEST_SOLVED = 2**22
_MOST_WEIGHED = 2048
_ADDED = ("consistent", "consistent_error")


def check_noise(family: Family) -> None:
    """Refuse noise that has no workloads."""
    if sensitivity_norm(family) is None or not is_dataclass(family):
        raise DeclarationError(
            f"{type(family).__name__} noise has no workloads: take noise='gaussian', 'laplace' or 'discrete_laplace'"
        )


def measures_reals(strategy: Strategy) -> bool:
    """Whether real answers come from R·x rounded, with noise rounded alike: where R has no left inverse.

    Only for strategies of few cells: R·x is computed from all of them.
    """
    return isinstance(strategy, Optimised) and strategy.keeps == "noise" and not strategy.workload.integral


def family_for(family: Family, strategy: Strategy, size: float) -> Family:
    """The family of a series with the sensitivity of a strategy, `size`: of the noise on R·x."""
    check_noise(family)
    if not family.integer:
        larger = size * (1.0 + _CHARGE if measures_reals(strategy) else 1.0)
        return replace(family, sensitivity=larger)  # type: ignore[type-var]
    if strategy.integral:
        return replace(family, sensitivity=round(size))  # type: ignore[type-var]
    raise DeclarationError(
        f"{type(family).__name__} noise needs counts: the strategy {strategy.name} measures sums with real weights; "
        "strategy='auto' takes one that measures counts"
    )


def cell_grid(strategy: Strategy, noise_std: float) -> float | None:
    """The step to which the noise of each cell is rounded before it is summed; None where answers get theirs.

    It divides 1, so that counts may be added afterwards. A sum a·(R⁻¹Z) has the variance a(RᵀR)⁻¹aᵀ, at least a·aᵀ
    over the trace of RᵀR, to which rounding by lot adds a·aᵀ/6 times the square of the step: less than 7e-4 of it.
    """
    if strategy.keeps != "cells":
        return None
    if strategy.alone:
        return grid_step(noise_std)
    trace = strategy.workload.n_cells * strategy.sensitivity(1).l2 ** 2
    return grid_step(noise_std / math.sqrt(trace))


def measured_grid(strategy: Strategy, sensitivity: float) -> float | None:
    """The step to which R·x and its noise are rounded before they are weighed; None where they are not."""
    if not measures_reals(strategy):
        return None
    return math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - _BITS_BELOW_SENSITIVITY)


def slack_of(
    family: Family,
    strategy: Strategy,
    level: Level,
    max_keys: int,
    *,
    sensitivity: float,
    grid: float,
    past: Sequence[Level],
) -> float:
    """The numerical slack of a release: of the noisy numbers that are rounded before anything else is done with them.

    Args:
        family: The noise, as `family_for` makes it.
        strategy: A = L·R.
        level: Of the release.
        max_keys: Keys that a unit may touch.
        sensitivity: Of the strategy.
        grid: Step of the answers.
        past: Levels that were released before on this path.
    """
    std = family.std(level)
    measured, by_cell = measured_grid(strategy, sensitivity), cell_grid(strategy, std)
    near = count_near(past, level)
    if strategy.alone:  # noise of other cells has the same law whatever the unit does
        numbers = min(max_keys, strategy.workload.n_cells)
        return numerical_slack(numbers, std, by_cell or grid, near=near)
    if measured:
        return numerical_slack(strategy.n_noise, std, measured, near=near)
    if by_cell:
        return numerical_slack(strategy.workload.n_cells, std, by_cell, near=near, terms=strategy.n_noise)
    std *= math.sqrt(strategy.mean_variance())
    return numerical_slack(strategy.workload.n_queries, std, grid, near=near, terms=strategy.n_noise)


def check_spread(strategy: Strategy, least: float, largest: float) -> None:
    """Refuse real weights whose answers cannot get noise of their own.

    Either some get so much more noise than others that these share no grid, or they are computed in single precision.
    """
    weighed = strategy.keeps == "cells" or measures_reals(strategy)
    if strategy.workload.integral or weighed:
        return
    if not _precise(strategy.workload):
        raise DeclarationError(
            f"an operator in {strategy.workload.describe()} computes in less than double precision, which answers of "
            f"{strategy.name} would show: take strategy='identity'"
        )
    if math.sqrt(largest / least) <= _FARTHEST:
        return
    raise DeclarationError(
        f"the answers of {strategy.workload.describe()} under {strategy.name} differ too much in noise to share a "
        f"grid: the largest deviation is {math.sqrt(largest / least):.3g} times the least; ask them apart, or take "
        "strategy='identity'"
    )


def _precise(workload: Workload) -> bool:
    if isinstance(workload, Composite):
        return all(map(_precise, workload.parts))
    return not isinstance(workload, MatrixWorkload) or workload.precise


def noisy_answers(
    family: Family,
    strategy: Strategy,
    noise: NoiseArray,
    cells: Cells,
    *,
    grid: float,
    by_cell: float | None,
    measured: float | None,
    lots: Generator | None,
) -> AnswerArray:
    """A·x + L·Z for every listed query, on the grid; shape (queries,).

    `by_cell` and `measured` are what `cell_grid` and `measured_grid` gave when the release was made; without `lots`
    noise is rounded to the nearest step.
    """
    workload = strategy.workload
    if by_cell is not None:
        noisy = cells.dense().reshape(-1) + cell_noise(family, strategy, noise, by_cell, lots)
        return round_to_grid(workload.apply(noisy), grid)
    if measured is not None:
        seen = round_to_grid(strategy.apply(cells.dense().reshape(-1)), measured)
        seen += _rounded(noise, measured, lots)
        return round_to_grid(strategy.noise_answers(seen), grid)
    added = answers_of_state(family, strategy, noise)
    exact = workload.answers(cells)
    if workload.integral:
        return exact + _rounded(added, grid, lots)
    return _rounded(exact + added, grid, lots)


def cell_noise(
    family: Family, strategy: Strategy, noise: NoiseArray, by_cell: float | None, lots: Generator | None
) -> FloatArray:
    """R⁻¹·Z as it is added to the cells, on their grid where they have one; shape (cells,)."""
    exact = cells_of_state(family, strategy, noise)
    return exact if by_cell is None else _rounded(exact, by_cell, lots)


def noisy_cells(cells: Cells, noise: FloatArray, *, grid: float) -> FloatArray:
    """Cells with their `cell_noise`, whose sums over any range are A·x + L·Z on the grid; shape (cells,).

    The prefix sums of the noise, which are exact, lie on the grid: a sum over a range is off by one rounding, not by
    many.
    """
    prefix = round_to_grid(np.cumsum(noise), grid)
    counts: Any = cells.dense()
    return np.asarray(counts + np.diff(prefix, prepend=0.0), np.float64)


def lots_for(secret: bytes, path: PathName, level: Level) -> Generator:
    """The lots of a release: those of nothing else, and of no noise; the same when it is made again.

    Keyed by the state they would be alike at two levels whose states agree to the last digit, which says where the
    noise lies among the doubles; and a state of one number is too few digits for a key.

    Args:
        secret: Of the series.
        path: That of the workload and its strategy.
        level: Of the release.
    """
    about = "\n".join((*map(str, path), level_text(as_level(level))))
    key = hashlib.blake2b(about.encode(), key=salt_for(LOTS, secret), digest_size=16).digest()
    return generator(int.from_bytes(key))


def _rounded(values: AnswerArray, step: float, lots: Generator | None) -> FloatArray:
    """Multiples of a step, a power of two, next to the values: the mean over the lots is the value."""
    if lots is None:
        return round_to_grid(np.asarray(values, np.float64), step)
    units = np.asarray(values, np.float64) / step
    below = np.floor(units)
    below += lots.random(below.shape) < units - below
    below *= step
    return below


def checked_steps(steps: str | Iterable[str]) -> tuple[str, ...]:
    """Read the declared steps, in the order they are done."""
    given = {steps} if isinstance(steps, str) else set(steps)
    unknown = sorted(map(repr, given - set(STEPS)))
    if unknown:
        raise DeclarationError(f"post_processing takes {' and '.join(map(repr, STEPS))}, got {', '.join(unknown)}")
    return tuple(step for step in STEPS if step in given)


def check_possible(workload: Workload, steps: tuple[str, ...]) -> None:
    """Refuse steps that this workload has no use for, before anything is spent."""
    if "non_negative" in steps and not workload.non_negative:
        raise DeclarationError(f"answers of {workload.describe()} may be negative: its matrix has negative entries")
    if "consistent" in steps and workload.explicit and workload.n_cells > _LARGEST_SOLVED:
        raise DeclarationError(
            f"consistent answers are found by solving for the cells, and {workload.n_cells} are too many; "
            f"at most {_LARGEST_SOLVED}"
        )


def post_process(workload: Workload, answers: FloatArray, std: FloatArray, steps: tuple[str, ...]) -> FloatArray:
    """Make listed answers, of standard deviations `std`, consistent, non-negative or both; shape (queries,).

    "consistent" answers are those that some histogram gives, nearest in least squares weighted by the deviations;
    "non_negative" ones are none below 0; both, those of a histogram without negative counts.
    """
    if "consistent" in steps:
        return _nearest_histogram(workload, answers, std, non_negative="non_negative" in steps)
    return np.maximum(answers, 0.0) if "non_negative" in steps else answers


def post_process_cells(counts: FloatArray, steps: tuple[str, ...]) -> FloatArray:
    """The same for the vector of cells of a workload that is not listed: what it answers is consistent already.

    Without negative counts its prefix sums rise: the nearest rising ones are taken.

    Example:
        >>> post_process_cells(np.array([3.0, -1.0, 2.0]), ("non_negative",)).tolist()
        [2.5, 0.0, 1.5]
    """
    if "non_negative" not in steps:
        return counts
    from scipy.optimize import isotonic_regression

    rising = np.maximum(isotonic_regression(np.cumsum(counts)).x, 0.0)
    return np.diff(rising, prepend=0.0)


def _nearest_histogram(workload: Workload, answers: FloatArray, std: FloatArray, *, non_negative: bool) -> FloatArray:
    from scipy.optimize import lsq_linear
    from scipy.sparse.linalg import LinearOperator, lsmr

    weights = 1.0 / np.where(std > 0, std, 1.0)
    operator = LinearOperator(
        workload.shape,
        matvec=lambda x: weights * workload.apply(x.reshape(-1)),
        rmatvec=lambda y: workload.apply_transposed(weights * y.reshape(-1)),
        dtype=np.float64,
    )
    target = weights * answers
    if non_negative:
        solved = lsq_linear(operator, target, bounds=(0.0, np.inf), lsq_solver="lsmr", tol=1e-9).x
        solved = np.maximum(solved, 0.0)
    else:
        solved = lsmr(operator, target, atol=1e-13, btol=1e-13, maxiter=10 * sum(workload.shape))[0]
    return workload.apply(solved)


def consistent(cells: Release, workloads: Sequence[WorkloadRelease], domain: Domain | None) -> list[pl.DataFrame]:
    """See `Release.consistent`."""
    about, found = _checked(cells, workloads)
    domain = Domain.parse(about.domain) if domain is None else domain
    strategies = [strategy_named(one.strategy, Workload.parse(one.workload)) for one in found]
    largest = max(*(strategy.n_noise for strategy in strategies), *map(len, workloads))
    if domain.is_open or max(domain.size, largest) > _MOST_WEIGHED:
        raise DeclarationError(
            f"cells and answers are weighed together up to {_MOST_WEIGHED} of them: {domain.describe()}"
        )
    estimates = cells.estimates()
    rows = np.eye(domain.size)[_numbers(domain, cells.frame.select(about.key))]
    own = Measured(rows, estimates["estimate"].to_numpy(), np.diag(estimates["estimate_error"].to_numpy() ** 2))
    answered = [
        measured(strategy, one.frame["noisy_count" if one.implicit else "noisy_answer"].to_numpy(), said.noise_std)
        for strategy, one, said in zip(strategies, workloads, found, strict=True)
    ]
    return [
        frame.with_columns(pl.Series(name, column) for name, column in zip(_ADDED, one, strict=True))
        for frame, one in zip(_frames(cells, workloads), agree([own, *answered]), strict=True)
    ]


def _checked(cells: Release, workloads: Sequence[WorkloadRelease]) -> tuple[CellMetadata, list[WorkloadMetadata]]:
    about = read_metadata(cells.metadata)
    if not isinstance(about, CellMetadata):
        raise DeclarationError(f"{cells.name!r} is no release of cells: call consistent of one, with workloads")
    found = [of_kind(read_metadata(one.metadata), WorkloadMetadata) for one in workloads]
    if not found:
        raise DeclarationError("consistent takes the releases of workloads that are to agree with this one")
    if {(one.store, one.series) for one in found} != {(about.store, about.series)}:
        raise InputError("only releases of one series have counts in common")
    if any(one.post_processing for one in found):
        raise DeclarationError("answers that were post-processed have no covariance any more: release them without")
    if len({(one.workload, one.strategy) for one in found}) < len(found):
        raise DeclarationError("of each workload and strategy one release, the finest: others add nothing but noise")
    if any(set(_ADDED) & set(frame.columns) for frame in _frames(cells, workloads)):
        raise InputError(f"a key column is called as one to be added, {' or '.join(_ADDED)}: rename it in the log")
    return about, found


def _frames(cells: Release, workloads: Sequence[WorkloadRelease]) -> list[pl.DataFrame]:
    return [one.frame for one in (cells, *workloads)]


def _numbers(domain: Domain, keys: pl.DataFrame) -> IntArray:
    """The cell of each key, in the order of workloads: the last column runs fastest."""
    columns = zip(key_domains(domain), keys.get_columns(), strict=True)
    coordinates = tuple(column.index(pl.DataFrame({"key_0": values})) for column, values in columns)
    return np.asarray(np.ravel_multi_index(coordinates, column_sizes(domain)), np.int64)
