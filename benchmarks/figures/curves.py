"""The numbers behind the figures.

Papers: [KHP Figure 1, Figure 2, Figure 3].
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from sparsehist.dense.laplace_path import LaplacePath
from sparsehist.typing import ArrayLike, FloatArray


def relaxation_atom(known: float, coarse: float, fine: float) -> float:
    """P[fine noise = coarse noise | coarse noise = known], Laplace noise of rates `coarse` < `fine`.

    Example:
        >>> round(relaxation_atom(0.5, 1, 2), 10)
        0.3032653299

    Source: [KHP eq. 22].
    """
    return float((coarse / fine) ** 2 * _laplace(known, fine) / _laplace(known, coarse))


def relaxation_density(values: ArrayLike, known: float, coarse: float, fine: float) -> FloatArray:
    """Density of the fine noise given the coarse one, beside its atom; shape as `values`.

    Example:
        >>> round(float(relaxation_density(-0.5, 0.5, 1, 2)), 10)
        0.1673476201

    Source: [KHP eq. 22].
    """
    y = np.asarray(values, np.float64)
    jump = 1 - (coarse / fine) ** 2
    return jump * _laplace(y, fine) * _laplace(known - y, coarse) / _laplace(known, coarse)


def staircase_density(values: ArrayLike, epsilon: float) -> FloatArray:
    """Density of the staircase law with the least variance, for sensitivity 1; shape as `values`.

    Source: Geng and Viswanath 2012.
    """
    b = math.exp(-epsilon)
    step = -b / (1 - b) + ((b - 2 * b**2 + 2 * b**4 - b**5) / 2) ** (1 / 3) / (1 - b) ** 2
    height = (1 - b) / (2 * (step + b * (1 - step)))
    whole, rest = np.divmod(np.abs(np.asarray(values, np.float64)), 1.0)
    return np.asarray(height * b ** (whole + (rest >= step)))


def independent_over_lossless(releases: int, least: float, most: float) -> float:
    """Variance of independent releases over lossless ones, budgets evenly apart on a logarithmic scale.

    Each independent release has the difference of two budgets to spend; all but the first pay
    rho_i / (rho_i - rho_(i-1)).

    Example:
        >>> round(independent_over_lossless(5, 0.001, 5), 10), round(independent_over_lossless(50, 0.001, 5), 10)
        (1.1349716343, 6.2675467199)

    Source: [ARNP Figure 2].
    """
    return 1.0 / (1.0 - math.exp(math.log(least / most) / (releases - 1)))


def doubling_over_lossless(levels: ArrayLike, power: int = 1) -> FloatArray:
    """Variance of releases that double their budget each time over lossless ones; shape as `levels`.

    Of a budget b the finest release has the largest power of two that, with all before it, stays within b: half of
    2^floor(log2 b). Budgets are rho with power 1, epsilon with power 2: variance is level to minus that.

    Example:
        >>> doubling_over_lossless([1, 1.5], power=2).tolist()
        [4.0, 9.0]

    Source: [KHP section 1].
    """
    level = np.asarray(levels, np.float64)
    return np.asarray((level / 2.0 ** (np.floor(np.log2(level)) - 1)) ** power)


def _laplace(values: ArrayLike, rate: float) -> FloatArray:
    return np.asarray(rate / 2 * np.exp(-rate * np.abs(values)))


def path_points(path: LaplacePath) -> pl.DataFrame:
    """The corners of paths, as steps are drawn: coordinate, level, noise, angle = arctan(noise)."""
    coarsest, finest = path.interval
    coordinate, levels, sizes = path.jumps()
    ends = np.repeat(np.arange(len(path)), 2)
    frame = pl.DataFrame(
        {
            "coordinate": np.concatenate([ends, coordinate]),
            "level": np.concatenate([np.tile([float(coarsest), float(finest)], len(path)), levels]),
            "jump": np.concatenate([np.zeros(ends.size), sizes]),
        }
    )
    at_finest = pl.DataFrame({"coordinate": np.arange(len(path)), "noise_there": path.evaluate(finest)})
    # Of a step the left corner carries the value that holds from there to the next jump.
    after = pl.col("jump").reverse().cum_sum().reverse().shift(-1, fill_value=0.0).over("coordinate")
    return (
        frame.sort("coordinate", "level")
        .join(at_finest, on="coordinate", how="left", maintain_order="left")
        .with_columns(noise=pl.col("noise_there") + after)
        .with_columns(angle=pl.col("noise").arctan())
        .select("coordinate", "level", "noise", "angle")
    )
