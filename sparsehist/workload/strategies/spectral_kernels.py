"""Prefix sums and all ranges of one column, by fast transforms along the singular vectors of A.

The inverse of AᵀA is tridiagonal with constant diagonals except in one corner, so its eigenvectors are sines or
cosines, and any function K of AᵀA is a Toeplitz and a Hankel part made of one table τ:

    K[i, j] = τ(|i − j|) + sign·τ(i + j + shift)            i, j = 0, …, n − 1

All ranges, N = n + 1: sign −1, shift 2, singular values √N/(2 sin(πk/2N)), the sine transform DST-I.
Prefix sums, P = 2n + 1: sign +1, shift 1, singular values 1/(2 cos(πv/P)) for v = 1, …, n, eigenvectors
cos((P − 2v)(2j + 1)π/2P). With u = n − j these are (−1)^(u + v) sin(2πuv/P) up to one common sign: the imaginary part
of one real Fourier transform of odd length.
"""

from __future__ import annotations

import abc
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import fft

from sparsehist.typing import FloatArray

_LEAF = 512


class SpectralKernel(abc.ABC):
    """The singular values and right singular vectors of A, and functions K of AᵀA; n is the number of cells."""

    sign: ClassVar[float]
    shift: ClassVar[int]

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    @abc.abstractmethod
    def unit(self) -> float:
        """The limit of the singular values at the highest frequency, just beyond the last of them."""

    @property
    @abc.abstractmethod
    def singular_values(self) -> FloatArray:
        """Of A, in the order of `transform`; shape (n,)."""

    @abc.abstractmethod
    def transform(self, x: FloatArray) -> FloatArray:
        """Coordinates along the right singular vectors; orthonormal; shape (n,) or (n, m)."""

    @abc.abstractmethod
    def transform_back(self, y: FloatArray) -> FloatArray:
        """The inverse, which is the transpose."""

    @abc.abstractmethod
    def table(self, spectrum: FloatArray, beyond: float) -> FloatArray:
        """τ of the K with this spectrum; shape (2·n + shift,) at least.

        `beyond` is the spectrum at the highest frequency, just beyond the last one. It adds the same alternating
        numbers to the Toeplitz and to the Hankel part, with opposite signs, so any number is right.
        """


class RangesKernel(SpectralKernel):
    """All ranges: AᵀA[i, j] = (min(i, j) + 1)(n − max(i, j))."""

    sign = -1.0
    shift = 2

    @property
    def unit(self) -> float:
        return float(np.sqrt(self.n + 1) / 2)

    @cached_property
    def singular_values(self) -> FloatArray:
        size = self.n + 1
        return np.asarray(np.sqrt(size) / (2 * np.sin(np.pi / (2 * size) * np.arange(1, size))))

    def transform(self, x: FloatArray) -> FloatArray:
        return np.asarray(fft.dst(x, type=1, norm="ortho", axis=0))

    def transform_back(self, y: FloatArray) -> FloatArray:
        return self.transform(y)

    def table(self, spectrum: FloatArray, beyond: float) -> FloatArray:
        half = fft.dct(np.concatenate([[0.0], spectrum, [beyond]]), type=1) / (2 * self.n + 2)
        return np.concatenate([half, half[-2::-1]])


class PrefixKernel(SpectralKernel):
    """Prefix sums: AᵀA[i, j] = n − max(i, j)."""

    sign = 1.0
    shift = 1

    @property
    def unit(self) -> float:
        return 0.5

    @cached_property
    def singular_values(self) -> FloatArray:
        size = 2 * self.n + 1
        # cos(πv/P) near v = P/2 as a sine, for its last digits.
        return np.asarray(1 / (2 * np.sin(np.pi / (2 * size) * np.arange(size - 2, 0, -2))))

    def transform(self, x: FloatArray) -> FloatArray:
        turned = np.zeros((self.n + 1, *x.shape[1:]))
        turned[1:] = x[::-1]
        turned[1::2] *= -1
        return self._odd_sines(turned)

    def transform_back(self, y: FloatArray) -> FloatArray:
        padded = np.zeros((self.n + 1, *y.shape[1:]))
        padded[1:] = y
        turned = self._odd_sines(padded)
        turned[::2] *= -1
        return turned[::-1]

    def _odd_sines(self, padded: FloatArray) -> FloatArray:
        """Σ_u x_u sin(2πuv/P)·2/√P for v = 1, …, n, from x_0 = 0, …, x_n."""
        size = 2 * self.n + 1
        waves = fft.rfft(padded, size, axis=0).imag[1:]
        waves *= -2 / np.sqrt(size)
        return np.asarray(waves)

    def table(self, spectrum: FloatArray, beyond: float) -> FloatArray:
        size = 2 * self.n + 1
        table = np.empty(size + 1)
        table[:size] = fft.irfft(np.concatenate([[beyond], spectrum]), size)
        table[1:size:2] *= -1
        table[size] = -table[0]
        return table


def convolved(a: FloatArray, b: FloatArray) -> FloatArray:
    """All sums a_0·b_k + a_1·b_(k − 1) + …; shape (len(a) + len(b) − 1,)."""
    size = a.size + b.size - 1
    length = fft.next_fast_len(size, real=True)
    return np.asarray(fft.irfft(fft.rfft(a, length) * fft.rfft(b, length), length)[:size])


def sums_before(kernel: SpectralKernel, table: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_{j < i} K[i, j]·w_j for every cell i, by halves: a block below the diagonal is two convolutions."""
    n, sums = weights.size, np.zeros(weights.size)

    def add(first: int, last: int) -> None:
        if last - first <= _LEAF:
            i = np.arange(first, last)
            block = table[np.abs(i[:, np.newaxis] - i)] + kernel.sign * table[i[:, np.newaxis] + i + kernel.shift]
            sums[first:last] += np.tril(block, -1) @ weights[first:last]
            return
        middle = (first + last) // 2
        add(first, middle)
        add(middle, last)
        left, number = weights[first:middle], middle - first
        toeplitz = convolved(left, table[1 : last - first])[number - 1 : last - first - 1]
        hankel = table[first + middle + kernel.shift : middle + last + kernel.shift - 1]
        sums[middle:last] += toeplitz + kernel.sign * convolved(left[::-1], hankel)[number - 1 : last - first - 1]

    add(0, n)
    return sums
