"""Draw RAPPOR reports at two settings. All reports together reveal no more than those at the finer setting.

At each setting, a person has a memo (permanent randomised response): a randomised copy of their Bloom filter, from
which all reports are drawn. The coarse memo is the fine memo XOR S, where S is a random mask, drawn only once. A
coarse report is drawn from a fine report, with probabilities that depend on S. (Degrading each report independently
would cost more privacy.) When a person changes to a finer setting, the fine memo and reports are drawn from the same
joint distribution, given the coarse memo and reports.

Source: own derivation; it replaces [KHP section 4.2], which is lossless at the Laplace level only. Papers: [KHP
eq. 39, eq. 40, eq. 42].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from sparsehist.errors import DeclarationError, InputError
from sparsehist.local.rappor import Rappor, flip
from sparsehist.typing import BoolArray, Generator


@dataclass(frozen=True)
class Degradation:
    """The random map from reports at a fine setting to reports at a coarse setting.

    Args:
        coarse: The more private setting.
        fine: The less private setting, with the same `bits` and `hashes`.

    Raises:
        DeclarationError: If no such map exists; the message names the inequality that is violated.

    Example:
        >>> fine = Rappor(128, 2, keep=0.5, one_if_set=0.8, one_if_not=0.25)
        >>> step = Degradation(Rappor(128, 2, keep=0.25, one_if_set=0.65, one_if_not=0.4), fine)
        >>> step.flip, round(float(step.one_after_one[0]), 6), round(float(step.one_after_zero[0]), 6)
        (Fraction(1, 4), 0.740909, 0.286364)
    """

    coarse: Rappor
    fine: Rappor

    def __post_init__(self) -> None:
        one, two = self.coarse, self.fine
        if (one.bits, one.hashes) != (two.bits, two.hashes):
            raise DeclarationError("both settings must have the same filter, because bits and hashes cannot change")
        set1, not1, set2, not2 = one.one_if_set, one.one_if_not, two.one_if_set, two.one_if_not
        unset1, unnot1, unset2, unnot2 = 1 - set1, 1 - not1, 1 - set2, 1 - not2
        needed = {
            "keep(coarse) <= keep(fine)": one.keep <= two.keep,
            "SET(coarse) * NOT(fine) <= NOT(coarse) * SET(fine)": set1 * not2 <= not1 * set2,
            "(1 - NOT(coarse)) * (1 - SET(fine)) <= (1 - SET(coarse)) * (1 - NOT(fine))": (
                unnot1 * unset2 <= unset1 * unnot2
            ),
        }
        if one.keep < two.keep:  # with equal `keep`, the coarse memo equals the fine memo, so this is not needed
            needed |= {
                "(1 - NOT(coarse)) * NOT(fine) <= (1 - SET(coarse)) * SET(fine)": unnot1 * not2 <= unset1 * set2,
                "SET(coarse) * (1 - SET(fine)) <= NOT(coarse) * (1 - NOT(fine))": set1 * unset2 <= not1 * unnot2,
            }
        failed = [inequality for inequality, holds in needed.items() if not holds]
        if failed:
            inequality = failed[0].replace("SET", "one_if_set").replace("NOT", "one_if_not")
            raise DeclarationError(
                "coarse reports cannot be drawn from fine reports. In the coarse setting, reduce keep or bring "
                f"one_if_set and one_if_not closer together, until this inequality holds: {inequality}"
            )

    @property
    def flip(self) -> Fraction:
        """The probability that a given bit differs between a person's coarse and fine memos (randomised filters)."""
        return (1 - self.coarse.keep / self.fine.keep) / 2

    @property
    def one_after_one(self) -> tuple[Fraction, Fraction]:
        """P(coarse report is 1 | fine report is 1) for one bit: if the two memos agree in it, and if they differ."""
        zero, one = self.one_after_zero
        slope = (self.coarse.one_if_set - self.coarse.one_if_not) / (self.fine.one_if_set - self.fine.one_if_not)
        return zero + slope, one - slope

    @property
    def one_after_zero(self) -> tuple[Fraction, Fraction]:
        """P(coarse report is 1 | fine report is 0) for one bit: if the two memos agree in it, and if they differ."""
        set1, not1 = self.coarse.one_if_set, self.coarse.one_if_not
        set2, not2 = self.fine.one_if_set, self.fine.one_if_not
        # If the memos differ in the bit, one_if_set and one_if_not of the coarse setting change places.
        return (not1 * set2 - set1 * not2) / (set2 - not2), (set1 * set2 - not1 * not2) / (set2 - not2)

    def memo_stays(self, *, coarse_is_true: bool) -> Fraction:
        """Return P(fine memo bit = Bloom filter bit), given whether the coarse memo bit equals the filter bit."""
        fine, coarse = (1 + self.fine.keep) / 2, (1 + self.coarse.keep) / 2
        return fine * (1 - self.flip) / coarse if coarse_is_true else fine * self.flip / (1 - coarse)

    def fine_report(self, *, coarse_shows: int, memo: int, flipped: int) -> Fraction:
        """Return P(fine report is 1) for one bit, given coarse report and fine memo, and if the memos differ."""
        one = self.fine.one_if_set if memo else self.fine.one_if_not
        after_one, after_zero = self.one_after_one[flipped], self.one_after_zero[flipped]
        seen_if_one, seen_if_zero = (after_one, after_zero) if coarse_shows else (1 - after_one, 1 - after_zero)
        total = one * seen_if_one + (1 - one) * seen_if_zero
        return one * seen_if_one / total if total else Fraction(0)


