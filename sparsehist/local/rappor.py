"""The settings of RAPPOR, which draws a memo (a randomised copy) of a Bloom filter, and reports from the memo.

A person's value sets `hashes` bits of a Bloom filter. A memo is drawn once: it keeps each bit with probability `keep`
and otherwise replaces it by a fair random bit. A report shows 1 with probability `one_if_set` where the memo is 1 and
with probability `one_if_not` where it is 0. Papers write alpha = 1 - keep, beta = one_if_set, gamma = one_if_not.

Source: Erlingsson, Pihur and Korolova 2014; [KHP eq. 39, 40], with 1 - alpha and g(z) corrected; the cost of r
reports is our own derivation. Papers: [KHP eq. 38].
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy.levels import Level, at_least_zero
from sparsehist.typing import BoolArray, FloatArray, Generator, NDArray, float_array, float_entries, whole_number

_MOST_BITS = 1 << 20
# Random bits to draw for each bool. With probability 2**-62, they do not determine the bool, and more bits are drawn.
_BITS = 62


@dataclass(frozen=True, init=False)
class Rappor:
    """The parameters of RAPPOR, together called a *setting*. All of them are public.

    Args:
        bits: Length of the Bloom filter.
        hashes: Number of hash functions, each of which sets a bit; from 1 to `bits`.
        keep: Probability that the memo keeps a bit instead of replacing it by a random bit; strictly between 0 and 1.
        one_if_set: Probability that a report shows 1 if the memo bit is 1.
        one_if_not: Probability that a report shows 1 if the memo bit is 0; below `one_if_set`.

    Numbers are read exactly: 0.75, "3/4" and Fraction(3, 4) are one setting.

    Raises:
        DeclarationError: If a parameter is wrong; the message names the inequality.

    Example:
        >>> setting = Rappor(bits=128, hashes=2, keep=0.5, one_if_set=0.75, one_if_not=0.5)
        >>> round(setting.epsilon(), 4), round(setting.epsilon(reports=1), 4)
        (4.3944, 1.0743)
    """

    bits: int
    hashes: int
    keep: Fraction
    one_if_set: Fraction
    one_if_not: Fraction

    def __init__(self, bits: int, hashes: int, keep: Level, one_if_set: Level, one_if_not: Level) -> None:
        for name, value, most in (("bits", bits, _MOST_BITS), ("hashes", hashes, bits)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise DeclarationError(f"{name} must be a whole number from 1 to {most}, got {shown(value)}")
            object.__setattr__(self, name, value)
        for name, chance in (("keep", keep), ("one_if_set", one_if_set), ("one_if_not", one_if_not)):
            object.__setattr__(self, name, at_least_zero(chance, name))
        if not 0 < self.keep < 1:
            raise DeclarationError(f"keep must lie strictly between 0 and 1, got {self.keep}")
        if not self.one_if_not < self.one_if_set <= 1:
            got = f"{self.one_if_not} and {self.one_if_set}"
            raise DeclarationError(f"a setting needs one_if_not < one_if_set <= 1, got {got}")

    def epsilon(self, reports: int | None = None) -> float:
        """Return the epsilon of `reports` reports of a person, or of any number of reports if `reports` is None.

        Neighbours differ in the value, so at most `hashes` filter bits change from 1 to 0, and at most `hashes` from
        0 to 1. Epsilon adds up the largest log likelihood ratios of these bits. They occur if all reports are equal.
        """
        rare = (1 - self.keep) / 2
        if reports is None:
            return 2 * self.hashes * math.log((1 - rare) / rare)
        if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
            message = f"reports must be a whole number of at least 1, or None for any, got {shown(reports)}"
            raise DeclarationError(message)
        ones = self.one_if_set**reports, self.one_if_not**reports
        zeros = (1 - self.one_if_set) ** reports, (1 - self.one_if_not) ** reports
        up = ((1 - rare) * ones[0] + rare * ones[1]) / (rare * ones[0] + (1 - rare) * ones[1])
        down = (rare * zeros[0] + (1 - rare) * zeros[1]) / ((1 - rare) * zeros[0] + rare * zeros[1])
        return self.hashes * (math.log(up) + math.log(down))

    def filter(self, value: str | bytes) -> BoolArray:
        """Return the Bloom filter of a value, by SHA-256; shape (bits,). The filter is as secret as the value."""
        if not isinstance(value, str | bytes):
            raise DeclarationError(f"a value must be a string or bytes, got {shown(value)}")
        data = value.encode() if isinstance(value, str) else bytes(value)
        filled = np.zeros(self.bits, np.bool_)
        for number in range(self.hashes):
            digest = hashlib.sha256(number.to_bytes(4, "big") + data).digest()
            filled[int.from_bytes(digest, "big") % self.bits] = True
        return filled

    def std(self, count: float, people: int, reports: int | None = 1) -> float:
        """Return the standard deviation of the estimated number of people who have a given bit set.

        `count` of the `people` truly have the bit set. Each person sends `reports` reports; None means infinitely
        many. Even then, the result is above 0, because each memo (randomised filter) is drawn only once.
        """
        return math.sqrt(float(self.variances(np.array([float(count)]), people, reports)[0]))

    def variances(self, counts: FloatArray, people: int, reports: int | None = 1) -> FloatArray:
        """Return the squares of `std` for an array of counts, in the shape of `counts`."""
        kept, beta, gamma = float(self.keep), float(self.one_if_set), float(self.one_if_not)
        each = 0.0 if reports is None else 1.0 / whole_number("reports", reports)

        def of_one(memo: float) -> float:
            within = memo * beta * (1 - beta) + (1 - memo) * gamma * (1 - gamma)
            return (beta - gamma) ** 2 * memo * (1 - memo) + within * each

        counts, everybody = float_array("counts", counts), float_entries("people", people, 1)
        mixed = counts * of_one((1 + kept) / 2) + (everybody - counts) * of_one((1 - kept) / 2)
        return mixed / (kept * (beta - gamma)) ** 2

    def __str__(self) -> str:
        return f"rappor({self.bits}, {self.hashes}, {self.keep}, {self.one_if_set}, {self.one_if_not})"


def flip(chances: Sequence[Fraction], which: NDArray[np.integer], *, rng: Generator) -> BoolArray:
    """Draw a bool for each index i in `which`. The bool is true with probability `chances[i]`, exactly."""
    scaled = [chance * 2**_BITS for chance in chances]
    words, limits = rng.integers(0, 2**_BITS, which.shape), np.array([int(each) for each in scaled], np.int64)[which]
    heads: BoolArray = words < limits
    if (undecided := words == limits).any():
        heads[undecided] = flip([each - int(each) for each in scaled], which[undecided], rng=rng)
    return heads
