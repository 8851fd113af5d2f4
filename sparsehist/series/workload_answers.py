"""The noisy answers of a workload: counts and noise are added so that no rounding of their sum tells counts apart.

Sums of whole numbers are exact, so whole answers get noise rounded to a grid that divides 1. Real weights have no
such grid, and the sum of a rounded A·x and a rounded L·Z would show what was rounded: of many answers that rest on
few numbers, or of a small answer beside large entries. Where one number a cell is kept, each cell gets its rounded
noise before anything is weighed: what follows sees the noisy cells and nothing else. An optimised strategy without
a left inverse adds rounded noise to R·x, rounded too, which its sensitivity is charged with, and weighs these sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.histogram import round_to_grid
from sparsehist.noise import Family
from sparsehist.noise.family import NoiseArray
from sparsehist.series.workload_noise import measures_reals
from sparsehist.workload import (
    Cells,
    Kronecker,
    MatrixWorkload,
    Strategy,
    Union,
    Workload,
    answers_of_state,
    cells_of_state,
)
from sparsehist.workload.base import AnswerArray, FloatArray

# Of the deviation of the noise on R·x: rounding a million cells so adds less than 1e-8 to the variance of their sum.
_BITS_BELOW_STD = 24
# Of the sensitivity; `workload_noise` charges for it.
_BITS_BELOW_SENSITIVITY = 30
# Further apart, noise of the largest answers would not reach the grid, which is that of the smallest.
_FARTHEST = 2.0**30


def cell_grid(strategy: Strategy, noise_std: float) -> float | None:
    """The step to which the noise of each cell is rounded before it is weighed; None where answers get theirs.

    It divides 1, so that counts may be added afterwards.

    Args:
        strategy: A = L·R.
        noise_std: Standard deviation of each entry of Z, in counts.
    """
    if strategy.workload.integral or strategy.keeps != "cells":
        return None
    return min(1.0, math.ldexp(1.0, math.frexp(noise_std)[1] - 1 - _BITS_BELOW_STD))


def measured_grid(strategy: Strategy, sensitivity: float) -> float | None:
    """The step to which R·x and its noise are rounded before they are weighed; None where they are not."""
    if not measures_reals(strategy):
        return None
    return math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - _BITS_BELOW_SENSITIVITY)


def check_spread(strategy: Strategy, least: float, largest: float) -> None:
    """Refuse real weights whose answers cannot get noise of their own.

    Either some get so much more noise than others that these share no grid, or they are computed in single precision.

    Args:
        strategy: A = L·R.
        least: Variance of the query with the least noise.
        largest: Variance of the query with the most.

    Raises:
        DeclarationError: If the standard deviations differ by more than 2**30, or an operator rounds more than
            doubles do.
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
    if isinstance(workload, Union | Kronecker):
        return all(map(_precise, workload.parts if isinstance(workload, Union) else workload.factors))
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
) -> AnswerArray:
    """A·x + L·Z for every listed query, on the grid; shape (queries,).

    Args:
        family: The noise.
        strategy: A = L·R.
        noise: The state of the level. Secret.
        cells: x. Secret.
        grid: Step of the answers.
        by_cell: What `cell_grid` gave when the release was made.
        measured: What `measured_grid` gave then.
    """
    workload = strategy.workload
    if by_cell is not None:
        cell_noise = round_to_grid(cells_of_state(family, strategy, noise), by_cell)
        return round_to_grid(workload.apply(cells.dense().reshape(-1) + cell_noise), grid)
    if measured is not None:
        seen = round_to_grid(strategy.apply(cells.dense().reshape(-1)), measured) + round_to_grid(noise, measured)
        return round_to_grid(strategy.noise_answers(seen), grid)
    added = answers_of_state(family, strategy, noise)
    exact = workload.answers(cells)
    return exact + round_to_grid(added, grid) if workload.integral else round_to_grid(exact + added, grid)


def noisy_cells(family: Family, strategy: Strategy, noise: NoiseArray, cells: Cells, *, grid: float) -> FloatArray:
    """Cells whose sums over any range are A·x + L·Z on the grid; shape (cells,).

    The prefix sums of the noise lie on the grid: a sum over a range is off by one rounding, not by many.
    """
    prefix = round_to_grid(np.cumsum(cells_of_state(family, strategy, noise)), grid)
    counts: Any = cells.dense()
    return np.asarray(counts + np.diff(prefix, prepend=0.0), np.float64)
