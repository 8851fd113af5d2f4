"""Sums of resolvents Σ a_q·(T + t_q)⁻¹ + b·I of the matrices of `spectral_kernels`: entries without a transform.

T is the tridiagonal matrix W⁻¹ without its unit: W^½ = s·T^(−½), with eigenvalues 4 sin²(π(k − δ)/2H), k from 1 to
the length. All ranges: H = length + 1 and δ = 0; prefix sums: H = length + ½ and δ = ½. With 2 cosh θ = 2 + t the
table of (T + t)⁻¹ is cosh((H − m)θ)/(2 sinh θ sinh Hθ) for ranges, sinh((H − m)θ)/(2 sinh θ cosh Hθ) for prefix sums,
and its sums over windows are of the same kind: a place costs a few exponentials, whatever the length.

Functions of W that are mixtures of resolvents, f(μ) = (μ^(−½) + c)^p for 0 < p <= 1 of an eigenvalue μ of T, have the
density ρ(t) = (c² + 1/t)^(p/2)·sin(p·atan2(t^(−½), c))/π beside c^p. The rule of equal steps in log t, its tails put
at the ends, comes near to them: g, with all weights positive. Nothing rests on how near, as long as g itself is used.

Derived here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.gram.causal_sums import rule_of_sum
from sparsehist.workload.gram.spectral_kernels import SpectralKernel

# Numbers that are looked at together.
_AT_ONCE = 2**16
# Frequencies at both ends that are looked at one by one.
_PLAIN = 64


class Resolvents(NamedTuple):
    """Σ a_q·(T + t_q)⁻¹ + b·I, in units of s.

    Attributes:
        sign: That of the Hankel part of the table.
        shift: Its first place.
        half: H.
        places: t_q; shape (nodes,).
        weights: a_q > 0; shape (nodes,).
        identity: b >= 0.
    """

    sign: float
    shift: float
    half: float
    places: FloatArray
    weights: FloatArray
    identity: float

    def at(self, values: FloatArray) -> FloatArray:
        """g(μ) for eigenvalues μ of T."""
        return self.identity + (1.0 / (values[:, np.newaxis] + self.places)) @ self.weights

    def between(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """τ(low) + … + τ(high) without the identity, 0 <= low <= high + 1 <= 2 H + 1; they may be no integers."""
        low, high = np.broadcast_arrays(np.asarray(low, np.float64), np.asarray(high, np.float64))
        rates = 2.0 * np.arcsinh(np.sqrt(self.places) / 2.0)
        whole = 1.0 + self.sign * np.exp(-2.0 * self.half * rates)
        factors = -self.weights / (4.0 * np.sinh(rates) * np.sinh(rates / 2.0) * whole)
        near, far = 0.5 - low.reshape(-1), high.reshape(-1) + 0.5 - 2.0 * self.half
        lengths = (low - high - 1.0).reshape(-1)
        total, step = np.empty(near.size), _AT_ONCE // rates.size
        for start in range(0, near.size, step):
            piece = slice(start, start + step)
            parts = np.exp(np.outer(rates, near[piece]))
            parts -= self.sign * np.exp(np.outer(rates, far[piece]))
            parts *= np.expm1(np.outer(rates, lengths[piece]))
            total[piece] = factors @ parts
        return total.reshape(low.shape)

    def rows(self, first: IntArray, last: IntArray, left: IntArray, right: IntArray) -> FloatArray:
        """The greatest K[i, i − left] + … + K[i, i + right] over the cells i of each block, first <= i <= last.

        The Hankel part is sign·τ over a window: for ranges least at its middle H, for prefix sums falling.
        """
        offset = self.shift + (right - left) / 2.0
        middle = np.clip(self.half if self.sign < 0 else 0.0, 2.0 * first + offset, 2.0 * last + offset)
        reach = (left + right) / 2.0
        toeplitz = self._up_to(0, left) + self._up_to(0, right) - float(self.between(0, 0))
        return toeplitz + self.sign * self.between(middle - reach, middle + reach) + self.identity

    def around(self, cells: IntArray, reach: int, atom: float) -> FloatArray:
        """Σ K[i, j] over the cells j within reach of i, K reflected at its ends.

        Of the identity what is part of T^(−½), the atom, is reflected too.
        """
        last = 2.0 * self.half
        low, high = 2.0 * cells + (self.shift - reach), 2.0 * cells + (self.shift + reach)
        hankel = self.between(np.maximum(low, 0.0), np.minimum(high, last)) + atom * (low <= 0.0)
        if reach:
            hankel += self._up_to(1, np.maximum(-low, 0.0))
            hankel -= self.sign * (self._up_to(1, np.maximum(high - last, 0.0)) + atom * (high >= last))
        toeplitz = self.between([0, 1], [reach, reach]).sum()
        return np.asarray(toeplitz + self.sign * hankel + self.identity)

    def _up_to(self, first: int, last: FloatArray | IntArray) -> FloatArray:
        """τ(first) + … + τ(last); most of these are the same."""
        different, which = np.unique(last, return_inverse=True)
        sums: FloatArray = self.between(first, different)[which].reshape(last.shape)
        return sums

    def entries(self, places: ArrayLike) -> FloatArray:
        """τ at some places, with the identity."""
        return np.asarray(self.between(places, places) + self.identity * (np.asarray(places) == 0))


def resolvents(kernel: SpectralKernel, power: float, step: float, margin: float) -> Resolvents:
    """A mixture near (T^(−½) + c)^power; c is half of the blend of the kernel.

    Args:
        kernel: The matrix.
        power: p, from above 0 to 1.
        step: Of log t. Off by some e^(−2π²/step).
        margin: How far beyond the eigenvalues the rule goes, as a factor.
    """
    half, c = _half(kernel), kernel.blend / 2.0
    low = 4.0 * math.sin(math.pi / (4.0 * half)) ** 2 / margin
    count = math.ceil(math.log(4.0 * margin / low) / step)
    tail = math.ceil(80.0 / step)
    places = low * np.exp(step * np.arange(-tail, count + tail + 1))
    density = (c * c + 1.0 / places) ** (power / 2.0) * np.sin(power * np.arctan2(1.0 / np.sqrt(places), c))
    weights = step / math.pi * places * density
    inside = slice(tail, tail + count + 1)
    kept = weights[inside].copy()
    kept[0] += weights[:tail].sum()
    identity = c**power + float((weights / places)[tail + count + 1 :].sum())
    return Resolvents(kernel.sign, kernel.shift, half, places[inside], kept, identity)


def ratios(kernel: SpectralKernel, mixture: Resolvents) -> tuple[FloatArray, FloatArray]:
    """κ/g at some frequencies, κ = μ^(−½) + c, and their weights in the sum over all frequencies."""
    frequencies, rule = rule_of_sum(kernel.length, _PLAIN)
    angles = (frequencies + 1.0 - (kernel.sign + 1.0) / 4.0) * (math.pi / (2.0 * mixture.half))
    values = 4.0 * np.sin(angles) ** 2
    return (values**-0.5 + kernel.blend / 2.0) / mixture.at(values), rule


def _half(kernel: SpectralKernel) -> float:
    return kernel.length + 1.0 - (kernel.sign + 1.0) / 4.0
