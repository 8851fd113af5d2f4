"""Does a family of noise have the convolution preorder, and tails that agree with its draws?

The reference is the family's own chain: finest noise, coarsened step by step. Noise drawn in any other way has
to have the law of that chain, jointly over the levels, and the chain's coarse end that of fresh coarse noise.
A family that is wrong throughout in one consistent way (a scale, say) is another, lossless family: what it
claims about its tails, its spread and its privacy is then wrong, and only the first two can be seen here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, chdtrc, erfc, kolmogorov, xlogy

from sparsehist.errors import LevelOrderError
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import FloatArray, Generator, IntArray, NDArray

# A right family fails one of its checks with this probability at most.
_ALARM = 1e-6


class FamilyCheck(NamedTuple):
    """One promise, whether nothing spoke against it, and a p-value or what went wrong."""

    name: str
    passed: bool
    detail: str


class FamilyReport(NamedTuple):
    """What came out; true when every check passed, and one line per check as text."""

    checks: tuple[FamilyCheck, ...]

    def __bool__(self) -> bool:
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        return "\n".join(f"{'ok  ' if passed else 'FAIL'}  {name}: {detail}" for name, passed, detail in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(check.name for check in self.checks if not check.passed)


class _Setting(NamedTuple):
    family: Family
    levels: tuple[Fraction, ...]  # coarse to fine
    draws: int
    rng: Generator
    chain: dict[Fraction, NoiseArray]


def check_family(
    family: Family, *, levels: Sequence[Level] = ("1/4", "1/2", 1, 3), draws: int = 100_000, rng: Generator
) -> FamilyReport:
    """Test the laws of a family of noise against one another.

    Args:
        family: The family under test.
        levels: At least three different ones, in any order.
        draws: Sample size; 40,000 see a scale that is 5 % off, 100,000 one that is 3 % off.
        rng: Randomness.

    Returns:
        The report. A right family fails with a probability of about 1e-6 a check; levels at which the noise is
        hardly ever other than 0 have little to show.

    Raises:
        LevelOrderError: If there are fewer than three different levels.

    Source: [ARNP Def. 1.1, Alg. 5], the convolution preorder.
    """
    exact = tuple(sorted({as_level(level) for level in levels}))
    if len(exact) < 3:
        raise LevelOrderError(f"check_family needs at least three different levels, got {list(levels)!r}")
    setting = _Setting(family, exact, draws, rng, {})
    checks = [_checked("shape and type of the noise", _shapes, setting)]
    if not checks[0].passed:
        return FamilyReport(tuple(checks))
    named: list[tuple[str, Callable[[_Setting], str | float]]] = [
        ("coarsen gives the law of fresh coarse noise", _preorder),
        ("coarsen and refine agree", _refine),
        ("between agrees with coarsen", _between),
        ("joint law of all levels in scrambled order", _scrambled),
        ("tail, log_tail and log_cdf agree with one another", _tails_agree),
        ("tail agrees with samples", _tail_law),
        ("inverse_log_tail inverts log_tail", _inverse),
        ("inverse_log_tail gives the law of fresh noise", _inverse_law),
        ("sample_tail gives the law above a threshold", _sample_tail),
        ("std agrees with samples", _spread),
        ("carry has the law of coarsen and refine", _carry_law),
    ]
    if family.monotone:
        named.append(("carry keeps every order", _order))
    checks += [_checked(name, check, setting) for name, check in named]
    return FamilyReport(tuple(checks))


def _checked(name: str, check: Callable[[_Setting], str | float], setting: _Setting) -> FamilyCheck:
    """Run one check: it gives a p-value, "" when all is well, or what is wrong."""
    try:
        outcome = check(setting)
    except Exception as error:  # noqa: BLE001 - a family under test may raise anything; that is a finding
        return FamilyCheck(name, passed=False, detail=f"raised {type(error).__name__}: {error}")
    if isinstance(outcome, str):
        return FamilyCheck(name, passed=not outcome, detail=outcome or "holds")
    return FamilyCheck(name, passed=bool(outcome >= _ALARM), detail=f"p = {outcome:.3g}")


def _shapes(setting: _Setting) -> str:
    family, (coarse, fine, *_) = setting.family, setting.levels
    n, rng, wanted = 7, setting.rng, np.dtype(np.int64 if setting.family.integer else np.float64)
    z = family.sample(n, fine, rng=rng)
    results = {
        "sample": z,
        "coarsen": family.coarsen(z, fine, coarse, rng=rng),
        "refine": family.refine(z, coarse, fine, rng=rng),
        "inverse_log_tail": family.inverse_log_tail(np.full(n, -1.0), fine),
        "sample_tail": family.sample_tail(n, 1.0, fine, rng=rng),
    }
    for name, result in results.items():
        if result.shape != (n,) or result.dtype != wanted:
            return f"{name} gave {result.dtype} of shape {result.shape}, not {wanted} of shape ({n},)"
    pair = family.carry(np.stack([z, z]), fine, coarse, rng=rng)
    if pair.shape != (2, n) or pair.dtype != wanted:
        return f"carry gave {pair.dtype} of shape {pair.shape}, not {wanted} of shape (2, {n})"
    return ""


def _chain(setting: _Setting) -> dict[Fraction, NoiseArray]:
    """Fresh noise at the finest level, coarsened step by step; drawn once for all checks."""
    if not setting.chain:
        setting.chain.update(_chain_of(setting))
    return setting.chain


def _chain_of(setting: _Setting) -> dict[Fraction, NoiseArray]:
    family, levels = setting.family, setting.levels[::-1]
    chain = {levels[0]: family.sample(setting.draws, levels[0], rng=setting.rng)}
    for fine, coarse in pairwise(levels):
        chain[coarse] = family.coarsen(chain[fine], fine, coarse, rng=setting.rng)
    return chain


def _columns(chain: dict[Fraction, NoiseArray], levels: Sequence[Fraction]) -> FloatArray:
    return np.column_stack([chain[level] for level in levels]).astype(np.float64)


def _smallest(p_values: list[float]) -> float:
    return min(1.0, len(p_values) * min(p_values))


def _preorder(setting: _Setting) -> float:
    family, rng = setting.family, setting.rng
    chain, finest = _chain(setting), setting.levels[-1]
    p_values = []
    for level in setting.levels[:-1]:
        fresh = family.sample(setting.draws, level, rng=rng)
        p_values.append(_two_samples(fresh[:, np.newaxis], chain[level][:, np.newaxis]))
        at_once = {level: family.coarsen(chain[finest], finest, level, rng=rng), finest: chain[finest]}
        stepwise = _chain_of(setting)
        p_values.append(_two_samples(_columns(at_once, (level, finest)), _columns(stepwise, (level, finest))))
    return _smallest(p_values)


def _refine(setting: _Setting) -> float:
    chain, p_values = _chain(setting), []
    for coarse, fine in [*pairwise(setting.levels), (setting.levels[0], setting.levels[-1])]:
        known = setting.family.sample(setting.draws, coarse, rng=setting.rng)
        drawn = {coarse: known, fine: setting.family.refine(known, coarse, fine, rng=setting.rng)}
        p_values.append(_two_samples(_columns(drawn, (coarse, fine)), _columns(chain, (coarse, fine))))
    return _smallest(p_values)


def _between(setting: _Setting) -> float:
    family, rng, p_values = setting.family, setting.rng, []
    chain = _chain(setting)
    for triple in zip(setting.levels, setting.levels[1:], setting.levels[2:], strict=False):
        coarse, level, fine = triple
        ends = _chain_of(setting)
        ends[level] = family.between(ends[coarse], coarse, ends[fine], fine, level, rng=rng)
        p_values.append(_two_samples(_columns(ends, triple), _columns(chain, triple)))
    return _smallest(p_values)


def _scrambled(setting: _Setting) -> float:
    """Begin in the middle, then outwards by turns, so that levels come finer, coarser and in between."""
    family, rng, levels = setting.family, setting.rng, setting.levels
    middle = levels[len(levels) // 2]
    order = [middle, levels[0], levels[-1], *(x for x in levels[1:-1] if x != middle)]
    drawn = {middle: family.sample(setting.draws, middle, rng=rng)}
    for level in order[1:]:
        below, above = [x for x in drawn if x < level], [x for x in drawn if x > level]
        if below and above:
            c, f = max(below), min(above)
            drawn[level] = family.between(drawn[c], c, drawn[f], f, level, rng=rng)
        elif above:
            drawn[level] = family.coarsen(drawn[min(above)], min(above), level, rng=rng)
        else:
            drawn[level] = family.refine(drawn[max(below)], max(below), level, rng=rng)
    triples = [levels[i : i + 3] for i in range(len(levels) - 2)]
    chain = _chain(setting)
    return _smallest([_two_samples(_columns(drawn, triple), _columns(chain, triple)) for triple in triples])


def _thresholds(setting: _Setting, level: Fraction) -> FloatArray:
    sample = setting.family.sample(10_000, level, rng=setting.rng)
    return np.unique(np.quantile(sample, [0.001, 0.02, 0.2, 0.5, 0.8, 0.98, 0.999]))


def _tails_agree(setting: _Setting) -> str:
    for level in setting.levels:
        at = _thresholds(setting, level)
        tail = setting.family.tail(at, level)
        if not np.allclose(np.exp(setting.family.log_tail(at, level)), tail, rtol=1e-8, atol=0.0):
            return f"log_tail is not the logarithm of tail at level {level_text(level)}"
        if not np.allclose(np.exp(setting.family.log_cdf(at, level)) + tail, 1.0, rtol=1e-8):
            return f"tail and log_cdf do not add up to 1 at level {level_text(level)}"
    return ""


def _tail_law(setting: _Setting) -> float:
    p_values, trials = [], 4 * setting.draws  # draws that are only counted cost little
    for level in setting.levels:
        at = _thresholds(setting, level)
        sample = setting.family.sample(trials, level, rng=setting.rng)
        above = np.array([np.count_nonzero(sample > threshold) for threshold in at])
        p_values += _binomial_p_values(above, trials, np.clip(setting.family.tail(at, level), 0.0, 1.0))
    return _smallest(p_values)


def _binomial_p_values(successes: IntArray, trials: int, chance: FloatArray) -> list[float]:
    """Twice the smaller of the two tails."""
    at_least = np.where(successes > 0, betainc(np.maximum(successes, 1), trials - successes + 1, chance), 1.0)
    rest = np.maximum(trials - successes, 1)
    at_most = np.where(successes < trials, betainc(rest, successes + 1, 1.0 - chance), 1.0)
    return [float(p) for p in np.minimum(1.0, 2.0 * np.minimum(at_least, at_most))]


def _inverse(setting: _Setting) -> str:
    asked = np.array([-1e-9, -1e-3, -0.3, -0.69, -0.7, -2.0, -10.0, -100.0, -700.0])
    for level in setting.levels:
        x = setting.family.inverse_log_tail(asked, level)
        here = setting.family.log_tail(x, level)
        before = setting.family.log_tail(x - 1, level) if setting.family.integer else here
        slack = 1e-9 + 1e-7 * np.abs(asked)
        # An atom at the lower end of the law may begin above 1 - 1e-9, so only the upper side is asked of it.
        wrong = (here > asked + slack) | (before < asked - slack)
        if wrong.any():
            return f"ln v = {asked[wrong][0]:g} at level {level_text(level)}: not the value with that log tail"
    return ""


def _inverse_law(setting: _Setting) -> float:
    p_values = []
    for level in setting.levels:
        log_uniform = np.negative(setting.rng.standard_exponential(setting.draws))
        drawn = setting.family.inverse_log_tail(log_uniform, level)
        fresh = setting.family.sample(setting.draws, level, rng=setting.rng)
        p_values.append(_two_samples(drawn[:, np.newaxis], fresh[:, np.newaxis]))
    return _smallest(p_values)


def _sample_tail(setting: _Setting) -> str | float:
    family, rng, p_values = setting.family, setting.rng, []
    for level in setting.levels:
        sample = family.sample(setting.draws, level, rng=rng)
        # From a sample of its own: one that chose its threshold has no value just above it left to chance.
        threshold = float(np.floor(np.quantile(family.sample(10_000, level, rng=rng), 0.7)))
        above = sample[sample > threshold]
        if above.size < 100:
            continue
        drawn = family.sample_tail(above.size, threshold, level, rng=rng)
        if not (drawn > threshold).all():
            return f"a draw was not above the threshold at level {level_text(level)}"
        p_values.append(_two_samples(drawn[:, np.newaxis], above[:, np.newaxis]))
    return _smallest(p_values) if p_values else ""


def _spread(setting: _Setting) -> float:
    """The sample variance, in units of its own standard error (which takes a finite fourth moment)."""
    p_values = []
    for level in setting.levels:
        sample = setting.family.sample(setting.draws, level, rng=setting.rng).astype(np.float64)
        squares = (sample - sample.mean()) ** 2
        error = float(squares.std()) / math.sqrt(setting.draws)
        score = abs(float(squares.mean()) - setting.family.std(level) ** 2) / max(error, 1e-300)
        p_values.append(float(erfc(score / math.sqrt(2.0))))
    return _smallest(p_values)


def _carried(setting: _Setting, start: Fraction, end: Fraction) -> tuple[NoiseArray, NoiseArray]:
    """Three rows of fresh noise, small steps and large ones apart, and the same carried along."""
    z = setting.family.sample(setting.draws, start, rng=setting.rng)
    if setting.family.integer:
        near = z + 1
    else:
        near = np.where(
            setting.rng.random(z.size) < 0.5, np.nextafter(z, np.inf), z + 0.1 * setting.family.std(start)
        )
    far = np.maximum(near, setting.family.sample(setting.draws, start, rng=setting.rng))
    rows = np.stack([far, z, near])
    return rows, setting.family.carry(rows, start, end, rng=setting.rng)


def _carry_law(setting: _Setting) -> float:
    chain, p_values = _chain(setting), []
    for start, end in _legs(setting):
        rows, carried = _carried(setting, start, end)
        drawn = np.column_stack([rows[1], carried[1]]).astype(np.float64)
        p_values.append(_two_samples(drawn, _columns(chain, (start, end))))
    return _smallest(p_values)


def _order(setting: _Setting) -> str:
    for start, end in _legs(setting):
        (_, carried) = _carried(setting, start, end)
        broken = np.mean((carried[0] < carried[2]) | (carried[2] < carried[1]))
        if broken > 0:
            return f"{broken:.2%} of orders reversed from level {level_text(start)} to {level_text(end)}"
    return ""


def _legs(setting: _Setting) -> list[tuple[Fraction, Fraction]]:
    first, *_, last = setting.levels
    return [(first, setting.levels[1]), (first, last), (last, first), (last, setting.levels[-2])]


_CELLS_PER_AXIS = 6
_LEAST_EXPECTED = 10.0
# Products are of coordinates cut at this quantile of their size, so that heavy tails have a central limit too.
_CUT = 0.999


def _two_samples(first: FloatArray, second: FloatArray) -> float:
    """The p-value of "one law" for two samples of vectors, shapes (n, k), small when they differ.

    A joint law is looked at from many sides: each coordinate and each difference of two by Kolmogorov's and Smirnov's
    distance, how often two coordinates are equal, products of two coordinates, and the cells of a grid. The smallest
    p-value counts, times the number of looks.
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return 0.0
    looks: list[float] = [_distance(one[:, j], two[:, j]) for j in range(one.shape[1])]
    for i, j in combinations(range(one.shape[1]), 2):
        looks.append(_distance(one[:, i] - one[:, j], two[:, i] - two[:, j]))
        looks.append(_means(one[:, i] == one[:, j], two[:, i] == two[:, j]))
    centre = np.median(two, axis=0)
    cut = np.maximum(np.quantile(np.abs(two - centre), _CUT, axis=0), 1.0 if _integral(two) else 0.0)
    one_cut, two_cut = (np.clip(rows - centre, -cut, cut) for rows in (one, two))
    for i, j in combinations_with_replacement(range(one.shape[1]), 2):
        looks.append(_means(one_cut[:, i] * one_cut[:, j], two_cut[:, i] * two_cut[:, j]))
    looks.append(_cells(one, two))
    return min(1.0, len(looks) * min(looks))


