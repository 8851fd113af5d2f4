"""Round the noise of a dense vector to a grid, before values are published or the truth is erased (`seal`).

Grid steps are powers of two, and are fixed by public parameters. A published value is truth + round(noise). The grid
step of the noise divides the grid step of the truth, so every truth has the same set of possible published values.
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import FloatArray

# Number of entries per chunk: small enough for the processor's cache, and large enough that Python calls cost little.
CHUNK = 1 << 16

# When the truth is erased, noise is rounded to 2**-25 of its standard deviation. A double has 53 bits, so noise up to
# 2**28 standard deviations stays exact. numpy's normal sampler cannot return every double, but it can return many in
# each grid interval. So rounded noise has no gaps that would rule out some true values.
_KEPT_BITS_BELOW_STD = 25


def chunks(size: int) -> list[slice]:
    """Return slices that divide a vector of `size` entries into chunks that fit in the cache."""
    return [slice(start, min(size, start + CHUNK)) for start in range(0, size, CHUNK)]


def as_power_of_two(step: float, what: str) -> float:
    """Return `step` as a float. Raise DeclarationError unless it is a positive, finite power of two."""
    value = float(step) if isinstance(step, int | float) else math.nan
    if not (math.isfinite(value) and value > 0 and math.frexp(value)[0] == 0.5):
        raise DeclarationError(f"{what} must be a power of two, such as 1, 0.5 or 2**-10, got {shown(step)}")
    return value


def kept_step(std: float) -> float:
    """Return the grid step of the noise that `seal` keeps: 2**-25 * std, rounded down to a power of two."""
    return math.ldexp(1.0, math.frexp(std)[1] - 1 - _KEPT_BITS_BELOW_STD)


def round_into(noise: FloatArray, step: float, out: FloatArray) -> FloatArray:
    """Round noise to multiples of `step`; ties are rounded down. The result is exact for noise below 2**51 steps."""
    # For u in (k - 1/2, k + 1/2], floor(ceil(2u) / 2) is k. Every operation is exact.
    np.multiply(noise, 2.0 / step, out=out)
    np.ceil(out, out=out)
    np.multiply(out, 0.5, out=out)
    np.floor(out, out=out)
    np.multiply(out, step, out=out)
    return out


def keep_on_lattice(noise: FloatArray, step: float) -> None:
    """Replace each number x in place by (k + 1/2) * step, where k is the integer with k * step < x <= (k + 1) * step.

    Rounding the results to a coarser grid gives the same values as rounding the original numbers to that grid.
    """
    np.multiply(noise, 1.0 / step, out=noise)
    np.ceil(noise, out=noise)
    np.subtract(noise, 0.5, out=noise)
    np.multiply(noise, step, out=noise)
