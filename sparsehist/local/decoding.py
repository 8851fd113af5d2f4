"""How many people have each value, from the reports of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from sparsehist.errors import DataError, InputError
from sparsehist.local.estimates import Decoded
from sparsehist.local.rappor import Rappor
from sparsehist.typing import ArrayLike, ByteArray, FloatArray, NDArray

_BLOCK = 1 << 17
# Filters are of 0 and 1: what is dependent leaves a pivot of rounding errors, what is not one far above this.
_LEAST_PIVOT = 1e-6


def decode(reports: ArrayLike, setting: Rappor, candidates: Sequence[str | bytes]) -> Decoded:
    """Estimate how many people have each candidate value.

    The number of people with a bit set is estimated from how often the bit shows, without bias. Where the filters of
    the candidates can be told apart (their matrix has full column rank), weighted least squares gives unbiased
    estimates with known variances, for people who all have one of the candidates. Otherwise (more candidates than
    bits) the bits of a candidate are compared with all others: without bias over the choice of the hash functions,
    whatever the others have, and with a standard deviation that holds collisions too, read off the other bits.

    Args:
        reports: Of people at one setting; shape (n, bits), or (n, r, bits) for r reports of each; 0 or 1.
        setting: What they were drawn with.
        candidates: Different values to look for.

    Returns:
        Candidates, estimates and their standard deviations.

    Raises:
        DataError: If the reports have another shape or hold anything but 0 and 1.
        InputError: If there are no candidates, or one is given twice.
    """
    names = list(candidates)
    if not names or len(set(names)) < len(names):
        raise InputError("candidates must be different values, at least one")
    given = np.asarray(reports)
    if given.ndim not in (2, 3) or given.shape[-1] != setting.bits or 0 in given.shape:
        raise DataError(
            f"reports must have shape (people, bits) or (people, reports, bits) with {setting.bits} bits, "
            f"got {given.shape}"
        )
    people, each = given.shape[0], 1 if given.ndim == 2 else given.shape[1]
    counts = _bit_counts(given.reshape(-1, setting.bits), setting, each, people)
    filters = np.stack([setting.filter(name) for name in names], axis=1).astype(np.float64)
    variances = setting.variances(np.clip(counts, 0, people), people, each)
    estimate, std = _least_squares(filters, counts, variances) or _compared(filters, counts)
    return Decoded(np.array(names, dtype=object), estimate, std)


def _bit_counts(rows: NDArray[np.generic], setting: Rappor, each: int, people: int) -> FloatArray:
    """Unbiased estimates of how many people have each bit set; shape (bits,)."""
    shown = np.zeros(setting.bits)
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        if block.dtype != np.bool_ and not bool(((block == 0) | (block == 1)).all()):
            raise DataError("reports may hold 0 and 1 alone, and these hold something else")
        shown += _column_sums(np.ascontiguousarray(block).astype(np.uint8, copy=False))
    kept, beta, gamma = float(setting.kept), float(setting.if_set), float(setting.if_not)
    at_rest = gamma + (beta - gamma) * (1 - kept) / 2
    return (shown / each - people * at_rest) / (kept * (beta - gamma))


def _column_sums(block: ByteArray) -> FloatArray:
    """Sums of columns of 0 and 1; 255 rows fit a byte, so most additions are of bytes."""
    whole = len(block) // 255 * 255
    bytewise = block[:whole].reshape(-1, 255, block.shape[1]).sum(axis=1, dtype=np.uint8)
    return np.asarray(bytewise.sum(axis=0, dtype=np.float64) + block[whole:].sum(axis=0, dtype=np.float64))


def _least_squares(
    filters: FloatArray, counts: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Weighted least squares; None where the filters do not tell the candidates apart."""
    if filters.shape[1] > filters.shape[0]:
        return None
    weights = 1 / np.maximum(variances, 1e-12)
    try:
        root = linalg.cholesky((filters.T * weights) @ filters, lower=True)
    except linalg.LinAlgError:
        return None
    if root.diagonal().min() < _LEAST_PIVOT * root.diagonal().max():
        return None
    covariance = linalg.cho_solve((root, True), np.eye(filters.shape[1]))
    return covariance @ (filters.T @ (counts * weights)), np.sqrt(covariance.diagonal())


def _compared(filters: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean count of a candidate's bits less that of all others; spread of the others."""
    own = filters.sum(axis=0)
    others = len(counts) - own
    if bool((others < 2).any()):
        raise InputError("a candidate sets all bits but one: decoding needs longer filters")
    total, squares = counts.sum(), (counts**2).sum()
    inside, squares_inside = filters.T @ counts, filters.T @ counts**2
    mean_outside = (total - inside) / others
    spread = np.maximum((squares - squares_inside) / others - mean_outside**2, 0.0) * others / (others - 1)
    return inside / own - mean_outside, np.sqrt(spread * (1 / own + 1 / others))
