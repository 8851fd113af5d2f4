"""Multiple release of a dense vector: the class that owns a state and draws for it, and the file it is saved as.

The file is a line of JSON, the arrays as they lie in memory, and a digest.

Papers: [ARNP Def. 3.4].
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from sparsehist import noise as families
from sparsehist.dense.dense_release import DenseRelease, dense_release
from sparsehist.dense.dense_state import DenseState, draw_and_publish, published, seal
from sparsehist.dense.rounding import as_power_of_two
from sparsehist.dense.tightening import bought_state, step_of
from sparsehist.dense.truth import read_truth
from sparsehist.entropy import generator
from sparsehist.errors import (
    CapExceededError,
    DeclarationError,
    InputError,
    LevelOrderError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
    raise_alone,
)
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.store.private_files import atomic_file, disk_errors
from sparsehist.typing import ArrayLike

_MAGIC = b"sparsehist dense 1\n"
_LONGEST_HEADER = 1 << 24
_PIECE = 1 << 22

Descent = tuple[Any, ...]
"""Public: (path, level) of each release that was bought, then the name of one's own path."""


class VectorRelease(DenseRelease):
    """A plain release: truth plus noise and nothing else, so that coarser ones can be made from it alone."""

    def resell(self, level: Level) -> VectorRelease:
        """Make a coarser release from this one, without the truth; each call begins a branch of its own.

        Two branches have noise of their own, so both together say more than either, though never more than this
        release; `sparsehist.dense.joint_level` says how much. For several levels that say together what the finest
        of them says, take them from one `MultipleRelease.from_release(release)`.

        Args:
            level: Coarser (smaller) than that of this release.

        Raises:
            LevelOrderError: If it is not.

        Example:
            >>> from sparsehist.noise import DiscreteLaplace
            >>> from sparsehist.series.multiple_release import MultipleRelease
            >>> bought = MultipleRelease(DiscreteLaplace(), [3, 1, 4]).release(1)
            >>> bought.resell("1/2").metadata["guarantee"].split(" ")[0]
            '0.5-DP'
        """
        if not as_level(level) < self.level:
            raise LevelOrderError(
                f"a release at level {level_text(self.level)} can only be resold at a coarser (smaller) level, "
                f"got {level!r}"
            )
        return MultipleRelease.from_release(self).release(level)


