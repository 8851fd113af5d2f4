"""Discrete Laplace noise: pure differential privacy on integers, drawn without a float.

Law: P[Z(epsilon) = x] is proportional to a^|x| with a = e^(-epsilon / sensitivity). With v = 2a/(1-a)^2 and h(t) =
1 - cos t its characteristic function is 1 / (1 + v h), so coarse noise is fine noise plus a bridge that is 0 with
probability v_fine / v_coarse and otherwise a draw of the coarse law: every step below follows by Bayes.

Source: Inusah and Kozubowski 2006 (the law); Ghosh, Roughgarden and Sundararajan 2009 (its privacy); bridge, refine
and between are our own derivation, after [KHP Alg. 1] for the real law.

Papers: [ARNP Def. D.5, Lemma D.6].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sparsehist.errors import LevelError
from sparsehist.noise.exact_geometric import Branch, bernoulli, chunks, draw, geometric, prepare
from sparsehist.noise.exact_table import ONE, ExponentialDecay, Real
from sparsehist.noise.family import Bridged, Norm, Three, checked_sensitivity
from sparsehist.noise.integer_tails import in_order_of
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IntArray, NDArray

# Slower laws could leave the 64-bit integers, with a probability of e^-4,000,000 or more.
_SLOWEST = Fraction(1, 2**40)

# Rates nearer than this are one rate to any double; a quotient by less would overflow.
_NEAREST = 1e-290


@dataclass(frozen=True)
class DiscreteLaplace(Bridged):
    """Discrete Laplace noise: a release at level epsilon is epsilon-DP for integer counts of that L1 sensitivity.

    Exact: `sample`, `coarsen`, `refine`, `between` and `sample_tail` read random words, compare them with
    integers, and have exactly the law written here for every rational level, tails included; no float decides an
    outcome. (64-bit integers hold all noise but a share of e^-4,000,000.) What they return is all that is
    published, so nothing hides in low-order bits: the noise of counts c and c + 1 has the same support.

    Not exact: `tail`, `log_tail`, `log_cdf`, `inverse_log_tail` and `carry` use doubles, with relative errors of a
    few 2**-52 in logarithms. Cells drawn lazily rest on them: epsilon-DP up to the numerical slack of a
    release (`sparsehist.histogram.numerical_slack`).

    Args:
        sensitivity: L1 sensitivity of the vector of counts: max_keys for a histogram to which a unit adds at most 1
            in each of max_keys cells. An integer or fraction; a float is read as its shortest decimal.

    Raises:
        DeclarationError: If the sensitivity is not positive and finite.

    Example:
        >>> from sparsehist import entropy
        >>> noise = DiscreteLaplace(sensitivity=1)
        >>> fine = noise.sample(5, "1/2", rng=entropy.seeded(1))
        >>> coarse = noise.coarsen(fine, "1/2", "1/10", rng=entropy.seeded(2))
        >>> fine.dtype == coarse.dtype == np.int64
        True
    """

    sensitivity: Level = 1
    integer: ClassVar[bool] = True
    norm: ClassVar[Norm] = "l1"
    currency: ClassVar[str] = "epsilon"

    @classmethod
    def for_histogram(cls, max_keys: int) -> Self:
        """The noise of a histogram to which a unit adds at most 1 in each of `max_keys` cells."""
        return cls(sensitivity=max_keys)

    def __post_init__(self) -> None:
        checked_sensitivity(self.sensitivity)

    def rate(self, level: Level) -> Fraction:
        """epsilon / sensitivity: how fast the law falls.

        Raises:
            LevelError: If the level is so coarse that its noise might not fit 64-bit integers.
        """
        rate = as_level(level) / as_level(self.sensitivity)
        if rate < _SLOWEST:
            least = float(_SLOWEST * as_level(self.sensitivity))
            raise LevelError(f"discrete Laplace noise needs a level of at least {least:.1e} here, got {level!r}")
        return rate

    def std(self, level: Level) -> float:
        """Standard deviation of the noise, in counts: sqrt(2a) / (1 - a)."""
        rate = float(self.rate(level))
        return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)

    def statement(self, level: Level) -> str:
        epsilon = as_level(level)
        rho = float(epsilon) * math.tanh(float(epsilon) / 2)
        return f"{level_text(epsilon)}-DP (pure differential privacy, exactly, on integers); implies {rho:.6g}-zCDP"

    def sample(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        return draw(_two_sided(self.rate(level)), size, rng=rng)

    def coarsen(self, fine: IntArray, fine_level: Level, level: Level, *, rng: Generator) -> IntArray:
        """Exactly; between near levels most entries stay as they are."""
        return super().coarsen(_integers(fine), fine_level, level, rng=rng)

    def carry(self, values: NDArray[np.generic], start: Level, end: Level, *, rng: Generator) -> IntArray:
        """Coarsening adds one exact bridge per column; refining is in doubles."""
        return super().carry(_integers(values), start, end, rng=rng)

    def _bridge(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> IntArray:
        return draw(_bridge(self.rate(fine), self.rate(coarse)), size, rng=rng)

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        return _refined(_integers(coarse), self.rate(known), self.rate(target), rng=rng)

    def _inserted(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        left, middle, right = map(self.rate, levels)
        noise = _integers(fine).copy()
        distance = _integers(coarse) - noise
        moved = bernoulli(_moved_if_apart(left, middle, right), distance.size, rng=rng)
        together = np.flatnonzero(distance == 0)
        moved[together] = bernoulli(_moved_if_together(left, middle, right), together.size, rng=rng)
        where = np.flatnonzero(moved)
        noise[where] += _refined(distance[where], left, middle, rng=rng)
        return noise

    def _refined_in_order(self, values: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        """Invert the cdf of the step at one uniform per column; the coins of `refine` would reverse orders."""
        columns = values.shape[-1]
        upper = np.less(rng.random(columns), 0.5)
        log_share = np.subtract(-math.log(2), rng.standard_exponential(columns))
        refined = _refined_at(values, self.rate(known), self.rate(target), log_share, upper=upper)
        return in_order_of(values, refined)

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        rate = float(self.rate(level))
        whole = np.floor(np.asarray(threshold, np.float64))
        log_norm = math.log1p(math.exp(-rate))
        above = -(np.maximum(whole, -1) + 1) * rate - log_norm
        below = np.log1p(-np.exp(np.minimum(whole, -1) * rate - log_norm))
        return np.asarray(np.where(whole >= -1, above, below))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self.log_tail(-np.floor(np.asarray(threshold, np.float64)) - 1, level)

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> IntArray:
        """The integer x with P[Z > x] <= e^log_probability < P[Z >= x]; int64, any shape."""
        rate = float(self.rate(level))
        log_upper = np.asarray(log_probability, np.float64)
        log_norm = math.log1p(math.exp(-rate))
        with np.errstate(divide="ignore"):
            log_lower = np.log(-np.expm1(log_upper))
        above = np.ceil((-log_norm - log_upper) / rate) - 1
        below = -np.floor((-log_norm - log_lower) / rate)
        return _clipped(np.where(log_upper <= -log_norm, above, below))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> IntArray:
        least = np.broadcast_to(_clipped(np.floor(np.asarray(threshold, np.float64))) + 1, size)
        # From 0 on the law has no memory; below, at least half of all draws qualify.
        noise = np.maximum(least, 0) + geometric(self.rate(level), size, rng=rng)
        pending = np.flatnonzero(least < 0)
        while pending.size:
            noise[pending] = self.sample(pending.size, level, rng=rng)
            pending = pending[noise[pending] < least[pending]]
        return noise


def _two_sided(rate: Fraction, weight: Real = ONE) -> tuple[Branch, Branch]:
    """The law itself: at least 0 with probability 1/(1+a), and then geometric; else -1 minus the same."""
    a = ExponentialDecay(rate)
    return Branch(weight / (ONE + a), 0, 1, rate), Branch(weight * a / (ONE + a), -1, -1, rate)


def _bridge(fine: Fraction, coarse: Fraction) -> tuple[Branch, ...]:
    """What coarse noise has on top of fine: 0 with probability v_fine / v_coarse, else the coarse law."""
    stay = _stay(fine, coarse)
    return (Branch(stay, 0), *_two_sided(coarse, ONE - stay))


def _stay(fine: Fraction, coarse: Fraction) -> Real:
    """v_fine / v_coarse, with v = 2a/(1-a)^2."""
    share = (ONE - ExponentialDecay(coarse)) / (ONE - ExponentialDecay(fine))
    return ExponentialDecay(fine - coarse) * share * share


def _refined(coarse: IntArray, coarse_rate: Fraction, fine_rate: Fraction, *, rng: Generator) -> IntArray:
    """Fine noise y given coarse noise x, whose weights are a_fine^|y| a_coarse^|x-y|.

    For x >= 0 and r = a_fine / a_coarse: y is below 0 with a probability free of x. Otherwise let J be geometric
    with ratio r: J <= x has the weights of 0 <= y <= x without the bridge's atom. What is left, of probability
    r^(x+1), is y = x or y = x + 1 + a geometric variable, in proportions free of x. So x enters by one comparison.
    """
    beyond = _beyond(coarse_rate, fine_rate)
    prepared, result = prepare(_landing(coarse_rate, fine_rate)), np.empty(coarse.size, np.int64)
    for part in chunks(coarse.size):
        known, drawn = coarse[part], result[part]
        sign = known >> 63
        size = (known ^ sign) - sign
        prepared.fill(drawn, rng=rng)
        past = np.flatnonzero(drawn > size)
        drawn[past] = size[past] + draw(beyond, past.size, rng=rng)
        drawn ^= sign
        drawn -= sign
    return result


def _landing(coarse: Fraction, fine: Fraction) -> tuple[Branch, Branch]:
    """J, or a value below 0."""
    joint, square = ExponentialDecay(coarse + fine), ExponentialDecay(2 * fine)
    below = (joint - square) / (ONE - square)
    return Branch(ONE - below, 0, 1, fine - coarse), Branch(below, -1, -1, coarse + fine)


def _beyond(coarse: Fraction, fine: Fraction) -> tuple[Branch, Branch]:
    """y - x, when J is above x."""
    at_rest = (ONE - ExponentialDecay(2 * coarse)) / (ONE - ExponentialDecay(coarse + fine))
    return Branch(at_rest, 0), Branch(ONE - at_rest, 1, 1, coarse + fine)


def _moved_if_apart(coarse: Fraction, middle: Fraction, fine: Fraction) -> Real:
    """P[middle noise differs in law from fine noise, given that coarse and fine noise differ]."""
    return (ONE - _stay(fine, middle)) / (ONE - _stay(fine, coarse))


def _moved_if_together(coarse: Fraction, middle: Fraction, fine: Fraction) -> Real:
    """The same, given that coarse and fine noise are equal."""
    at_zero, stay = (ONE - ExponentialDecay(coarse)) / (ONE + ExponentialDecay(coarse)), _stay(fine, coarse)
    return (ONE - _stay(fine, middle)) * at_zero / (stay + (ONE - stay) * at_zero)


def _refined_at(
    coarse: IntArray, coarse_rate: Fraction, fine_rate: Fraction, log_share: FloatArray, *, upper: BoolArray
) -> IntArray:
    """Invert the distribution function of `_refined` where its upper or lower tail is e^log_share <= 1/2."""
    apart, joint = max(float(fine_rate - coarse_rate), _NEAREST), float(coarse_rate + fine_rate)
    log_norm = math.log(-math.expm1(-2 * float(fine_rate)))
    log_below = math.log(-math.expm1(-apart)) - joint - log_norm
    log_inside = math.log(-math.expm1(-joint)) - log_norm
    size = np.abs(coarse)
    log_beyond = log_below - size * apart
    # Seen from |x|: the upper tail of x < 0 is the lower tail of -x.
    inside = np.ceil((log_inside - log_share) / apart) - 1
    outside = np.maximum(np.ceil((log_beyond - log_share) / joint), 0)
    high = np.where(inside < size, np.maximum(inside, 0), size + outside)
    landed = np.maximum((np.exp(log_share) - math.exp(log_below)) / math.exp(log_inside), 0)
    low = np.where(
        log_share <= log_below,
        -1 - np.floor((log_below - log_share) / joint),
        np.clip(np.ceil(-np.log1p(-landed) / apart) - 1, 0, size),
    )
    magnitude = _clipped(np.where(upper ^ (coarse < 0), high, low))
    return np.where(coarse < 0, -magnitude, magnitude)


def _integers(noise: NDArray[np.generic]) -> IntArray:
    """Whole numbers as int64, whatever they come in."""
    return np.asarray(noise).astype(np.int64, copy=False)


def _clipped(whole: FloatArray) -> IntArray:
    """Whole doubles as int64; infinities end at the edge of what noise can be."""
    return np.clip(whole, -(2.0**62), 2.0**62).astype(np.int64)
