"""How far a unit with l cells moves R·x under a spectral strategy: a certified bound without the matrix.

R has the Gram matrix G[i, j] = K[i, j]/(d_i d_j), K = W^½ + c·I, and the square of the sensitivity is the greatest
1ᵀ_S G 1_S over sets S of l cells. Three facts:

1. K >= 0, so 2 K[i, j]/(d_i d_j) <= K[i, j]/d_i² + K[i, j]/d_j², whatever d is, and 1ᵀ_S G 1_S is at most
   Σ_{i in S} (1/d_i²) Σ_{j in S} K[i, j].
2. K[i, j] grows in j up to i and falls behind i. So if i has a members of S on its left and b = l − 1 − a on its
   right, then Σ_{j in S} K[i, j] <= K[i, i − a] + … + K[i, i + b].
3. This last sum is a constant of a plus a window of the Hankel part, which is unimodal in i, as is d_i²; so over a
   block of cells i their quotient is at most the quotient of their extremes, and blocks that are fine where τ is
   steep lose less than a thousandth.

The bound is the sum over a = 0, …, l − 1 of the greatest such quotient.

Why: W^½ = (1/π)∫ t^-½ (W⁻¹ + t)⁻¹ dt, and W⁻¹ + t is tridiagonal with constant diagonals but for a corner. Entries
of its inverse are a growing solution at min(i, j) times a falling one at max(i, j), both positive, which is facts 1
and 2: cosh((i + ½)θ)·sinh((n − j)θ) for prefix sums, sinh(iθ)·sinh((N − j)θ) for ranges (i, j from 1). As sums they
are sinh((P/2 − m)θ) and cosh((N − m)θ) at m = |i − j| and at the place of the Hankel part: so, but for a function
(−1)^m or a constant that cancels between both parts, τ falls up to its symmetric point P or N, which is fact 3.

Columns of up to 512 cells are bounded from G itself as well, which loses less near the ends: each row is replaced
by the least function above it that falls away from the diagonal. Where there are few sets, all of them are tried.

Derived here; compared with brute force and with contiguous sets in the tests.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy import fft

from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload.gram.spectral_kernels import SpectralKernel
from sparsehist.workload.gram.written_out import bound_of_gram, largest_of_all_sets

# For the rounding of tables and of their running sums.
_ROUNDING = 1e-9
# Blocks are single cells up to this far from either end, and from there on grow by a fixed share.
_SINGLE = 300
_GROWTH = 1.01
_WRITTEN_OUT = 512
_FEW_SETS = 20_000
_WINDOWS = 64
# Weights of the bound in L1, as eighths of a power of the spectrum: the best for 1 to 4 keys, and for 5 to 1,000.
_FEW_KEYS, _MANY_KEYS = (2, 3), (4, 6)
_LONG = 2**16  # cells; from there on one weight is tried


def squared_sensitivity_bound(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """An upper bound of 1ᵀ_S G 1_S over all sets of at most `max_keys` of the first `cells` cells."""
    keys = min(max_keys, cells)
    if keys == 1:
        return 1.0
    bound = _by_rank(kernel, kernel.table, cells, keys)
    if cells <= _WRITTEN_OUT:
        if math.comb(cells, keys) <= _FEW_SETS:
            return min(largest_of_all_sets(gram_matrix(kernel, cells), keys) * (1 + _ROUNDING), float(keys) ** 2)
        bound = min(bound, bound_of_gram(gram_matrix(kernel, cells), keys))
    # The bound of Cauchy and Schwarz, as columns have norms of at most 1.
    return min(bound * (1 + _ROUNDING), float(keys) ** 2)


def l1_sensitivity_bound(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """An upper bound of the L1 norm of R·1_S over all sets of at most `max_keys` of the first `cells` cells.

    By Cauchy and Schwarz the square of Σ |v_i| is at most Σ w_i · Σ v_i²/w_i, for any w > 0. With w a power of the
    spectrum of R the second sum is 1ᵀ_S G 1_S for a power of K in the place of K, and that of W is still a mixture of
    resolvents, so that the three facts hold for it. More keys are served by more even weights.
    """
    keys = min(max_keys, cells)
    spectrum, ceiling = kernel.spectrum, kernel.unit * (1.0 + kernel.blend)
    squares = []
    powers = _FEW_KEYS if keys <= 4 else _MANY_KEYS
    for eighths in powers if cells <= _LONG else powers[1:]:
        weights = _eighths(spectrum, eighths)
        table = kernel.table_of(spectrum / weights, ceiling ** (1.0 - eighths / 8))
        bound = _by_rank(kernel, table, cells, keys)
        if cells <= _WRITTEN_OUT:
            bound = min(bound, bound_of_gram(gram_matrix(kernel, cells, table), keys))
        squares.append(float(weights.sum()) * bound)
    return math.sqrt(min(squares)) * (1 + _ROUNDING)


def _eighths(values: FloatArray, number: int) -> FloatArray:
    """values**(number / 8), by square roots: a tenth of the time of powers."""
    result, root = np.ones(1), values
    for bit in (4, 2, 1):
        root = np.sqrt(root)
        result = result * root if number & bit else result
    return result


def _by_rank(kernel: SpectralKernel, table: FloatArray, cells: int, keys: int) -> float:
    """The bound of the three facts for the matrix of this table.

    Of many keys not every number of members on the left is tried: those in between have the window of their extremes.
    """
    sums = np.concatenate([np.zeros(1), np.cumsum(table)])
    squares = kernel.scales**2
    edges = graded(cells)
    groups = max(_WINDOWS, -(-keys // _SINGLE))
    starts = np.unique(np.linspace(0, keys, groups + 1).astype(np.int64)).tolist()
    return math.fsum(
        (end - start) * _greatest(kernel, sums, squares, edges, (start, end - 1), keys)
        for start, end in pairwise(starts)
    )


def _greatest(
    kernel: SpectralKernel,
    sums: FloatArray,
    squares: FloatArray,
    edges: IntArray,
    lefts: tuple[int, int],
    keys: int,
) -> float:
    """The greatest, over cells i, of (K[i, i − left] + … + K[i, i + right])/d_i²; from above.

    For any number of members on the left between two: the largest on either side, as far as there are cells. Only
    single cells are so near the ends that there are not.
    """
    fewest, most = lefts
    first = np.unique(np.clip(edges, fewest, edges[-1] - (keys - 1 - most)))
    last = np.append(first[1:] - 1, first[-1])
    left, right = np.minimum(most, first), np.minimum(keys - 1 - fewest, edges[-1] - first)
    toeplitz = sums[left + 1] + sums[right + 1] - sums[1]
    turn = np.floor((kernel.turning_point - kernel.shift - (right - left) / 2) / 2).astype(np.int64)
    hankel = np.full(first.size, -np.inf)
    for cell in (first, last, *(np.clip(turn + step, first, last) for step in (-1, 0, 1, 2))):
        low = 2 * cell - left + kernel.shift
        np.maximum(hankel, kernel.sign * (sums[low + left + right + 1] - sums[low]), out=hankel)
    return float(np.max((toeplitz + hankel) / np.minimum(squares[first], squares[last])))


def squared_sensitivity_reached(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """The greatest 1ᵀ_S G 1_S over some contiguous sets S: a lower bound, reached by a unit."""
    keys = min(max_keys, cells)
    if keys == 1 and not kernel.window:
        return 1.0
    if keys == 1:
        return float(np.max(kernel.diagonal()[:cells] / kernel.scales[:cells] ** 2))
    table, scales = kernel.table, kernel.scales
    starts = graded(cells - keys + 1)
    chosen = starts[np.unique(np.linspace(0, starts.size - 1, 64).astype(np.int64))]
    return max(
        quadratic_form(table, kernel, 1 / scales[start : start + keys], int(start)) for start in chosen.tolist()
    )


def gram_matrix(kernel: SpectralKernel, cells: int, table: FloatArray | None = None) -> FloatArray:
    """G written out, or that of another table; shape (cells, cells)."""
    table = kernel.table if table is None else table
    scales, i = kernel.scales[:cells], np.arange(cells)
    entries = table[np.abs(i[:, np.newaxis] - i)] + kernel.sign * table[i[:, np.newaxis] + i + kernel.shift]
    return np.asarray(entries / np.outer(scales, scales))


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


def graded(cells: int) -> IntArray:
    """Cells from 0 to cells − 1, all of them near both ends and ever fewer away from them; sorted."""
    half = (cells + 1) // 2
    steps = max(0, math.ceil(math.log(max(half, _SINGLE) / _SINGLE) / math.log(_GROWTH)))
    far = (_SINGLE * _GROWTH ** np.arange(steps + 1)).astype(np.int64)
    near = np.concatenate([np.arange(_SINGLE), far])
    near = near[near < half]
    return np.unique(np.concatenate([near, cells - 1 - near, [cells - 1 - half // 2, half // 2]]))
