"""Two matrices W = AᵀA whose roots need no matrix: prefix sums, and all ranges of one column.

The inverse of W is tridiagonal with constant diagonals but for one corner, so its eigenvectors are sines or cosines,
and the entries of any function K of W are a Toeplitz part and a Hankel part made of one table τ:

    K[i, j] = τ(|i − j|) + sign·τ(i + j + shift)            i, j = 0, …, length − 1

All ranges, N = length + 1: sign −1, shift 2, singular values √N/(2 sin(πk/2N)), the sine transform DST-I.
Prefix sums, P = 2 length + 1: sign +1, shift 1, singular values 1/(2 cos(πv/P)) for v = 1, …, length, eigenvectors
cos((P − 2v)(2j + 1)π/2P). With u = length − j these are (−1)^(u + v) sin(2πuv/P) up to one common sign: the imaginary
part of one real Fourier transform of odd length.

The function here is K = W^½ + c·I, and columns are divided by d. With c = 0 and d² the diagonal of K it is nearly the
best for one cell a unit. A unit of many cells adds up where K is smooth: then some of the identity costs less than it
gains, and d² is the sum of K over a window about the diagonal.

A workload of n cells may use a kernel of a greater length, whose transform is quick: it takes the first n columns.
"""

from __future__ import annotations

import abc
import heapq
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import fft

from sparsehist.typing import FloatArray, IntArray

Entries = Callable[[IntArray], FloatArray]

# Up to this length every transform is quick enough, whatever its prime factors.
_ANY_LENGTH = 4096


class SpectralKernel(abc.ABC):
    """The singular values of A, its right singular vectors as a fast transform, and the entries of K and of K⁻¹.

    Args:
        length: Number of cells the transform is for.
        blend: c in units of the least singular value; not negative.
        window: Cells on either side of the diagonal over which d² is summed.
    """

    sign: ClassVar[float]
    shift: ClassVar[int]

    def __init__(self, length: int, blend: float = 0.0, window: int = 0) -> None:
        self.length = length
        self.blend = blend
        self.window = window

    @property
    @abc.abstractmethod
    def unit(self) -> float:
        """The limit of the singular values at the highest frequency, just beyond the last of them."""

    @property
    @abc.abstractmethod
    def singular_values(self) -> FloatArray:
        """Of A, in the order of `transform`; shape (length,)."""

    @abc.abstractmethod
    def transform(self, x: FloatArray) -> FloatArray:
        """Coordinates along the right singular vectors; orthonormal; shape (length,) or (length, m)."""

    @abc.abstractmethod
    def transform_back(self, y: FloatArray) -> FloatArray:
        """The inverse, which is the transpose."""

    @property
    @abc.abstractmethod
    def _beyond(self) -> float:
        """τ(last + m)/τ(m), where `last` is the last place of a table."""

    @abc.abstractmethod
    def _series(self, spectrum: FloatArray, last: float) -> FloatArray:
        """The table whose matrix has this spectrum, and the value `last` at the highest frequency."""

    @property
    def spectrum(self) -> FloatArray:
        """Of K, in the order of `transform`; shape (length,)."""
        return self.singular_values + self.blend * self.unit

    @cached_property
    def table(self) -> FloatArray:
        """τ of K for m = 0, …, 2 length + shift − 1 at least."""
        table = self._table_of_root()
        table[0] += self.blend * self.unit
        return table

    def _table_of_root(self) -> FloatArray:
        """τ of W^½."""
        return self._series(self.singular_values, 0.0)

    def inverse_entries(self) -> Entries:
        """τ of K⁻¹ as a function of places, smooth but for its ends.

        Without a blend it is known in closed form: series of a sine times cosines. With one it is a table. There the
        spectrum goes on smoothly beyond its highest frequency, and that one is put in: it adds an alternating
        function (−1)^m, which the Toeplitz and the Hankel part have alike with opposite signs.
        """
        if not self.blend:
            return self._inverse_of_root
        return self._series(1 / self.spectrum, 1 / (self.unit + self.blend * self.unit)).__getitem__

    @abc.abstractmethod
    def _inverse_of_root(self, places: IntArray) -> FloatArray:
        """τ of W^-½, but for an alternating function (−1)^m."""

    def diagonal(self) -> FloatArray:
        """Of K; shape (length,). The steps of τ have a closed form, so no table is needed."""
        return self._diagonal_of_root() + self.blend * self.unit

    @abc.abstractmethod
    def _diagonal_of_root(self) -> FloatArray:
        """Of W^½; shape (length,)."""

    @cached_property
    def scales(self) -> FloatArray:
        """What columns are divided by, d, so that the greatest norm of a column is 1; shape (length,).

        Beyond the ends the column goes on as its own reflection: τ is even, and d² as smooth as K.
        """
        diagonal, reach = self.diagonal(), self.window
        if not reach:
            return np.sqrt(diagonal)
        plain = self.table.copy()
        plain[0] -= self.blend * self.unit
        around = np.concatenate([plain[reach:0:-1], plain, self._beyond * plain[1 : reach + 1]])
        sums = np.concatenate([np.zeros(1), np.cumsum(around)])
        windows = sums[2 * reach + 1 :] - sums[: -2 * reach - 1]
        squares = windows[0] + self.blend * self.unit + self.sign * windows[self.shift :: 2][: self.length]
        return np.asarray(np.sqrt(squares * np.max(diagonal / squares)))

    @cached_property
    def root_spectrum(self) -> FloatArray:
        """Of K^½; shape (length,)."""
        return np.sqrt(self.spectrum)


