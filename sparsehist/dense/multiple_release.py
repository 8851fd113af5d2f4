"""`MultipleRelease`: release a dense vector at any levels, in any order, for the cost of the finest level.

Two independent draws of noise at one level would cost more than one draw. Therefore, a `MultipleRelease` keeps all
noise that it drew, and only one thread of one process may draw at a time. It makes its own random generators.

Papers: [ARNP Def. 3.4].
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from sparsehist import noise
from sparsehist.dense.dense_release import LOSSLESS, DenseRelease
from sparsehist.dense.dense_state import DenseState, draw_level, published, seal
from sparsehist.dense.resale import bought_state, step_of
from sparsehist.dense.rounding import as_power_of_two, kept_step
from sparsehist.dense.state_bytes import pack, unpack
from sparsehist.dense.truth import read_truth
from sparsehist.entropy import generator
from sparsehist.errors import (
    CapExceededError,
    DeclarationError,
    InputError,
    LevelOrderError,
    StoreDamagedError,
    StoreError,
    shown,
)
from sparsehist.noise.family import DenseFamily
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike

_KIND = "MultipleRelease"
_READERS = {"int": int, "float": float, "str": str, "Fraction": Fraction}


class VectorRelease(DenseRelease):
    """A release without post-processing (truth plus noise), from which anybody can draw coarser releases."""

    def resell(self, level: Level) -> VectorRelease:
        """Draw a release at a coarser level from this release, without the truth.

        Each call draws independent noise, so two results together cost more than one, but at most as much as this
        release (see `sparsehist.dense.joint_level`). To draw several levels for the cost of the finest, use one
        `MultipleRelease.from_release(release)`.

        Args:
            level: Coarser (smaller) than the level of this release.

        Raises:
            LevelOrderError: If the level is not coarser.
        """
        if not as_level(level) < self.level:
            raise LevelOrderError(f"resell() needs a level coarser than this release: {level_text(self.level)}")
        return MultipleRelease.from_release(self).release(level)


class MultipleRelease:
    """A dense vector that can be released at any levels, in any order, for the cost of the finest level.

    Each release has the same distribution as a single release at its level. All releases together reveal only what
    the finest one reveals. A second release at a level repeats the values of the first. Threads may share an object,
    but a forked process must not draw new levels. The vector needs 8 bytes per entry, and 8 more per level drawn.

    **Only one copy may draw.** After `to_bytes` (or a pickle), continue with either the object or the bytes. Two
    copies that draw the same level draw different noise, and together they cost more than the finest level.

    Args:
        family: The noise, such as `sparsehist.noise.Gaussian(sensitivity=1.0)`; the sensitivity is that of the whole
            vector.
        truth: Shape (n,); integers, or reals for a real family. Real values are rounded to a fine grid, and the
            sensitivity grows by at most 2**-14 of itself for that (`rounding_charge` in the metadata). Secret.
        cap: Finest level that may ever be released, or None.
        truth_step: A power of two, if all values are multiples of it; then nothing is rounded or charged. Integers
            have step 1.
        step: Grid of the published noise at all levels, a power of two that divides the grid of the truth; by
            default each level has its own, about a sixteenth of its standard deviation. For real families only.

    Raises:
        DataError: If the truth is empty, not one-dimensional, not finite, or not whole for an integer family.
        DeclarationError: If family, cap or a step are wrong.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> vector = MultipleRelease(Gaussian(sensitivity=1.0), [3, 0, 12], cap=2)
        >>> public, partner = vector.release("0.1"), vector.release(1)
        >>> public.metadata["guarantee"]
        '0.1-zCDP (zero-concentrated differential privacy)'
        >>> vector.seal()
        >>> vector
        MultipleRelease(Gaussian, size=3, levels=(0.1, 1, 2), cap=2, sealed=True)

    Source: [ARNP Alg. 4, Alg. 5]; sealing is described in `sparsehist.dense.dense_state`.
    """

    __slots__ = ("_ancestors", "_cap", "_charge", "_lock", "_path", "_process", "_state", "_step")

    def __init__(
        self,
        family: DenseFamily,
        truth: ArrayLike,
        cap: Level | None = None,
        *,
        truth_step: float | None = None,
        step: float | None = None,
    ) -> None:
        if isinstance(family, type) or not isinstance(family, DenseFamily):
            kind = family.__name__ if isinstance(family, type) else type(family).__name__
            raise DeclarationError(f"family must be a noise family, such as noise.Gaussian(1.0), got {kind}")
        finest = None if cap is None else as_level(cap, "cap")
        chosen = None if step is None else as_power_of_two(step, "step")
        if chosen is not None and family.integer:
            raise DeclarationError("step can only be set for real noise; integer families publish whole numbers")
        vector = read_truth(truth, family, truth_step)
        if chosen is not None and chosen > vector.step:
            raise DeclarationError(f"step {shown(step)} is larger than the grid step of true values, {vector.step:g}")
        self._begin(DenseState(vector.family, vector.values, vector.step), finest, chosen, vector.charge)

    @classmethod
    def from_release(cls, release: DenseRelease) -> MultipleRelease:
        """Return a `MultipleRelease` that draws coarser levels from a published release, without the truth.

        The result does not contain the truth, and its cap is the level of the release. For real-valued noise, coarser
        levels have up to 0.04 % more variance, because published values are rounded.

        Raises:
            InputError: If the release was post-processed: its values are no longer truth plus noise.
        """
        about = release.metadata
        if about["post_processing"]:
            raise InputError("a post-processed release cannot be coarsened; use the release before post-processing")
        state = bought_state(release.values, release.family, release.level, truth_step=float(about["truth_step"]))
        grid = float(about["grid"])
        step = None if grid == step_of(state, release.level) else grid
        made = cls.__new__(cls)
        made._begin(state, release.level, step, float(about["rounding_charge"]), about["lineage"])  # noqa: SLF001
        return made

    @classmethod
    def from_bytes(cls, content: bytes) -> MultipleRelease:
        """Restore an object from the result of `to_bytes`. Afterwards, the original must not draw new levels.

        Raises:
            InputError: If `to_bytes` did not write these bytes; StoreDamagedError if they were altered.
        """
        about, (anchor, *offsets) = unpack(_KIND, content)
        by_level = dict(zip(map(Fraction, about["levels"]), offsets, strict=True))
        state = DenseState(_family(about["family"]), anchor, about["truth_step"], by_level, about["sealed"])
        cap = None if about["cap"] is None else Fraction(about["cap"])
        ancestors = tuple((path, level) for path, level in about["ancestors"])
        made = cls.__new__(cls)
        made._begin(state, cap, about["step"], about["charge"], ancestors, about["path"])  # noqa: SLF001
        return made

    def _begin(
        self,
        state: DenseState,
        cap: Fraction | None,
        step: float | None,
        charge: float,
        ancestors: tuple[tuple[str, str], ...] = (),
        path: str | None = None,
    ) -> None:
        """Set all fields. For a resale, `ancestors` lists the chain of resold releases: (noise path, level)."""
        self._state, self._cap, self._step, self._charge = state, cap, step, charge
        self._ancestors, self._path = ancestors, generator().bytes(16).hex() if path is None else path
        self._lock, self._process = threading.Lock(), os.getpid()

    def to_bytes(self) -> bytes:
        """Return the state as bytes. They reveal the truth or, after `seal`, only a release at the cap.

        Save the bytes after each `release`, before publishing. Otherwise, an object restored from older bytes would
        draw independent noise for a level that was already published, and both releases together would cost more.
        """
        with self._lock:
            self._require_whole()
            state = self._state
            about = {
                "family": _described(state.family),
                "truth_step": state.truth_step,
                "sealed": state.sealed,
                "levels": [str(level) for level in state.offsets],
                "cap": None if self._cap is None else str(self._cap),
                "step": self._step,
                "charge": self._charge,
                "ancestors": self._ancestors,
                "path": self._path,
            }
            return pack(_KIND, about, [state.anchor, *state.offsets.values()])

    def release(self, level: Level) -> VectorRelease:
        """Release the vector at a level. Levels may be released in any order; a repeated level gives the same values.

        Raises:
            LevelError: If `level` is not a valid level.
            CapExceededError: If `level` is finer than the cap; nothing is drawn.
            DeclarationError: If the family has no privacy guarantee.
            StoreError: If the level is new and this process was forked from the process that made the object.
        """
        target = as_level(level)
        with self._lock:
            self._require_whole()
            state = self._state
            if self._cap is not None and target > self._cap:
                raise CapExceededError(
                    f"requested level {level_text(target)}, cap {level_text(self._cap)}, difference "
                    f"{level_text(target - self._cap)}; nothing was released"
                )
            state.family.statement(target)  # `statement` raises an error for a family without a guarantee
            grid = step_of(state, target, self._step)
            if target not in state.offsets:
                self._require_own_process()
                state.offsets[target] = draw_level(state, target, rng=generator())
            about = {
                "level": level_text(target),
                "noise": type(state.family).__name__,
                "sensitivity": getattr(state.family, "sensitivity", None),
                "std": state.family.std(target),
                "grid": grid,
                "truth_step": state.truth_step,
                "rounding_charge": self._charge,
                "guarantee": state.family.statement(target),
                "cap": None if self._cap is None else level_text(self._cap),
                "size": state.size,
                "post_processing": (),
                "lossless": LOSSLESS,
                "lineage": (*self._ancestors, (self._path, str(target))),
            }
            return VectorRelease(published(state, target, grid), state.family, target, about)

    def seal(self) -> None:
        """Erase the true values. Levels up to the cap can still be released; their distributions do not change.

        Keep only the release at the cap, drawn now if necessary, and noise that is independent of the truth.
        Without a cap, the finest released level becomes the cap. The array that the caller passed is not erased.

        Raises:
            LevelOrderError: If there is neither a cap nor a release, if the standard deviation at a level is more
                than 2**20 times that at the cap, or if the grid at the cap is finer than 2**-24 of the latter.
        """
        with self._lock:
            self._require_whole()
            if self._state.sealed:
                return
            cap = self._cap if self._cap is not None else max(self._state.offsets, default=None)
            if cap is None:
                raise LevelOrderError("nothing was released, so there is no level to seal at: give a cap first")
            std, real = self._state.family.std(cap), not self._state.family.integer
            if real and step_of(self._state, cap, self._step) <= kept_step(std):
                raise LevelOrderError("cannot seal: published values need a coarser grid; raise truth_step or step")
            if cap not in self._state.offsets:
                self._require_own_process()
            seal(self._state, cap, rng=generator())
            self._cap = cap

    @property
    def family(self) -> DenseFamily:
        """The noise family. Its sensitivity includes the charge for rounding real values."""
        return self._state.family

    @property
    def cap(self) -> Fraction | None:
        """The finest level that may be released, or None if there is no cap."""
        return self._cap

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """The levels drawn so far, from coarse to fine."""
        return tuple(sorted(self._state.offsets))

    @property
    def sealed(self) -> bool:
        """Whether the truth was erased."""
        return self._state.sealed

    def __len__(self) -> int:
        return self._state.size

    def __repr__(self) -> str:
        levels = ", ".join(level_text(level) for level in self.levels)
        cap = "None" if self._cap is None else level_text(self._cap)
        name = type(self.family).__name__
        return f"MultipleRelease({name}, size={len(self)}, levels=({levels}), cap={cap}, sealed={self.sealed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return MultipleRelease.from_bytes, (self.to_bytes(),)

    def _require_whole(self) -> None:
        if self._state.size == 0:
            raise StoreDamagedError("sealing was interrupted and erased the state; start again from the true vector")

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError("this process was forked: draw new levels only in the process that made the object")


def _described(family: DenseFamily) -> list[Any]:
    """Return a family as a list: the class name, then the name, type and exact text of each parameter."""
    values = ((field.name, getattr(family, field.name)) for field in fields(family))  # type: ignore[arg-type]
    plain = ((name, value.item() if isinstance(value, np.generic) else value) for name, value in values)
    return [type(family).__name__, *([name, type(value).__name__, str(value)] for name, value in plain)]


def _family(described: Sequence[Any]) -> DenseFamily:
    """Return the family that `_described` wrote as a list. Only families of `sparsehist.noise` are allowed."""
    name, *parameters = described
    made = getattr(noise, name, None)
    if not isinstance(made, type):
        raise InputError(f"unknown noise family; perhaps another version of sparsehist wrote these bytes: {name!r}")
    family: DenseFamily = made(**{name: _READERS[kind](text) for name, kind, text in parameters})
    return family
