"""Releases passed on by those who hold them: what several branches cost together, and whether a copy is a coarse one.

Whoever holds a release can draw coarser ones from it. Releases so form a tree: on one noise path each level follows
from the next finer one, and a resale begins a new path below the release that was bought. All that several readers
hold is a function of their lowest common ancestor, so its level bounds what they cost together; the sum of their
levels does not, as their noise is not independent. A release carries its line of descent as random names of paths,
which say nothing about values: a digest of the parent would let a buyer test guesses against it.

Source: [KHP section 4.3]; lowest common ancestors are our own derivation. Under Gaussian noise the children of one
parent average their own noise out, and the cost is that of precision: own derivation, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import InputError
from sparsehist.noise.family import DenseFamily, NoiseArray, modulus_of
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.typing import FloatArray

# Of honest copies one in a million is called wrong.
_ALARM = 1e-6

Line = tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True)
class Coarsening:
    """Whether a release may be a coarsening of another; true or false as a condition.

    Attributes:
        passed: Whether nothing speaks against it.
        p_value: Of the law of the differences; at least as large as chance would have it. None where parameters
            already speak against it.
        detail: In words.
    """

    passed: bool
    p_value: float | None
    detail: str

    def __bool__(self) -> bool:
        return self.passed


def joint_level(releases: Iterable[DenseRelease]) -> Fraction:
    """The level that several releases of one vector, resold or not, cost together.

    Args:
        releases: Of one vector; each with the line of descent it was published with.

    Returns:
        The level of their lowest common ancestor: never too low, and attained where the bridge has an atom at 0
        (Laplace, discrete Laplace). Under Gaussian noise the exact rho, which is lower when branches are many.

    Raises:
        InputError: If there are none, or they do not descend from one vector: then costs add.

    Example:
        >>> import sparsehist as sh
        >>> sold = sh.MultipleRelease(sh.noise.Gaussian(), [3, 1, 4]).release(1)
        >>> joint_level([sold.resell("1/2"), sold.resell("1/2")])
        Fraction(2, 3)
    """
    given = list(releases)
    lines = {_line(release) for release in given}
    if not lines:
        raise InputError("there are no releases to price")
    if len({line[0][0] for line in lines}) > 1 or len({repr(release.family) for release in given}) > 1:
        raise InputError("these releases do not descend from one vector: what they cost adds up")
    exact = isinstance(given[0].family, Gaussian)
    return _known(sorted(lines), exact=exact)


def check_coarsening(parent: DenseRelease, child: DenseRelease) -> Coarsening:
    """Check that a release may be a coarsening of another, for who holds both.

    Parameters have to agree, and the differences of the values have to follow the law of the bridge between both
    levels, by the inequality of Dvoretzky, Kiefer and Wolfowitz (with Massart's constant).

    Args:
        parent: The finer release.
        child: What is said to be made from it.

    Returns:
        What was found; honest copies fail with a probability of at most 1e-6.

    Example:
        >>> import sparsehist as sh
        >>> sold = sh.MultipleRelease(sh.noise.DiscreteLaplace(), [3, 1, 4] * 100).release(1)
        >>> bool(check_coarsening(sold, sold.resell("1/2")))
        True
    """
    for what in ("noise", "sensitivity", "size", "truth_step"):
        one, other = parent.metadata[what], child.metadata[what]
        if one != other:
            return Coarsening(passed=False, p_value=None, detail=f"{what} is {one} and {other}")
    if parent.metadata["post_processing"] or child.metadata["post_processing"]:
        return Coarsening(passed=False, p_value=None, detail="a post-processed release is no coarsening")
    if not child.level < parent.level:
        return Coarsening(passed=False, p_value=None, detail="the level is not coarser")
    family, difference = parent.family, child.values - parent.values
    modulus = modulus_of(family)
    if modulus is not None:
        difference = difference % modulus
    slack = 0.0 if family.integer else float(parent.metadata["grid"]) + float(child.metadata["grid"])
    cdf = _bridge(family, parent.level, child.level)
    p_value = _massart(np.sort(difference), cdf, slack)
    return Coarsening(p_value >= _ALARM, p_value, f"differences follow the law of the bridge with p = {p_value:.3g}")


def _line(release: DenseRelease) -> Line:
    line: Line = tuple((name, Fraction(level)) for name, level in release.metadata["lineage"])
    if not line:
        raise InputError("this release does not say what it descends from; take it from MultipleRelease")
    return line


def _known(lines: Sequence[Line], *, exact: bool) -> Fraction:
    """The level of the common ancestor of lines, or of the precision they add up to if `exact`."""
    depth = 0
    while len({line[: depth + 2][-1][0] for line in lines}) == 1 and all(
        len(line) > depth + 1 and line[depth][1] == lines[0][depth][1] for line in lines
    ):
        depth += 1
    top = max(line[depth][1] for line in lines)
    if not exact or any(len(line) == depth + 1 and line[depth][1] == top for line in lines):
        return top
    below: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        below[line[depth + 1][0] if line[depth][1] == top else ""].append(line)
    # What each branch has on top of the ancestor's noise is independent of the others: precisions add.
    parts = [1 / (1 / _known(branch, exact=exact) - 1 / top) for branch in below.values()]
    return 1 / (1 / top + 1 / sum(parts, Fraction(0)))


def _bridge(family: DenseFamily, fine: Fraction, coarse: Fraction) -> Callable[[FloatArray], FloatArray]:
    """The distribution function of coarse noise less fine noise."""
    if isinstance(family, RandomisedResponse):
        kept = family.kept(coarse) / family.kept(fine)
        other = (1 - kept) / family.categories
        return lambda x: np.clip((np.floor(x) >= 0) * (kept + (np.floor(x) + 1) * other), 0.0, 1.0)
    if type(family).__name__ in {"Laplace", "DiscreteLaplace"}:
        still = (family.std(fine) / family.std(coarse)) ** 2
        return lambda x: still * (x >= 0) + (1 - still) * np.exp(family.log_cdf(x, coarse))  # type: ignore[attr-defined]
    if type(family).__name__ in {"Gaussian", "Poisson", "Skellam"}:
        # Variances are inverse to levels and add: the bridge is noise of the same family at a level between.
        level = coarse * fine / (fine - coarse)
        return lambda x: np.asarray(np.exp(family.log_cdf(x, level)))  # type: ignore[attr-defined]
    raise InputError(f"the bridge of {type(family).__name__} noise is not known here")


def _massart(ordered: NoiseArray, cdf: Callable[[FloatArray], FloatArray], slack: float) -> float:
    """P[the empirical distribution function is that far off] at most, values being off by `slack` at most."""
    n, values = ordered.size, ordered.astype(np.float64)
    first, last = np.searchsorted(ordered, ordered, "left"), np.searchsorted(ordered, ordered, "right")
    # Just below an atom the distribution function is that of the integer before, or of the double before.
    before = values - 1.0 if ordered.dtype.kind == "i" else np.nextafter(values - slack, -np.inf)
    distance = max(float(np.max(last / n - cdf(values + slack))), float(np.max(cdf(before) - first / n)), 0.0)
    return min(1.0, 2.0 * math.exp(-2.0 * n * distance**2))