class MultipleRelease:
    """A dense vector, released at any levels in any order for the cost of the finest one.

    Each release has the law of a single release at its level; all of them together reveal what the finest
    reveals. The noise of a new level is drawn from the levels next to it; a level asked for again is the same
    release. Threads may share one object. A new level is refused in a forked process, as parent and child
    would draw different noise for it.

    Memory: 8 bytes per entry for the vector, for each level drawn, and for each release the caller keeps;
    everything else works on pieces of 65,536 entries.

    What is exact: for discrete Laplace everything is, and each number of Poisson or Skellam noise is within
    `draw_slack` of its law; values and sums are 64-bit integers. For real families the law is that of 53-bit draws,
    rounded before the truth is added, to a grid that divides the truth's.

    The same rule holds for every copy of an object (a saved file, a pickle): **only one of them may be used to
    draw new levels from then on.** Two copies that draw one level draw different noise for it, and together
    they cost more than the finest level.

    Args:
        family: The noise, such as `sparsehist.noise.Gaussian(sensitivity=1.0)`; its sensitivity is that of
            the whole vector.
        truth: Shape (n,); integers, or reals for a real family. Real values are rounded to a fine grid, and
            the sensitivity is enlarged by what that can add (at most 2**-14 of it; see `rounding_charge` in
            the metadata). Secret.
        cap: Finest level that may ever be released, or None.
        truth_step: A power of two of which all values are multiples, declared by the caller: then nothing is
            rounded or charged. Integers have 1.
        step: One grid of published noise for all levels, a power of two that divides the truth's; by default
            each level has its own, about a thousandth of its standard deviation. For real families only.
        copy: Whether to work on a copy. With False the vector is taken over without a second one where its
            dtype allows (float64 for real families, int64 for integer ones), and sealing overwrites it.

    Raises:
        DataError: If the truth is empty, not one-dimensional, not of finite numbers, or not whole for an
            integer family.
        DeclarationError: If the family, cap or a step are not what they should be.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> vector = MultipleRelease(Gaussian(sensitivity=1.0), [3, 0, 12], cap=2)
        >>> public, partner = vector.release("0.1"), vector.release(1)
        >>> public.metadata["guarantee"]
        '0.1-zCDP (zero-concentrated differential privacy)'
        >>> vector.seal()
        >>> vector
        MultipleRelease(Gaussian, size=3, levels=(0.1, 1, 2), cap=2, sealed=True)

    Source: [ARNP Alg. 4, Alg. 5]; for sealing see `sparsehist.dense.dense_state`.
    """

    __slots__ = ("_cap", "_charge", "_descent", "_lock", "_process", "_state", "_step")
    _state: DenseState
    _cap: Fraction | None
    _step: float | None
    _charge: float
    _descent: Descent

    def __init__(
        self,
        family: DenseFamily,
        truth: ArrayLike,
        cap: Level | None = None,
        *,
        truth_step: float | None = None,
        step: float | None = None,
        copy: bool = True,
    ) -> None:
        """Check the declarations and read the truth."""
        if isinstance(family, str | type):
            raise DeclarationError(
                f"family is noise with its sensitivity, such as noise.Gaussian(sensitivity=1.0), got {family!r}"
            )
        finest = None if cap is None else as_level(cap)
        chosen = None if step is None else as_power_of_two(step, "step")
        if chosen is not None and family.integer:
            raise DeclarationError("step is for real noise; integer families publish whole numbers")
        vector = read_truth(truth, family, truth_step, copy=copy)
        if chosen is not None and chosen > vector.step:
            raise DeclarationError(f"step must divide the grid of the truth, {vector.step:g}, got {step!r}")
        state = DenseState(vector.family, vector.values, vector.step)
        self.__setstate__((state, finest, chosen, vector.charge, (_new_path(),)))

    @classmethod
    def from_release(cls, release: DenseRelease) -> MultipleRelease:
        """Begin from a published release alone: whoever bought it can pass on coarser ones, losslessly.

        The new object is sealed at the level of the release. For real noise the rounding of the bought values
        adds less than 4e-4 of its variance to what is passed on.

        Raises:
            InputError: If the release was post-processed: its values are not truth plus noise any more.
        """
        if release.metadata["post_processing"]:
            raise InputError("a post-processed release cannot be coarsened; begin from the plain one")
        truth_step, grid = float(release.metadata["truth_step"]), float(release.metadata["grid"])
        state = bought_state(release.values, release.family, release.level, truth_step=truth_step)
        own = step_of(state, release.level)
        step, charge = None if grid == own else grid, float(release.metadata["rounding_charge"])
        return cls._of(state, release.level, step, charge, (*release.metadata["lineage"], _new_path()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], family: DenseFamily | None = None) -> MultipleRelease:
        """Go on from a saved file, whose object must not be used any more.

        Args:
            path: What `save` wrote.
            family: The noise; only needed if it is not one of `sparsehist.noise`.

        Raises:
            NotFoundError: If there is no such file.
            StoreDamagedError: If it was truncated or altered.
            InputError: If it is no such file, or the family is not the one it was saved with.
        """
        return cls._of(*_read_file(Path(path), family))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on, as one private file (mode 0600), whole or not at all.

        Unsealed, the file holds the truth; sealed, it holds nothing that is not as private as the cap. Save
        after the last release, and use either the object or the file from then on: a file older than a
        release would draw that level again.

        Raises:
            StoreError: If it cannot be written.
        """
        with self._lock:
            self._require_whole()
            state = self._state
            levels, dtype = list(state.offsets), np.dtype("<i8" if state.family.integer else "<f8")
            header = {
                "family": _describe(state.family),
                "size": state.size,
                "dtype": dtype.str,
                "truth_step": state.truth_step,
                "sealed": state.sealed,
                "levels": [str(level) for level in levels],
                "cap": None if self._cap is None else str(self._cap),
                "step": self._step,
                "charge": self._charge,
                "descent": self._descent,
            }
            with atomic_file(Path(path), durable=True) as file:
                file.write(_MAGIC + json.dumps(header).encode() + b"\n")
                for array in (state.anchor, *(state.offsets[level] for level in levels)):
                    for start in range(0, array.size, _PIECE):
                        file.write(array[start : start + _PIECE].astype(dtype, copy=False).data)
                file.write(bytes.fromhex(file.digest()))

    def release(self, level: Level) -> VectorRelease:
        """Release the vector at a level; the same release again if the level was released before.

        Args:
            level: Any order; not beyond the cap.

        Returns:
            Values and public metadata.

        Raises:
            LevelError: If it is no level.
            CapExceededError: If it is finer than the cap; nothing is drawn.
            DeclarationError: If the family has no guarantee to give.
            StoreError: If the level is new and this process was forked from the one that made the object.
        """
        target = as_level(level)
        with self._lock:
            self._require_whole()
            if self._cap is not None and target > self._cap:
                raise CapExceededError(
                    f"requested level {level_text(target)}, cap {level_text(self._cap)}, difference "
                    f"{level_text(target - self._cap)}; nothing was released"
                )
            self._state.family.statement(target)  # a family without a guarantee refuses before anything is drawn
            grid = step_of(self._state, target, self._step)
            if target in self._state.offsets:
                values = published(self._state, target, grid)
            else:
                self._require_own_process()
                drawn, values = draw_and_publish(self._state, target, grid, rng=generator())
                self._state.offsets[target] = drawn
            plain = dense_release(
                values,
                self._state.family,
                target,
                grid=grid,
                truth_step=self._state.truth_step,
                rounding_charge=self._charge,
                cap=self._cap,
                lineage=(*self._descent[:-1], (self._descent[-1], str(target))),
            )
            return VectorRelease(plain.values, plain.family, plain.level, plain.metadata)

    def seal(self) -> None:
        """Erase the truth, and go on serving every level up to the cap.

        What stays is the release at the cap (drawn now if it was not released) and noise that does not depend
        on the truth. Releases made before are served unchanged, later ones have the law they would have had.
        Without a cap the finest level released becomes the cap. The vector given with copy=False is
        overwritten; with copy=True the caller's own is the caller's to erase.

        Raises:
            LevelOrderError: If there is neither a cap nor a release, or a level lies more than 2**20 standard
                deviations at the cap away.
        """
        with self._lock:
            self._require_whole()
            if self._state.sealed:
                return
            cap = self._cap if self._cap is not None else max(self._state.offsets, default=None)
            if cap is None:
                raise LevelOrderError("nothing was released and no cap was given: there is no level to seal at")
            if cap not in self._state.offsets:
                self._require_own_process()
            seal(self._state, cap, rng=generator())
            self._cap = cap

    @property
    def family(self) -> DenseFamily:
        """The noise, its sensitivity enlarged if real values were rounded."""
        return self._state.family

    @property
    def cap(self) -> Fraction | None:
        """The finest level that may be released."""
        return self._cap

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """Levels drawn so far, coarse to fine."""
        return tuple(sorted(self._state.offsets))

    @property
    def sealed(self) -> bool:
        """Whether the truth is gone."""
        return self._state.sealed

    def __len__(self) -> int:
        """Number of entries."""
        return self._state.size

    def __repr__(self) -> str:
        """Public parameters only."""
        levels = ", ".join(level_text(level) for level in self.levels)
        cap = "None" if self._cap is None else level_text(self._cap)
        name = type(self.family).__name__
        return f"MultipleRelease({name}, size={len(self)}, levels=({levels}), cap={cap}, sealed={self.sealed})"

    def __getstate__(self) -> tuple[Any, ...]:
        """Pickle what `save` writes; the rule about copies holds."""
        with self._lock:
            return self._state, self._cap, self._step, self._charge, self._descent

    def __setstate__(self, given: tuple[Any, ...]) -> None:
        """Read a pickle back."""
        self._state, self._cap, self._step, self._charge, self._descent = given
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def _of(cls, *given: Any) -> MultipleRelease:
        made = cls.__new__(cls)
        made.__setstate__(given)
        return made

    def _require_whole(self) -> None:
        if self._state.size == 0:
            raise StoreDamagedError("sealing was interrupted, and everything was erased; begin again from the truth")

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                "this process was forked from the one that holds the vector, and both would draw different noise "
                "for a new level; draw all levels in one process"
            )


def _read_file(path: Path, family: DenseFamily | None) -> tuple[Any, ...]:
    """Read a state back and check its digest."""
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    with disk_errors(path), path.open("rb") as file:
        digest = hashlib.sha256()
        if file.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"{path} was not written by MultipleRelease.save, or by another version of it")
        line = file.readline(_LONGEST_HEADER)
        digest.update(_MAGIC + line)
        try:
            header = json.loads(line)
            levels = [Fraction(text) for text in header["levels"]]
            *left, own = header["descent"]
            descent = (*((name, level) for name, level in left), own)
            arrays = [_read_array(file, header["size"], header["dtype"], digest) for _ in range(len(levels) + 1)]
        except (ValueError, KeyError, TypeError, MemoryError, RecursionError):
            raise_alone(_damaged(path))
        if file.read() != digest.digest():
            raise _damaged(path)
    state = DenseState(
        _restore(path, header["family"], family),
        arrays[0],
        float(header["truth_step"]),
        dict(zip(levels, arrays[1:], strict=True)),
        bool(header["sealed"]),
    )
    cap = None if header["cap"] is None else Fraction(header["cap"])
    return state, cap, header["step"], float(header["charge"]), descent


def _read_array(file: BinaryIO, size: int, dtype: str, digest: Any) -> NoiseArray:
    array: NoiseArray = np.empty(size, np.dtype(dtype))
    view = memoryview(array.data).cast("B")
    for start in range(0, len(view), 8 * _PIECE):
        piece = view[start : start + 8 * _PIECE]
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise ValueError
        digest.update(piece)
    return array


def _damaged(path: Path) -> StoreDamagedError:
    return StoreDamagedError(f"{path} was truncated or altered; there is no other copy of what it held")


def _describe(family: DenseFamily) -> Mapping[str, Any]:
    if not is_dataclass(family):
        raise InputError(f"{type(family).__name__} is no dataclass, so its parameters cannot be saved")
    values = {field.name: getattr(family, field.name) for field in fields(family)}
    parameters = {name: _as_text(value) for name, value in values.items()}
    return {"name": f"{type(family).__module__}:{type(family).__qualname__}", "parameters": parameters}


def _as_text(value: object) -> list[str]:
    """Kind and exact text; numpy's scalars as Python's."""
    plain = value.item() if isinstance(value, np.generic) else value
    return [type(plain).__name__, str(plain)]


def _restore(path: Path, described: Mapping[str, Any], family: DenseFamily | None) -> DenseFamily:
    """The family itself: one given, or one of the package's own; nothing is imported because a file names it."""
    if family is not None:
        if _describe(family) != described:
            raise InputError(f"{path} was saved with {described['name']} and other parameters than the family given")
        return family
    own = {
        f"{made.__module__}:{made.__qualname__}": made for made in vars(families).values() if isinstance(made, type)
    }
    if described["name"] not in own:
        raise InputError(f"{path} was saved with {described['name']}; pass it as family=")
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "str": str,
        "Fraction": Fraction,
        "bool": "True".__eq__,
    }
    try:
        values = {name: readers[of](text) for name, (of, text) in described["parameters"].items()}
        return cast("DenseFamily", own[described["name"]](**values))
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError):
        raise InputError(f"{path} was saved with {described['name']}; pass it as family=") from None


def _new_path() -> str:
    """A random name for a noise path; public, and it says nothing."""
    return secrets.token_hex(16)
