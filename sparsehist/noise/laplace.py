"""Laplace noise, which gives pure differential privacy.

The density is proportional to e**(-b |x|), with b = level / sensitivity, and the characteristic function is
1/(1 + t**2/b**2). So coarse noise is fine noise plus an independent increment, which is 0 with probability (b_coarse
/ b_fine)**2 and otherwise distributed as coarse noise. Bayes' rule gives the formulas for `refine` and `between`.

Papers: [ARNP Def. F.1]; [KHP Def. 5, Prop. 6, Def. 7, Thm 8, Thm 9, eq. 22, Alg. 1]; [KHP poster Thm 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from sparsehist.noise.exact_draws import chunks, fair_coins
from sparsehist.noise.family import JumpFamily, Norm, checked_sensitivity
from sparsehist.privacy.levels import Level, as_level, level_float, level_text
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, float_array

_LN2 = math.log(2.0)


@dataclass(frozen=True)
class Laplace(JumpFamily):
    """Laplace noise: a release of a vector at level epsilon satisfies epsilon-DP.

    Noise is drawn as doubles, so epsilon-DP holds up to rounding errors; discrete Laplace noise gives exact DP.
    Published values are rounded to a grid that does not depend on the data. With positive probability, the noise at
    two levels is equal; both values are then the same double.

    Args:
        sensitivity: L1 sensitivity of the vector of counts, in counts.

    Raises:
        DeclarationError: If the sensitivity is not positive and finite.

    Example:
        >>> Laplace(sensitivity=1.0).std(2) ** 2
        0.5000000000000001

    Source: [KHP eq. 22, eq. 25, Alg. 1] (whose third case lacks its return); `between` is our own derivation, because
    [ARNP Lemma F.5] is printed with a wrong variance.
    """

    sensitivity: float = 1.0
    power: ClassVar[int] = 2
    scaled: ClassVar[bool] = True
    norm: ClassVar[Norm | None] = "l1"
    currency: ClassVar[str] = "epsilon"

    def __post_init__(self) -> None:
        checked_sensitivity(self.sensitivity)

    def rate(self, level: Level) -> float:
        """Return the rate b = level / sensitivity at which the density e**(-b abs(x)) decays, per count."""
        return level_float(as_level(level)) / self.sensitivity

    def std(self, level: Level) -> float:
        return math.sqrt(2.0) / self.rate(level)

    def statement(self, level: Level) -> str:
        return f"{level_text(as_level(level))}-differential privacy (pure), up to the rounding of doubles"

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        noise = rng.standard_exponential(size)
        noise *= 1.0 / self.rate(level)
        np.negative(noise, out=noise, where=fair_coins(size, rng=rng))
        return noise

    def _refined(self, coarse: FloatArray, known: Fraction, target: Fraction, *, rng: Generator) -> FloatArray:
        noise, kernel = np.empty(coarse.shape), self._kernel(known, target)
        for part in chunks(coarse.shape[-1]):
            exponential = rng.standard_exponential(part.stop - part.start)
            upper = fair_coins(exponential.size, rng=rng)
            noise[..., part] = _quantile(coarse[..., part], kernel, exponential, upper)
        return noise

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        scaled = self.rate(level) * float_array("threshold", threshold)
        lower = np.log1p(-0.5 * np.exp(np.minimum(scaled, 0.0)))
        return np.asarray(np.where(scaled >= 0, -scaled - _LN2, lower))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self.log_tail(-float_array("threshold", threshold), level)

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        log_p = float_array("log_probability", log_probability)
        with np.errstate(divide="ignore"):
            below = np.log(-2.0 * np.expm1(np.maximum(log_p, -_LN2)))
        return np.asarray(np.where(log_p <= -_LN2, -(log_p + _LN2), below) / self.rate(level))

    def _kernel(self, coarse: Fraction, fine: Fraction) -> _Kernel:
        # Bring both levels to a common denominator, so that each quotient of integers is rounded only once.
        a, b = coarse.numerator * fine.denominator, fine.numerator * coarse.denominator
        unit = coarse.denominator * fine.denominator
        return _Kernel(
            total=(b + a) / unit / self.sensitivity,
            difference=(b - a) / unit / self.sensitivity,
            pull=2 * a / (b + a),
            near=math.log(2 * b / (b + a)),
            far=math.log(2 * b / (b - a)),
        )


class _Kernel(NamedTuple):
    """The distribution of fine noise given coarse noise x >= 0. Coarse noise has rate a, fine noise rate b > a.

    P[fine noise > y] is (a+b)/(2b) e**(-(b-a)y) for 0 <= y < x, and (b-a)/(2b) e**(-(b-a)x - (a+b)(y-x)) for y >= x.
    With positive probability, fine noise equals x. For y < 0, P[fine noise <= y] is (b-a)/(2b) e**((a+b)y).
    """

    total: float  # a + b
    difference: float  # b - a
    pull: float  # 2a/(a + b)
    near: float  # ln(2b/(a + b))
    far: float  # ln(2b/(b - a))


def _quantile(values: FloatArray, kernel: _Kernel, exponential: FloatArray, upper: BoolArray) -> FloatArray:
    """Return quantiles of finer noise given the coarse noise `values`; `kernel` is the conditional distribution.

    `exponential` holds standard exponential variates E. The quantile is at probability 1 - e**-E / 2 where `upper` is
    true, and at e**-E / 2 elsewhere. For coarse noise x < 0, the distribution for -x is mirrored about 0. Results are
    exactly monotone in x, because every operation on |x| is monotone even with rounding.
    """
    small = exponential + _LN2
    # -ln(1 - e**-E / 2) is at most ln 2, and so below `kernel.far`. Rounding could raise it above ln 2: prevent this.
    large = np.minimum(-np.log1p(-0.5 * np.exp(-exponential)), _LN2)
    positive = values >= 0
    away = positive == upper
    survival, cdf = np.where(away, small, large), np.where(away, large, small)
    size, past_zero = np.abs(values), (cdf - kernel.far) / kernel.total
    beyond = np.maximum(size, kernel.pull * size + (survival - kernel.far) / kernel.total)
    near = np.minimum(np.maximum((survival - kernel.near) / kernel.difference, 0.0), beyond)
    result = np.where(past_zero > 0, -past_zero, near)
    return np.where(positive, result, -result)
