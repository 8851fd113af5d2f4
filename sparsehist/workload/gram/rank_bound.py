"""How far a unit with l cells moves R·x under a spectral strategy: a certified bound without the matrix.

R has the Gram matrix G[i, j] = K[i, j]/(d_i d_j), K = W^½ + c·I, and the square of the sensitivity is the greatest
1ᵀ_S G 1_S over sets S of l cells. Three facts:

1. K >= 0, so 2 K[i, j]/(d_i d_j) <= K[i, j]/d_i² + K[i, j]/d_j², whatever d is, and 1ᵀ_S G 1_S is at most
   Σ_{i in S} (1/d_i²) Σ_{j in S} K[i, j].
2. K[i, j] grows in j up to i and falls behind i. So if i has a members of S on its left and b = l − 1 − a on its
   right, then Σ_{j in S} K[i, j] <= K[i, i − a] + … + K[i, i + b].
3. This last sum is a constant of a plus a window of the Hankel part, which is unimodal in i, as is d_i²; so over a
   block of cells i their quotient is at most the quotient of their extremes.

The bound is the sum over a = 0, …, l − 1 of the greatest such quotient.

Why: W^½ = (1/π)∫ t^-½ (W⁻¹ + t)⁻¹ dt, and W⁻¹ + t is tridiagonal with constant diagonals but for a corner. Entries
of its inverse are a growing solution at min(i, j) times a falling one at max(i, j), both positive, which is facts 1
and 2: cosh((i + ½)θ)·sinh((n − j)θ) for prefix sums, sinh(iθ)·sinh((N − j)θ) for ranges (i, j from 1). As sums they
are sinh((H − m)θ) and cosh((H − m)θ) at m = |i − j| and at the place of the Hankel part: the first falls, the second
is least at H, which is fact 3.

So they hold for every sum of resolvents with positive weights. Such a sum g near K is taken in the place of K
(`resolvents`): with κ the spectrum of K, 1ᵀ_S G 1_S is at most the greatest κ/g times the same form of g. Its entries
cost a few exponentials each, so that no bound takes a transform or a table of the whole column. d² is known to 1e-8
in the same way.

Columns of up to 512 cells are bounded from G itself as well, which loses less near the ends: each row is replaced
by the least function above it that falls away from the diagonal. Where there are few sets, all of them are tried.

Derived here; compared with brute force and with contiguous sets in the tests.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload.gram.profiles import Profile, by_sides, numbers_up_to
from sparsehist.workload.gram.resolvents import Resolvents, ratios, resolvents
from sparsehist.workload.gram.spectral_kernels import SpectralKernel
from sparsehist.workload.gram.written_out import bound_of_gram, largest_of_all_sets

# For the rounding of sums, and for what lies between the frequencies that are looked at.
_ROUNDING = 1e-6
# Blocks are single cells up to this far from either end, and from there on grow by a fixed share.
_SINGLE = 64
_GROWTH = 1.06
_WRITTEN_OUT = 512
_FEW_SETS = 20_000
_WINDOWS = 64
# Runs of cells, an odd number, so that one is in the middle; and their cells together, if more than one is tried.
_RUNS, _IN_RUNS = 9, 20_000
# All numbers of cells at once: of more blocks than these, those beyond the first few are made one with the next.
_BLOCKS, _NEAR, _THINNED = 256, 32, 2
# Steps and margins of mixtures: of d² (off by 1e-9), in L2 (by 1e-6) and in L1, where they need not be near.
_SCALES, _SQUARES, _WEIGHTS = (0.9, 1e6), (1.2, 1e4), (3.0, 10.0)
# Weights of the bound in L1, as eighths of a power of the spectrum: the best for 1 to 4 keys, and for 5 to 1,000.
_FEW_KEYS, _MANY_KEYS = (2, 3), (4, 6)


def squared_sensitivity_bound(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """An upper bound of 1ᵀ_S G 1_S over all sets of at most `max_keys` of the first `cells` cells."""
    keys = min(max_keys, cells)
    if keys == 1 and not kernel.window:
        return 1.0
    mixture = resolvents(kernel, 1.0, *_SQUARES)
    bound = float(ratios(kernel, mixture)[0].max()) * _by_rank(kernel, mixture, cells, keys)
    if cells <= _WRITTEN_OUT:
        if math.comb(cells, keys) <= _FEW_SETS:
            return min(largest_of_all_sets(gram_matrix(kernel, cells), keys) * (1 + _ROUNDING), float(keys) ** 2)
        bound = min(bound, bound_of_gram(gram_matrix(kernel, cells), keys))
    # The bound of Cauchy and Schwarz, as columns have norms of at most 1.
    return min(bound * (1 + _ROUNDING), float(keys) ** 2)


def l1_sensitivity_bound(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """An upper bound of the L1 norm of R·1_S over all sets of at most `max_keys` of the first `cells` cells.

    By Cauchy and Schwarz the square of Σ |v_i| is at most Σ w_i · Σ v_i²/w_i, for any w > 0. With w = κ/g, κ the
    squares of the singular values of R and g a mixture of resolvents near a power of them, the second sum is
    1ᵀ_S G 1_S with g in the place of K, for which the three facts hold. More keys are served by more even weights.
    """
    keys = min(max_keys, cells)
    squares = []
    for eighths in _FEW_KEYS if keys <= 4 else _MANY_KEYS:
        mixture = resolvents(kernel, 1.0 - eighths / 8, *_WEIGHTS)
        weights, rule = ratios(kernel, mixture)
        bound = _by_rank(kernel, mixture, cells, keys)
        if cells <= _WRITTEN_OUT:
            table = 2.0 * kernel.unit * mixture.entries(np.arange(2 * cells + kernel.shift))
            bound = min(bound, bound_of_gram(gram_matrix(kernel, cells, table), keys))
        squares.append(float(rule @ weights) * bound)
    return math.sqrt(min(squares)) * (1 + _ROUNDING)


def _squared_scales(kernel: SpectralKernel, cells: IntArray) -> FloatArray:
    """d² at some cells, in units of s."""
    root = resolvents(kernel, 1.0, *_SCALES)
    atom = root.identity - kernel.blend / 2.0
    squares = root.around(cells, kernel.window, atom)
    if kernel.window:
        everywhere = graded(kernel.length)
        norms = root.around(everywhere, 0, atom) / root.around(everywhere, kernel.window, atom)
        squares *= float(norms.max())
    return squares


def _by_rank(kernel: SpectralKernel, mixture: Resolvents, cells: int, keys: int) -> float:
    """The bound of the three facts for a mixture.

    Of many keys not every number of members on the left is tried: those in between have the window of their
    extremes, the largest on either side, as far as there are cells.
    """
    starts = np.unique(np.linspace(0, keys, _WINDOWS + 1).astype(np.int64))
    fewest, most = starts[:-1], starts[1:] - 1
    edges = graded(cells)[:, np.newaxis]
    ends = np.append(edges[1:] - 1, edges[-1:], axis=0)
    squares = _squared_scales(kernel, np.append(edges, ends, axis=1)).min(axis=1, keepdims=True)
    first, last = np.maximum(edges, fewest), np.minimum(ends, cells - keys + most)
    some = first <= last
    last = np.maximum(first, last)
    left, right = np.minimum(most, last), np.minimum(keys - 1 - fewest, cells - 1 - first)
    rows = mixture.rows(first, last, left, np.maximum(right, 0))
    return float(np.where(some, rows / squares, 0.0).max(axis=0) @ (most - fewest + 1.0))


def squared_sensitivity_reached(kernel: SpectralKernel, cells: int, max_keys: int) -> float:
    """The greatest 1ᵀ_S G 1_S over some contiguous sets S: a lower bound, reached by a unit."""
    keys = min(max_keys, cells)
    if keys == 1 and not kernel.window:
        return 1.0
    mixture = resolvents(kernel, 1.0, *_SQUARES)
    starts = graded(cells - keys + 1)
    number = _RUNS if _RUNS * keys <= _IN_RUNS else 1
    chosen = np.unique(starts[np.linspace(0, starts.size - 1, number).astype(np.int64)])
    runs = chosen[:, np.newaxis] + np.arange(keys)
    weights = 1.0 / np.sqrt(_squared_scales(kernel, runs))
    length = fft.next_fast_len(2 * keys, real=True)
    waves = fft.rfft(weights, length)
    lags = fft.irfft(waves * waves.conj(), length)[:, :keys]
    sums = fft.irfft(waves * waves, length)[:, : 2 * keys - 1]
    table = mixture.entries(np.arange(keys))
    places = 2 * chosen[:, np.newaxis] + kernel.shift + np.arange(2 * keys - 1)
    forms = 2.0 * lags @ table - table[0] * lags[:, 0] + kernel.sign * np.sum(mixture.entries(places) * sums, axis=1)
    return float(ratios(kernel, mixture)[0].min() * forms.max()) * (1 - _ROUNDING)


def profile_by_sides(kernel: SpectralKernel, cells: int, keys: int) -> Profile:
    """What 1, 2, …, `keys` cells come to, at most the number of cells: by sides (`profiles`), all at once.

    Cells come in groups by how many members are on one side, the fewest and the most of a group.
    """
    mixture = resolvents(kernel, 1.0, *_SQUARES)
    kappa, _ = ratios(kernel, mixture)
    ends = numbers_up_to(keys) - 1
    fewest, most = np.append(0, ends[:-1] + 1), ends
    edges = graded(cells)[:, np.newaxis]
    if len(edges) > _BLOCKS:
        edges = np.concatenate([edges[:_NEAR], edges[_NEAR:-1:_THINNED], edges[-1:]])
    stops = np.append(edges[1:] - 1, edges[-1:], axis=0)
    squares = _squared_scales(kernel, np.append(edges, stops, axis=1)).min(axis=1, keepdims=True)
    sides = []
    for on_left in (True, False):
        first = np.maximum(edges, fewest) if on_left else edges + 0 * fewest
        last = stops + 0 * fewest if on_left else np.minimum(stops, cells - 1 - fewest)
        some = first <= last
        last = np.maximum(first, last)
        if on_left:
            rows = mixture.rows(first, last, np.minimum(most, last), np.zeros_like(last))
        else:
            reach = np.minimum(most, np.maximum(cells - 1 - first, 0))
            rows = mixture.rows(first, last, np.full_like(last, -1), reach) - mixture.identity
        sides.append(np.where(some, rows / squares, -np.inf))
    upper = float(kappa.max()) * by_sides(sides[0], sides[1], most - fewest + 1)
    number = np.arange(1.0, keys + 1)
    upper = np.minimum(upper, number**2)
    # The first cells of one run in the middle, with the largest scale of theirs.
    begin, t = (cells - keys) // 2, np.arange(keys)
    scales = np.maximum.accumulate(_squared_scales(kernel, begin + t))
    table, hankel = mixture.entries(t), mixture.entries(2 * begin + kernel.shift + np.arange(2 * keys - 1))
    sums = np.append(0.0, np.cumsum(hankel))
    added = 2.0 * (sums[2 * t] - sums[t]) + hankel[2 * t]  # to the Hankel part, by the cell t
    rows = 2.0 * np.cumsum(table) - table[0] + kernel.sign * added
    lower = float(kappa.min()) * np.cumsum(rows) / scales
    norms, reached = np.sqrt(upper * (1 + _ROUNDING)), np.sqrt(np.maximum(lower, 0.0) * (1 - _ROUNDING))
    return Profile(norms, norms, np.minimum(np.maximum.accumulate(reached), norms))


def gram_matrix(kernel: SpectralKernel, cells: int, table: FloatArray | None = None) -> FloatArray:
    """G written out, or that of another table; shape (cells, cells)."""
    table = kernel.table if table is None else table
    scales, i = kernel.scales[:cells], np.arange(cells)
    entries = table[np.abs(i[:, np.newaxis] - i)] + kernel.sign * table[i[:, np.newaxis] + i + kernel.shift]
    return np.asarray(entries / np.outer(scales, scales))


def graded(cells: int) -> IntArray:
    """Cells from 0 to cells − 1, all of them near both ends and ever fewer away from them; sorted."""
    half = (cells + 1) // 2
    steps = max(0, math.ceil(math.log(max(half, _SINGLE) / _SINGLE) / math.log(_GROWTH)))
    far = (_SINGLE * _GROWTH ** np.arange(steps + 1)).astype(np.int64)
    near = np.concatenate([np.arange(_SINGLE), far])
    near = near[near < half]
    return np.unique(np.concatenate([near, cells - 1 - near, [cells - 1 - half // 2, half // 2]]))
