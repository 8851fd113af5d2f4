"""The joint cost of several branches of resale.

Releases form a tree: on one noise path each level follows from the next finer one, and a resale begins a new path
below the release it came from. Together, releases are a function of their lowest common ancestor, whose level bounds
their cost; the sum of their levels does not, because their noise is not independent. A release carries its line of
descent as random names of paths: a digest of the parent would let a buyer test guesses against it.

Source: [KHP section 4.3]; lowest common ancestors, and precisions for Gaussian noise, are our own derivation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import InputError
from sparsehist.noise.gaussian import Gaussian

Line = tuple[tuple[str, Fraction], ...]
"""Name of each path, and the level at which the next path (or the release) left it."""


def joint_level(releases: Iterable[DenseRelease]) -> Fraction:
    """Compute the level that several releases of one vector, resold or not, cost together.

    Args:
        releases: Of one vector, each with the lineage it was published with.

    Returns:
        The level of their lowest common ancestor: never too low, and reached where the bridge has an atom at 0
        (Laplace, discrete Laplace). For Gaussian noise the exact rho, which is lower across branches.

    Raises:
        InputError: If there are no releases, or they do not descend from one vector: then costs add.

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
    return _joint(sorted(lines), exact=exact)


def _line(release: DenseRelease) -> Line:
    line: Line = tuple((name, Fraction(level)) for name, level in release.metadata["lineage"])
    if not line:
        raise InputError("this release does not say what it descends from; take it from MultipleRelease")
    return line


def _joint(lines: Sequence[Line], *, exact: bool) -> Fraction:
    """The level of the common ancestor of lines; if `exact`, that of the precision they add up to."""
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
    # The noise that each branch adds to the ancestor is independent of the other branches: precisions add.
    precisions = [1 / (1 / _joint(branch, exact=exact) - 1 / top) for branch in below.values()]
    return 1 / (1 / top + 1 / sum(precisions, Fraction(0)))
