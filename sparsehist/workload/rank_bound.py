"""How far a unit with l cells moves R·x under a spectral strategy: a certified bound without the matrix.

With K = W^½ + c·I and d its diagonal's root, R has the Gram matrix G[i, j] = K[i, j]/(d_i d_j), and the square of the
sensitivity is the greatest 1ᵀ_S G 1_S over sets S of l cells. Three facts:

1. K >= 0 (roots of inverses of M-matrices are), so 2 K[i, j]/(d_i d_j) <= K[i, j]/d_i² + K[i, j]/d_j², and
   1ᵀ_S G 1_S <= Σ_{i in S} (1/d_i²) Σ_{j in S} K[i, j].
2. K[i, j] grows in j up to i and falls behind i: its steps are sums of 1/sin or cot at angles whose order is known,
   the alternating terms cancelling in pairs. So if i has a members of S on its left and b = l − 1 − a on its right,
   then Σ_{j in S} K[i, j] <= K[i, i − a] + … + K[i, i + b].
3. This last sum is a constant of a plus a window of the Hankel part, which is unimodal in i, as is d_i²; so over a
   block of cells i their quotient is at most the quotient of their extremes, and blocks that are fine where τ is
   steep lose less than a thousandth.

The bound is the sum over a = 0, …, l − 1 of the greatest such quotient. Derived here; compared with brute force and
with the best contiguous set in the tests.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sparsehist.workload.base import FloatArray
from sparsehist.workload.cells import IntegerArray
from sparsehist.workload.spectral_kernels import SpectralKernel

# For the rounding of tables and of their running sums.
_ROUNDING = 1e-9
# Blocks are single cells up to this far from either end, and from there on grow by a fixed share.
_SINGLE = 300
_GROWTH = 1.01


def squared_sensitivity_bound(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """An upper bound of 1ᵀ_S G 1_S over all sets of at most `max_keys` of the first `cells` cells."""
    keys = min(max_keys, cells)
    if keys == 1:
        return 1.0
    table = kernel.table()
    sums = np.concatenate([np.zeros(1), np.cumsum(table)])
    squares = kernel.column_norms**2
    edges = graded(cells)
    bound = math.fsum(_greatest(kernel, sums, squares, edges, left, keys - 1 - left) for left in range(keys))
    # The bound of Cauchy and Schwarz for columns of norm 1.
    return min(bound * (1 + _ROUNDING), float(keys) ** 2)


def _greatest(
    kernel: SpectralKernel, sums: FloatArray, squares: FloatArray, edges: IntegerArray, left: int, right: int
) -> float:
    """The greatest, over cells i, of (K[i, i − left] + … + K[i, i + right])/d_i²; from above."""
    first = np.unique(np.clip(edges, left, edges[-1] - right))
    last = np.append(first[1:] - 1, first[-1])
    toeplitz = sums[left + 1] + sums[right + 1] - sums[1]
    turn = (kernel.turning_point - kernel.shift - (right - left) / 2) / 2
    hankel = np.full(first.size, -np.inf)
    for cell in (first, last, *(np.clip(int(turn) + step, first, last) for step in (-1, 0, 1, 2))):
        low = 2 * cell - left + kernel.shift
        np.maximum(hankel, kernel.sign * (sums[low + left + right + 1] - sums[low]), out=hankel)
    return float(np.max((toeplitz + hankel) / np.minimum(squares[first], squares[last])))


def squared_sensitivity_reached(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """The greatest 1ᵀ_S G 1_S over some contiguous sets S: a lower bound, reached by a unit."""
    keys = min(max_keys, cells)
    table, norms = kernel.table(), kernel.column_norms
    starts = graded(cells - keys + 1)
    chosen = starts[np.unique(np.linspace(0, starts.size - 1, 64).astype(np.int64))]
    return max(
        quadratic_form(table, kernel, 1 / norms[start : start + keys], int(start)) for start in chosen.tolist()
    )


def quadratic_form(table: FloatArray, kernel: SpectralKernel, weights: FloatArray, start: int) -> float:
    """wᵀ·K·w for weights on the cells from `start` on."""
    size = weights.size
    length = fft.next_fast_len(2 * size, real=True)
    waves = fft.rfft(weights, length)
    lags = fft.irfft(waves * waves.conj(), length)[:size]
    sums = fft.irfft(waves * waves, length)[: 2 * size - 1]
    toeplitz = 2 * float(table[:size] @ lags) - float(table[0] * lags[0])
    offset = 2 * start + kernel.shift
    return toeplitz + kernel.sign * float(table[offset : offset + 2 * size - 1] @ sums)


def graded(cells: int) -> NDArray[np.int64]:
    """Cells from 0 to cells − 1, all of them near both ends and ever fewer away from them; sorted."""
    half = (cells + 1) // 2
    steps = max(0, math.ceil(math.log(max(half, _SINGLE) / _SINGLE) / math.log(_GROWTH)))
    far = (_SINGLE * _GROWTH ** np.arange(steps + 1)).astype(np.int64)
    near = np.concatenate([np.arange(_SINGLE), far])
    near = near[near < half]
    return np.unique(np.concatenate([near, cells - 1 - near, [cells - 1 - half // 2, half // 2]]))