def _integral(rows: FloatArray) -> bool:
    return bool((rows == np.rint(rows)).all())


def _distance(first: FloatArray, second: FloatArray) -> float:
    both = np.concatenate([first, second])
    gap = np.searchsorted(np.sort(first), both, side="right") / first.size
    gap -= np.searchsorted(np.sort(second), both, side="right") / second.size
    harmonic = first.size * second.size / (first.size + second.size)
    return float(kolmogorov(math.sqrt(harmonic) * float(np.max(np.abs(gap)))))


def _means(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    pooled = np.concatenate([one, two])
    variance = float(pooled.var()) * (1.0 / one.size + 1.0 / two.size)
    if variance == 0.0:
        return 1.0
    return float(erfc(abs(float(one.mean() - two.mean())) / math.sqrt(2.0 * variance)))


def _cells(one: FloatArray, two: FloatArray) -> float:
    both = np.concatenate([one, two])
    index = np.zeros(len(both), np.int64)
    for column in both.T:
        edges = np.quantile(column, np.arange(1, _CELLS_PER_AXIS) / _CELLS_PER_AXIS)
        index = index * _CELLS_PER_AXIS + np.searchsorted(edges, column, side="left")
    cells = _CELLS_PER_AXIS ** both.shape[1]
    table = np.stack([np.bincount(part, minlength=cells) for part in (index[: len(one)], index[len(one) :])])
    totals = table.sum(axis=0)
    large = totals >= 2 * _LEAST_EXPECTED
    pooled = np.concatenate([table[:, large], table[:, ~large].sum(axis=1, keepdims=True)], axis=1).astype(np.float64)
    pooled = pooled[:, pooled.sum(axis=0) >= 2 * _LEAST_EXPECTED]
    if pooled.shape[1] < 2:
        return 1.0
    expected = pooled.sum(axis=1, keepdims=True) * pooled.sum(axis=0) / pooled.sum()
    statistic = 2.0 * float(xlogy(pooled, pooled / expected).sum())
    return float(chdtrc(pooled.shape[1] - 1, max(statistic, 0.0)))
