"""Check the vector to be released, round it to a grid, and increase the sensitivity by the effect of rounding."""

from __future__ import annotations

import math
from dataclasses import is_dataclass, replace
from typing import NamedTuple

import numpy as np

from sparsehist.dense.rounding import as_power_of_two, chunks
from sparsehist.errors import DataError, DeclarationError
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.typing import AnyArray, ArrayLike, secret

# Rounding real values may increase the sensitivity by at most this fraction (0.006 %).
_ROUNDING_SHARE = 2.0**-14
_LARGEST_INTEGER = 2**62
_LARGEST_IN_STEPS = 2.0**52


@secret
class Truth(NamedTuple):
    """A vector of multiples of `step`. Rounding the values increased the sensitivity of `family` by `charge`."""

    values: NoiseArray
    step: float
    family: DenseFamily
    charge: float


def read_truth(truth: ArrayLike, family: DenseFamily, truth_step: float | None) -> Truth:
    """Check a vector, and round it to a grid that depends only on public parameters, its dtype and its length.

    Real values of a vector of length n are rounded to a grid of step at most 2**-14 * sensitivity / n, or, for the L2
    norm, 2**-14 * sensitivity / √n. The sensitivity grows by the largest possible effect of rounding. Integers, and
    multiples of a declared `truth_step`, are not rounded, so the sensitivity does not grow.
    """
    given = _as_vector(truth)
    if family.integer:
        whole = _whole(given)
        require_categories(whole, family)
        return Truth(whole, 1.0, family, 0.0)
    if truth_step is not None or given.dtype.kind != "f":
        step = 1.0 if truth_step is None else as_power_of_two(truth_step, "truth_step")
        values = _floats(given, step)
        if any(bool(np.remainder(values[part], step).any()) for part in chunks(values.size)):
            raise DataError(f"the truth contains values that are not multiples of the declared truth_step {step:g}")
        return Truth(values, step, family, 0.0)
    step, charge = _rounding(family, given.size)
    values = _floats(given, step)
    for part in chunks(values.size):
        values[part] = np.rint(values[part] / step) * step
    return Truth(values, step, replace(family, sensitivity=family.sensitivity + charge), charge)  # type: ignore[attr-defined, type-var]


def require_categories(values: NoiseArray, family: DenseFamily) -> None:
    """If noise is added modulo k, raise DataError unless all values are from 0 to k - 1."""
    modulus = family.modulus
    if modulus is not None and not all(
        0 <= int(values[part].min()) <= int(values[part].max()) < modulus for part in chunks(values.size)
    ):
        raise DataError(f"encode the values as categories 0 … {modulus - 1}, as {type(family).__name__} needs")


def _as_vector(truth: ArrayLike) -> AnyArray:
    given = np.asarray(truth)
    if given.dtype.kind not in "biuf" or given.dtype.itemsize > 8:
        raise DataError(f"the truth must be a vector of integers or floats, got dtype {given.dtype}")
    if given.ndim != 1:
        raise DataError(f"the truth must have one dimension, got {given.ndim}; flatten it first")
    if given.size == 0:
        raise DataError("the truth is empty: there is nothing to release")
    return given


def _largest(values: AnyArray) -> float:
    largest = float(np.max([np.abs(values[part].astype(np.float64)).max() for part in chunks(values.size)]))
    if not math.isfinite(largest):
        raise DataError("the truth contains NaN or infinite values; remove or replace them")
    return largest


def _whole(given: AnyArray) -> NoiseArray:
    if _largest(given) >= _LARGEST_INTEGER:
        raise DataError("integer noise needs absolute values below 2**62; scale the truth down first")
    if given.dtype.kind == "f" and any((given[part] != np.rint(given[part])).any() for part in chunks(given.size)):
        raise DataError("integer noise needs whole values; round the truth first")
    return given.astype(np.int64)


def _floats(given: AnyArray, step: float) -> NoiseArray:
    if _largest(given) > _LARGEST_IN_STEPS * step:
        raise DataError(f"the truth has values above 2**52 grid steps; declare a truth_step coarser than {step:g}")
    return given.astype(np.float64)


def _rounding(family: DenseFamily, size: int) -> tuple[float, float]:
    """Return the grid step for real values, and the largest amount that rounding can add to the sensitivity."""
    sensitivity = getattr(family, "sensitivity", None)
    if sensitivity is None or not is_dataclass(family):
        raise DeclarationError(
            "round real values first, and declare their grid as truth_step: rounding them here would increase the "
            f"sensitivity, which cannot be changed for {type(family).__name__}"
        )
    # Rounding changes each coordinate of the difference between neighbouring vectors by at most one grid step.
    norm = math.sqrt(size) if family.norm == "l2" else float(size)
    step = math.ldexp(1.0, math.frexp(float(sensitivity) * _ROUNDING_SHARE / norm)[1] - 1)
    return step, step * norm
