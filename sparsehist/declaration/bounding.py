"""Contribution bounds: how a unit with more than max_keys keys is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsehist.declaration.parameters import Record, parameter, reader
from sparsehist.errors import DeclarationError
from sparsehist.noise.family import Norm


@dataclass(frozen=True)
class Keep(Record):
    """Count a unit towards max_keys of its keys, chosen at random from its own rows alone.

    Attributes:
        portable: Whether every engine keeps the same keys for one salt (chosen by SHA-256). By default each machine
            uses a faster order of its own. Spark always counts in the portable order.

    Example:
        >>> str(Keep()), str(Keep(portable=True))
        ('keep', 'keep(portable=True)')
    """

    portable: bool = parameter(default=False)
    most_keys: ClassVar[None] = None
    parts: ClassVar[int] = 1


@dataclass(frozen=True)
class Share(Record):
    """Count a unit towards all of its keys, with weights that need only the noise of max_keys keys.

    For Gaussian and Laplace noise. If many units have more than max_keys keys, the bias is far smaller.

    Attributes:
        most_keys: Keys to which a unit is cut before its weight is computed; 64 times max_keys by default. The
            thresholds of an open domain rise with it.
        portable: As for `Keep`, for units with more than most_keys keys.
        parts: Weights are rounded down to multiples of 1/parts, a power of two from 2 to 1024. Fewer parts are
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
    """The weights of units under `Share`. Public parameters.

    A unit with m distinct keys adds w(m) to each of them, w = min(1, √(l/m)) for noise measured in L2 and min(1, l/m)
    in L1, rounded down to a multiple of 1/parts. So w·√m is at most √l, or w·m at most l, and the noise is that of
    max_keys = l. A unit with more than `most_keys` keys is first cut to `most_keys`.
    """

    keys: int  # l
    most_keys: int
    norm: Norm
    parts: int = Share.parts

    def __post_init__(self) -> None:
        if not self.keys <= self.most_keys <= self._most_at(1):
            raise DeclarationError(
                f"most_keys must lie from max_keys={self.keys} to {self._most_at(1)}, beyond which weights, "
                f"multiples of 1/{self.parts}, would be 0; got {self.most_keys}",
                parameter="bounding",
            )

    def describe(self) -> str:
        """Describe the weights in words."""
        share = f"sqrt({self.keys}/keys)" if self.norm == "l2" else f"{self.keys}/keys"
        return (
            f"a unit with more than {self.keys} keys counts at each of its keys (at most {self.most_keys}) with "
            f"the weight {share}, rounded down to a multiple of 1/{self.parts}"
        )

    def _most_at(self, weight: int) -> int:
        """Return the most keys at which a unit may have this weight, in parts of a count."""
        if self.norm == "l1":
            return self.keys * self.parts // weight
        return self.keys * self.parts**2 // weight**2

    def most_at(self) -> list[tuple[int, int]]:
        """List all weights, decreasing, in parts of a count, with the largest number of keys of each."""
        largest = {min(self._most_at(weight), self.most_keys): weight for weight in range(1, self.parts + 1)}
        return [(largest[keys], keys) for keys in sorted(largest)]
