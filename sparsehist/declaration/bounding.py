"""Contribution bounds: how a unit with more than max_keys keys is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparsehist.declaration.checks import checked_flag
from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import Norm
from sparsehist.text_form import Notation, write_record
from sparsehist.typing import IntArray

_PARTS = 64
"""Weighted counts are whole numbers of 64ths, unless declared otherwise."""
_MOST_PARTS = 1024
_KEYS_PER_MAX_KEYS = 64
"""Default of most_keys over max_keys: weights then go down to 1/8 in L2 and 1/64 in L1."""


@dataclass(frozen=True)
class Keep:
    """Count a unit towards max_keys of its keys, chosen at random by its own rows alone.

    Attributes:
        portable: Whether every engine keeps the same keys for one salt (chosen by SHA-256). By default each machine
            uses a faster order of its own. Spark always counts in the portable order.

    Example:
        >>> str(Keep()), str(Keep(portable=True))
        ('keep', 'keep(portable=True)')
    """

    portable: bool = False

    def __post_init__(self) -> None:
        checked_flag("portable", self.portable, parameter="bounding")

    def __str__(self) -> str:
        return write_record("keep", self)


@dataclass(frozen=True)
class Share:
    """Count a unit towards all of its keys, with weights that cost the noise of max_keys keys.

    For Gaussian and Laplace noise. Where many units have more than max_keys keys, shares are far less biased.

    Attributes:
        most_keys: Keys to which a unit is cut before its weight is computed; 64 times max_keys by default. The
            thresholds of an open domain rise with it.
        portable: As for `Keep`, where a unit has more than most_keys keys.
        parts: Weights are rounded down to multiples of 1/parts, a power of two from 2 to 1024. Fewer parts are
            faster; more parts round small weights less.

    Example:
        >>> str(Share()), str(Share(most_keys=100))
        ('share', 'share(most_keys=100)')
    """

    most_keys: int | None = None
    portable: bool = False
    parts: int = _PARTS

    def __post_init__(self) -> None:
        whole = isinstance(self.most_keys, int) and not isinstance(self.most_keys, bool)
        if self.most_keys is not None and not whole:
            raise DeclarationError(
                f"most_keys must be a whole number, got {shown(self.most_keys)}", parameter="bounding"
            )
        checked_flag("portable", self.portable, parameter="bounding")
        is_power = isinstance(self.parts, int) and self.parts > 1 and self.parts & (self.parts - 1) == 0
        if not is_power or self.parts > _MOST_PARTS:
            raise DeclarationError(
                f"parts must be a power of two from 2 to {_MOST_PARTS}, got {shown(self.parts)}", parameter="bounding"
            )

    def __str__(self) -> str:
        return write_record("share", self)

    def for_units_of(self, max_keys: int) -> Share:
        """Return the same with most_keys filled in."""
        return self if self.most_keys is not None else replace(self, most_keys=_KEYS_PER_MAX_KEYS * max_keys)


_NOTATION = Notation("bounding", "whole numbers, True and False", lambda: "write keep or share", bare=True)


_KINDS: dict[str, Callable[..., Keep | Share]] = {"keep": Keep, "share": Share}


def bounding_of(value: object) -> Keep | Share:
    """Read a bounding: a record, or a text such as "keep" or "share(most_keys=640)"."""
    if isinstance(value, Keep | Share):
        return value
    if not isinstance(value, str):
        raise DeclarationError(
            f"bounding must be 'keep', 'share', sh.Keep(…) or sh.Share(…), got {shown(value)}", parameter="bounding"
        )
    read: Keep | Share = _NOTATION.record(value, _KINDS, "bounding")
    return read


@dataclass(frozen=True)
class Shares:
    """The weights of units under `Share`. Public parameters.

    A unit with m distinct keys adds w(m) to each of them, w = min(1, √(l/m)) for noise measured in L2 and min(1, l/m)
    in L1, rounded down to a multiple of 1/parts. So w·√m is at most √l, or w·m at most l, and the noise is that of
    max_keys = l. A unit with more than `most_keys` keys is cut to that many first.
    """

    max_keys: int
    most_keys: int
    norm: Norm
    parts: int = _PARTS

    def __post_init__(self) -> None:
        if self.most_keys < self.max_keys:
            raise DeclarationError(
                f"most_keys={self.most_keys} is less than max_keys={self.max_keys}", parameter="bounding"
            )
        largest = self.max_keys * self.parts ** (2 if self.norm == "l2" else 1)
        if self.most_keys > largest:
            raise DeclarationError(
                f"most_keys={self.most_keys} is too large: beyond {largest} keys the weight of each, a multiple of "
                f"1/{self.parts}, would be 0",
                parameter="bounding",
            )

    def describe(self) -> str:
        """Describe the weights in words."""
        share = "sqrt(max_keys/keys)" if self.norm == "l2" else "max_keys/keys"
        return (
            f"a unit with more than {self.max_keys} keys counts at each of its keys (at most {self.most_keys}) with "
            f"the weight {share}, rounded down to a multiple of 1/{self.parts}"
        )

    def weights(self, keys: object) -> IntArray:
        """Return the weights of units with 1 to most_keys keys, in parts of a count; same shape."""
        m = np.asarray(keys, np.int64)
        if self.norm == "l1":
            return np.minimum(self.parts * self.max_keys // m, self.parts)
        # floor √(parts² l/m), computed from floor(parts² l/m), which has the same integer root
        square = self.parts**2 * self.max_keys // m
        root = np.floor(np.sqrt(square.astype(np.float64))).astype(np.int64)
        root -= root * root > square
        root += (root + 1) * (root + 1) <= square
        return np.minimum(root, self.parts)

    def most_at(self) -> list[tuple[int, int]]:
        """List every weight, falling, in parts of a count, with the largest number of keys that has it."""
        found = []
        keys = 1
        while keys <= self.most_keys:
            weight = int(self.weights(keys))
            square = self.parts**2 * self.max_keys
            last = square // weight**2 if self.norm == "l2" else self.parts * self.max_keys // weight
            keys = min(last, self.most_keys)
            found.append((weight, keys))
            keys += 1
        return found
