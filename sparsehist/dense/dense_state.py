"""The state of a `MultipleRelease`, and functions that draw a level, publish a level, or erase the truth (`seal`).

A noisy value is an anchor (at first the true value) plus an offset for its level (at first the noise). To erase the
truth, `seal` rounds the noise at the cap down to the grid of true values, adds it to the anchor, and subtracts it
from all offsets. Then the state depends only on the release at the cap and on noise independent of the truth. Coarser
levels can be drawn, as `coarsen` and `between` depend only on differences of noise (modulo k, if noise is modulo k).

Papers: [ARNP Thm 1.2, Def. 4.1, Lemma 4.2, Thm 4.4]; [KHP Thm 10, Thm 11, Figure 4]; [KHP poster Thm 2].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sparsehist.dense.rounding import chunks, keep_on_lattice, kept_step, round_into
from sparsehist.errors import LevelOrderError
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.privacy.levels import level_text
from sparsehist.typing import FloatArray, Generator

# `seal` requires std(level) <= _WIDEST * std(cap) at each level, so that doubles represent all rounded noise exactly.
_WIDEST = 2.0**20


@dataclass(eq=False, repr=False, slots=True)
class DenseState:
    """A vector and its noise at all levels drawn so far. It is secret until `seal` erases the truth.

    The noisy values at a level are anchor + offsets[level], shape (n,). Anchors are multiples of `truth_step`.
    """

    family: DenseFamily
    anchor: NoiseArray
    truth_step: float
    offsets: dict[Fraction, NoiseArray] = field(default_factory=dict)
    sealed: bool = False

    @property
    def size(self) -> int:
        return int(self.anchor.size)


def draw_level(state: DenseState, level: Fraction, *, rng: Generator) -> NoiseArray:
    """Draw the offsets (noisy values minus anchor) of a new level; shape (n,). Source: [ARNP Alg. 4, Alg. 5]."""
    drawn = np.empty_like(state.anchor)
    for part in chunks(state.size):
        known = {other: offsets[part] for other, offsets in state.offsets.items()}
        drawn[part] = noise_at_level(state.family, level, known, part.stop - part.start, rng=rng)
    return drawn


def published(state: DenseState, level: Fraction, step: float) -> NoiseArray:
    """Return the values to publish at a level that was drawn before. Repeated calls return the same values."""
    values, scratch = np.empty_like(state.anchor), np.empty(chunks(state.size)[0].stop)
    for part in chunks(state.size):
        offsets = state.offsets[level][part]
        rounded = offsets if state.family.integer else round_into(offsets, step, scratch[: offsets.size])
        np.add(state.anchor[part], rounded, out=values[part])
        _wrap(state, values[part])
    return values


def seal(state: DenseState, cap: Fraction, *, rng: Generator) -> None:
    """Overwrite the truth with noisy values at the level `cap`. All levels up to the cap can still be drawn.

    Real-valued noise is first rounded to a grid whose step is about 2**-25 times the std at the cap. Otherwise, the
    low bits of the remaining noise would show how much was subtracted. An interrupted `seal` erases values and noise.
    """
    if any(level > cap for level in state.offsets):
        raise LevelOrderError(f"seal at the finest released level, not at {level_text(cap)}")
    family = state.family
    if not family.integer and any(family.std(level) > _WIDEST * family.std(cap) for level in state.offsets):
        raise LevelOrderError(f"cannot seal: a level has more than 2**20 times the std of level {level_text(cap)}")
    if cap not in state.offsets:
        state.offsets[cap] = draw_level(state, cap, rng=rng)
    try:
        _move_anchor(state, cap)
    except BaseException:
        for secret in (state.anchor, *state.offsets.values()):
            secret.fill(0)
        state.anchor = state.anchor[:0]
        state.offsets.clear()
        raise
    state.sealed = True


def _move_anchor(state: DenseState, cap: Fraction) -> None:
    """Move the noise at the cap, rounded down to multiples of `truth_step`, from the offsets to the anchor."""
    moved = np.zeros(chunks(state.size)[0].stop, state.anchor.dtype)
    lattice = None if state.family.integer else kept_step(state.family.std(cap))
    for part in chunks(state.size):
        shift = moved[: part.stop - part.start]
        if lattice is not None:
            for offsets in state.offsets.values():
                keep_on_lattice(offsets[part], lattice)
        shift[...] = state.offsets[cap][part]
        if lattice is not None:
            whole_steps(shift, state.truth_step)
        state.anchor[part] += shift
        _wrap(state, state.anchor[part])
        for offsets in state.offsets.values():
            offsets[part] -= shift
            _wrap(state, offsets[part])
    # `moved` still contains the noise of the last chunk, which would reveal the true values, so overwrite it.
    moved.fill(0)


def _wrap(state: DenseState, values: NoiseArray) -> None:
    modulus = state.family.modulus
    if modulus is not None:
        np.remainder(values, modulus, out=values)


def whole_steps(values: FloatArray, step: float) -> None:
    """Round values down to multiples of `step`, in place."""
    np.multiply(values, 1.0 / step, out=values)
    np.floor(values, out=values)
    np.multiply(values, step, out=values)
