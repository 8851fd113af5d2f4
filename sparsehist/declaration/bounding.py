"""Contribution bounds: how units with more than `max_keys` keys are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsehist.declaration.parameters import Record, parameter, reader
from sparsehist.errors import DeclarationError
from sparsehist.noise.family import Norm


@dataclass(frozen=True)
class Keep(Record):
    """Count a unit towards at most max_keys of its keys, chosen at random, independently of the rows of other units.

    Attributes:
        portable: Whether keys are chosen by SHA-256, so that every engine keeps the same keys for the same salt. The
            default order is faster, but other engines cannot reproduce it. Spark always uses the portable order.

    Example:
        >>> str(Keep()), str(Keep(portable=True))
        ('keep', 'keep(portable=True)')
    """

    portable: bool = parameter(default=False)
    most_keys: ClassVar[None] = None
    parts: ClassVar[int] = 1


@dataclass(frozen=True)
class Share(Record):
    """Count a unit towards all of its keys, with smaller weights if it has more than max_keys keys.

    Because of these weights, no more noise is needed than with `Keep`. If many units exceed max_keys, the bias is far
    smaller than with `Keep`. The noise must be Gaussian or Laplace.

    Attributes:
        most_keys: A unit with more keys is cut to this number before its weight is computed; 64 times max_keys by
            default. A larger number raises the thresholds of an open domain.
        portable: As for `Keep`, for units with more than most_keys keys.
        parts: A power of two from 2 to 1024; weights are rounded down to multiples of 1/parts. Fewer parts are
            faster; more parts round small weights less.

    Example:
        >>> str(Share()), str(Share(most_keys=100))
        ('share', 'share(most_keys=100)')
    """

    most_keys: int | None = parameter(default=None, least=1, most=2**62)
    portable: bool = parameter(default=False)
    parts: int = parameter(default=64, choices=tuple(2**power for power in range(1, 11)))


bounding_of = reader("bounding", "write keep or share(most_keys=640)", Keep, Share)


@dataclass(frozen=True)
class Shares:
    """The weights with which `Share` counts units. All fields are public parameters.

    Let l be max_keys. A unit with m distinct keys adds the same weight w to each of them. If the noise depends on
    the L2 norm, w is min(1, √(l/m)). If it depends on the L1 norm, w is min(1, l/m). Weights are rounded down to
    multiples of 1/parts. So the weights of a unit have an L2 norm of at most √l, or an L1 norm of at most l, as if it
    added 1 to each of l keys. A unit with more than `most_keys` keys is first cut to `most_keys` keys.
    """

    keys: int  # max_keys, called l above
    most_keys: int
    norm: Norm
    parts: int = Share.parts

    def __post_init__(self) -> None:
        if not self.keys <= self.most_keys <= self._most_at(1):
            raise DeclarationError(
                "most_keys must not be below max_keys, nor so large that weights would be rounded down to 0: it must "
                f"be from {self.keys} to {self._most_at(1)}, got {self.most_keys}",
                parameter="bounding",
            )

    def describe(self) -> str:
        """Return a sentence that describes the weights."""
        share = f"sqrt({self.keys}/keys)" if self.norm == "l2" else f"{self.keys}/keys"
        return (
            f"a unit with more than {self.keys} keys counts at each of its keys (at most {self.most_keys}) with "
            f"the weight {share}, rounded down to a multiple of 1/{self.parts}"
        )

    def _most_at(self, weight: int) -> int:
        """Return the most keys that a unit can have without its weight falling below `weight` parts of a count."""
        if self.norm == "l1":
            return self.keys * self.parts // weight
        return self.keys * self.parts**2 // weight**2

    def most_at(self) -> list[tuple[int, int]]:
        """List the possible weights, largest first, each with the most keys that a unit with this weight can have.

        A weight is given as a number of parts of a count.
        """
        largest = {min(self._most_at(weight), self.most_keys): weight for weight in range(1, self.parts + 1)}
        return [(largest[keys], keys) for keys in sorted(largest)]
