"""Fast transforms to the basis of right singular vectors of A, if A is all prefix sums or all ranges of a column.

The inverse of AᵀA is tridiagonal, with constant diagonals except in one corner. So its eigenvectors are sines or
cosines, and every function K of AᵀA is the sum of a Toeplitz and a Hankel matrix with entries from one table τ:

    K[i, j] = τ(|i − j|) + sign·τ(i + j + shift)            i, j = 0, …, n − 1
"""

from __future__ import annotations

import abc
import math

import numpy as np
from scipy import fft

from sparsehist.typing import FloatArray

_LEAF = 256


class Kernel(abc.ABC):
    """The singular values and right singular vectors of A for n cells, and matrices K that are functions of AᵀA.

    `singular_values`, shape (n,), are in the order of the coordinates that `transform` returns; all are >= `unit`.
    """

    sign: float
    shift: int
    n: int
    unit: float
    singular_values: FloatArray

    @abc.abstractmethod
    def transform(self, x: FloatArray) -> FloatArray:
        """Return the coordinates of x in the basis of right singular vectors of A; shape (n,) or (n, m)."""

    def transform_back(self, y: FloatArray) -> FloatArray:
        """Apply the inverse of `transform`. Subclasses override this if `transform` is not its own inverse."""
        return self.transform(y)

    @abc.abstractmethod
    def table(self, spectrum: FloatArray) -> FloatArray:
        """Return the table τ (see the top of this file) for eigenvalues `spectrum` of K; shape (2n + shift + 1,)."""

    def diagonal(self, table: FloatArray, apart: int = 0) -> FloatArray:
        """Return the diagonal K[i, i + apart] of the matrix K that `table` defines; shape (n - apart,)."""
        return np.asarray(table[apart] + self.sign * table[apart + self.shift :: 2][: self.n - apart])

    def sums_before(self, table: FloatArray, weights: FloatArray) -> FloatArray:
        """For every i, return Σ_{j < i} K[i, j]·w_j. K is split into blocks, most of which are multiplied by FFT."""
        sums = np.zeros(weights.size)

        def add(first: int, last: int) -> None:
            if last - first <= _LEAF:
                i = np.arange(first, last)
                block = table[np.abs(i[:, np.newaxis] - i)] + self.sign * table[i[:, np.newaxis] + i + self.shift]
                sums[first:last] += np.tril(block, -1) @ weights[first:last]
                return
            middle = (first + last) // 2
            add(first, middle)
            add(middle, last)
            left, ends = weights[first:middle], slice(middle - first - 1, last - first - 1)
            toeplitz = _convolved(left, table[1 : last - first])
            hankel = _convolved(left[::-1], table[first + middle + self.shift : middle + last + self.shift - 1])
            sums[middle:last] += toeplitz[ends] + self.sign * hankel[ends]

        add(0, weights.size)
        return sums


class RangesKernel(Kernel):
    """The kernel of all ranges: AᵀA[i, j] = (min(i, j) + 1)(n − max(i, j)). It uses the sine transform DST-I."""

    sign, shift = -1.0, 2

    def __init__(self, n: int) -> None:
        self.n, self.unit = n, math.sqrt(n + 1) / 2
        self.singular_values = self.unit / np.sin(np.pi / (2 * n + 2) * np.arange(1, n + 1))

    def transform(self, x: FloatArray) -> FloatArray:
        return np.asarray(fft.dst(x, type=1, norm="ortho", axis=0))

    def table(self, spectrum: FloatArray) -> FloatArray:
        half = fft.dct(np.concatenate([[0.0], spectrum, [0.0]]), type=1) / (2 * self.n + 2)
        return np.concatenate([half, half[-2::-1]])


class PrefixKernel(Kernel):
    """The kernel of prefix sums: AᵀA[i, j] = n − max(i, j). It uses a real Fourier transform of length P = 2n + 1.

    For v = 1, …, n, the singular values are 1/(2 cos(πv/P)) and the eigenvectors cos((P − 2v)(2j + 1)π/2P). With
    u = n − j, the eigenvectors are (−1)^(u + v) sin(2πuv/P), up to a common sign.
    """

    sign, shift, unit = 1.0, 1, 0.5

    def __init__(self, n: int) -> None:
        self.n, self._length = n, 2 * n + 1
        # The cosine cos(πv/P) is computed as a sine, which loses no precision where the cosine is close to 0.
        self.singular_values = 0.5 / np.sin(np.pi / (2 * self._length) * np.arange(2 * n - 1, 0, -2))

    def transform(self, x: FloatArray) -> FloatArray:
        return self._odd_sines(x[::-1], flipped=True)

    def transform_back(self, y: FloatArray) -> FloatArray:
        turned = self._odd_sines(y)
        turned[::2] *= -1
        return turned[::-1]

    def _odd_sines(self, values: FloatArray, *, flipped: bool = False) -> FloatArray:
        """Return Σ_u x_u sin(2πuv/P)·2/√P for v = 1, …, n. If `flipped`, change the sign of x_u for odd u first."""
        padded = np.zeros((self.n + 1, *values.shape[1:]))
        padded[1:] = values
        if flipped:
            padded[1::2] *= -1
        waves = fft.rfft(padded, self._length, axis=0).imag[1:]
        waves *= -2 / np.sqrt(self._length)
        return np.asarray(waves)

    def table(self, spectrum: FloatArray) -> FloatArray:
        table = np.append(fft.irfft(np.concatenate([[0.0], spectrum]), self._length), 0.0)
        table[1:-1:2] *= -1
        table[-1] = -table[0]
        return table


def _convolved(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the convolution a_0·b_k + a_1·b_(k − 1) + … for k = 0, 1, …, padded with zeros."""
    length = fft.next_fast_len(a.size + b.size - 1, real=True)
    return np.asarray(fft.irfft(fft.rfft(a, length) * fft.rfft(b, length), length))