class RangesKernel(SpectralKernel):
    """All ranges: W[i, j] = (min(i, j) + 1)(length − max(i, j))."""

    sign = -1.0
    shift = 2

    @property
    def singular_values(self) -> FloatArray:
        size = self.length + 1
        return np.asarray(np.sqrt(size) / (2 * np.sin(np.pi / (2 * size) * np.arange(1, size))))

    def transform(self, x: FloatArray) -> FloatArray:
        return np.asarray(fft.dst(x, type=1, norm="ortho", axis=0))

    def transform_back(self, y: FloatArray) -> FloatArray:
        return self.transform(y)

    @property
    def unit(self) -> float:
        return float(np.sqrt(self.length + 1) / 2)

    @property
    def _beyond(self) -> float:
        return 1.0

    def _diagonal_of_root(self) -> FloatArray:
        """τ(0) − τ(2i), i from 1: a running sum of pairs of cotangents, symmetric about the middle."""
        size, half = self.length + 1, (self.length + 1) // 2
        angle, places = np.pi / (4 * size), np.arange(4, 4 * half + 4, 4)
        steps = np.sin(2 * angle * (places - 2)) / (np.sin(angle * (places - 3)) * np.sin(angle * (places - 1)))
        left = np.cumsum(steps) / (2 * np.sqrt(size))
        return np.concatenate([left, left[: self.length - half][::-1]])

    def _inverse_of_root(self, places: IntArray) -> FloatArray:
        size = self.length + 1
        angle = np.pi / (4 * size)
        around = np.sin(angle * (2 * places + 1)) * np.sin(angle * (2 * places - 1))
        return np.asarray(-np.sin(2 * angle) / (2 * size**1.5) / around)

    def _series(self, spectrum: FloatArray, last: float) -> FloatArray:
        """A series of cosines of period 2 N, even about N."""
        half = fft.dct(np.concatenate([[0.0], spectrum, [last]]), type=1) / (2 * self.length + 2)
        return np.concatenate([half, half[-2::-1]])


class PrefixKernel(SpectralKernel):
    """Prefix sums: W[i, j] = length − max(i, j)."""

    sign = 1.0
    shift = 1

    @cached_property
    def singular_values(self) -> FloatArray:
        size = 2 * self.length + 1
        # cos(πv/P) near v = P/2 as a sine, for its last digits.
        return np.asarray(1 / (2 * np.sin(np.pi / (2 * size) * np.arange(size - 2, 0, -2))))

    def transform(self, x: FloatArray) -> FloatArray:
        turned = np.zeros((self.length + 1, *x.shape[1:]))
        turned[1:] = x[::-1]
        turned[1::2] *= -1
        return self._odd_sines(turned)

    def transform_back(self, y: FloatArray) -> FloatArray:
        padded = np.zeros((self.length + 1, *y.shape[1:]))
        padded[1:] = y
        turned = self._odd_sines(padded)
        turned[::2] *= -1
        return turned[::-1]

    def _odd_sines(self, padded: FloatArray) -> FloatArray:
        """Σ_u x_u sin(2πuv/P)·2/√P for v = 1, …, length, from x_0 = 0, …, x_length."""
        size = 2 * self.length + 1
        waves = fft.rfft(padded, size, axis=0).imag[1:]
        waves *= -2 / np.sqrt(size)
        return np.asarray(waves)

    @property
    def unit(self) -> float:
        return 0.5

    @property
    def _beyond(self) -> float:
        return -1.0

    def _diagonal_of_root(self) -> FloatArray:
        return self._falls[::-1]

    @cached_property
    def _falls(self) -> FloatArray:
        """τ(0) − τ(2u) of W^½, u = 1, …, length: a running sum of pairs of cosecants, which rise as they fell."""
        fall = np.append(2 * self.singular_values[::-1], 1.0)
        cosecants = np.concatenate([fall, fall[-2:0:-1]])
        return np.asarray(np.cumsum(cosecants[::2] + cosecants[1::2]) / (2 * self.length + 1))

    def _table_of_root(self) -> FloatArray:
        """Even places by the running sum, odd ones by τ(P − m) = −τ(m)."""
        size = 2 * self.length + 1
        table, first = np.empty(size + 1), 2 * float(self.singular_values.sum()) / size
        table[:size:2] = np.append(first, first - self._falls)
        table[::-2] = -table[:size:2]
        return table

    def _inverse_of_root(self, places: IntArray) -> FloatArray:
        size = 2 * self.length + 1
        angle = np.pi / (2 * size)
        around = np.sin(angle * (2 * places + 1)) * np.sin(angle * (2 * places - 1))
        return np.asarray(-2 * np.sin(angle) / size * np.cos(2 * angle * places) / around)

    def _series(self, spectrum: FloatArray, last: float) -> FloatArray:
        """A Fourier series of odd frequencies, so that τ(P − m) = −τ(m)."""
        size = 2 * self.length + 1
        table = np.empty(size + 1)
        table[:size] = fft.irfft(np.concatenate([[last], spectrum]), size)
        table[1:size:2] *= -1
        table[size] = -table[0]
        return table


def quick_length(kernel: type[SpectralKernel], cells: int) -> int:
    """The least length of at least `cells` whose transform has small prime factors only; `cells` itself if short.

    Part of the meaning of what is stored: it never changes.
    """
    if cells <= _ANY_LENGTH:
        return cells
    if kernel is RangesKernel:
        return _smooth(cells + 1, (2, 3, 5, 7)) - 1
    return (_smooth(2 * cells + 1, (3, 5, 7, 11)) - 1) // 2


def _smooth(least: int, primes: tuple[int, ...]) -> int:
    """The least product of these primes that is at least `least`."""
    seen, waiting = {1}, [1]
    while (product := heapq.heappop(waiting)) < least:
        for larger in (product * prime for prime in primes):
            if larger not in seen:
                seen.add(larger)
                heapq.heappush(waiting, larger)
    return product
