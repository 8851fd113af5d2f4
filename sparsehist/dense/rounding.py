"""The grids of a dense vector: of the truth, of the published noise, and of the noise kept after sealing.

All are powers of two fixed by public parameters. A published value is truth + round(noise). The grid of the noise
divides that of the truth, so the supports of the values for c and c + 1 are shifts of one another.
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import FloatArray

# A chunk of doubles and two scratch arrays fit into a cache of a megabyte; smaller chunks cost more Python calls.
CHUNK = 1 << 16

# A double has 53 bits: 25 below the standard deviation leave 28 above it, and the lattice of the ziggurat changes the
# probability of a cell by less than the cell.
_KEPT_BITS_BELOW_STD = 25


def chunks(size: int) -> list[slice]:
    """Return slices of a vector that fit the cache."""
    return [slice(start, min(size, start + CHUNK)) for start in range(0, size, CHUNK)]


def as_power_of_two(step: float, what: str) -> float:
    """Read a step: a positive, finite power of two."""
    value = float(step) if isinstance(step, int | float) else math.nan
    if not (math.isfinite(value) and value > 0 and math.frexp(value)[0] == 0.5):
        raise DeclarationError(f"{what} must be a power of two, such as 1, 0.5 or 2**-10, got {shown(step)}")
    return value


def kept_step(std: float) -> float:
    """Return the lattice on which a sealed state keeps its noise: 2**-25 of the standard deviation at the cap."""
    return math.ldexp(1.0, math.frexp(std)[1] - 1 - _KEPT_BITS_BELOW_STD)


def round_into(noise: FloatArray, step: float, out: FloatArray) -> FloatArray:
    """Round exactly to multiples of a power of two, halves down, below 2**51 steps; as `round_to_grid` does."""
    # u in (k - 1/2, k + 1/2] has ceil(2u) in {2k, 2k + 1}; every operation is exact.
    np.multiply(noise, 2.0 / step, out=out)
    np.ceil(out, out=out)
    np.multiply(out, 0.5, out=out)
    np.floor(out, out=out)
    np.multiply(out, step, out=out)
    return out


def keep_on_lattice(noise: FloatArray, step: float) -> None:
    """Replace each noise, in place, by the middle of its interval (k step, (k + 1) step].

    Rounding to any coarser grid of powers of two gives the same before and after, and equal numbers stay equal.
    """
    np.multiply(noise, 1.0 / step, out=noise)
    np.ceil(noise, out=noise)
    np.subtract(noise, 0.5, out=noise)
    np.multiply(noise, step, out=noise)