def draw_memo(setting: Rappor, true_bits: BoolArray, *, rng: Generator) -> BoolArray:
    """Draw a person's memo: a randomised copy of their Bloom filter `true_bits`, from which all reports are drawn.

    Call this once per person. The filter and the memo are secret, and each has shape (..., bits).
    """
    rare = (1 - setting.keep) / 2
    return flip((rare, 1 - rare), true_bits.view(np.int8), rng=rng)


def draw_report(setting: Rappor, memo: BoolArray, *, rng: Generator) -> BoolArray:
    """Draw one report from a memo, the secret randomised copy of a Bloom filter; both have the same shape."""
    return flip((setting.one_if_not, setting.one_if_set), memo.view(np.int8), rng=rng)


def coarser_history(
    step: Degradation, memo: BoolArray, reports: BoolArray, *, rng: Generator
) -> tuple[BoolArray, BoolArray]:
    """Draw a coarse memo and coarse reports, given the fine memo and the fine reports, with exact probabilities.

    A memo is the randomised copy of a person's Bloom filter from which reports are drawn. The person's value is not
    needed. Memos are secret, with shape (..., bits); r reports have shape (r, ..., bits).
    """
    flipped = flip((step.flip,), np.zeros(memo.shape, np.int8), rng=rng)
    return memo ^ flipped, coarser_reports(step, flipped, reports, rng=rng)


def coarser_reports(step: Degradation, flipped: BoolArray, reports: BoolArray, *, rng: Generator) -> BoolArray:
    """Draw coarse reports from fine reports; `flipped` marks the bits in which coarse and fine memo differ."""
    return flip(_chances(step)[0], reports.view(np.int8) + 2 * flipped.view(np.int8), rng=rng)


def finer_history(
    step: Degradation, true_bits: BoolArray, memo: BoolArray, reports: BoolArray, *, rng: Generator
) -> tuple[BoolArray, BoolArray]:
    """Draw a fine memo and fine reports, given the coarse memo, the coarse reports and the true bits.

    Both memos and all reports then have exactly the same joint distribution as if `coarser_history` had drawn the
    coarse memo and reports from the fine ones. The Bloom filter `true_bits` and the memos (randomised
    copies of it) are secret and have shape (..., bits). An array of r reports has shape (r, ..., bits).

    Raises:
        InputError: If true_bits, memo and each report do not have the same shape.
    """
    if not np.shape(true_bits) == np.shape(memo) == np.shape(reports)[1:]:
        raise InputError("true_bits, memo and each report must have the same shape")
    stays = step.memo_stays(coarse_is_true=False), step.memo_stays(coarse_is_true=True)
    fine = true_bits ^ ~flip(stays, (memo == true_bits).view(np.int8), rng=rng)
    flipped = memo ^ fine
    which = reports.view(np.int8) + 2 * fine.view(np.int8) + 4 * flipped.view(np.int8)
    return fine, flip(_chances(step)[1], which, rng=rng)


@lru_cache(maxsize=64)
def _chances(step: Degradation) -> tuple[list[Fraction], list[Fraction]]:
    """Return two lists of probabilities: P(c = 1 | f, S) at index f + 2 S, and P(f = 1 | c, m, S) at c + 2 m + 4 S.

    Here c, f and m are a bit of the coarse report, of the fine report, and of the fine memo (the randomised filter
    from which fine reports are drawn). S is 1 if the bit of the coarse memo differs from m, otherwise 0.
    """
    u, v = step.one_after_one, step.one_after_zero
    coarse = [v[0], u[0], v[1], u[1]]
    cases = product((0, 1), repeat=3)
    fine = [step.fine_report(coarse_shows=shows, memo=memo, flipped=flipped) for flipped, memo, shows in cases]
    never = Fraction(0)
    return (coarse, fine) if step.flip else ([*coarse[:2], never, never], [*fine[:4], *[never] * 4])
