"""Records that are stored in the state file. The repr of these records shows no secrets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sparsehist.typing import FloatArray, IntArray, secret

if TYPE_CHECKING:
    import polars as pl

Past = Sequence[tuple[Fraction, float]]
"""The levels released on a noise path, in the order of their first release, with the lowest threshold of each."""
NoiseArray: TypeAlias = "FloatArray | IntArray"
Spot = Fraction | tuple[int, Fraction]
"""A level; for running counts, a release point: the pair (step, level)."""


@secret
@dataclass(frozen=True)
class RegisteredFile:
    """A file that the state lists: its name in the directory of the series, its size in bytes, its SHA-256 in hex.

    Sizes are secret, because they depend on the numbers of keys and units.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True)
class PathRecord:
    """A noise path of a series, with the files that belong to this path.

    `kind` is "cells", "workload", "measure" or "interactive". `workload` is the name of the workload or measure, or
    of the session of interactive queries. The path of the cells is given an id when the series is created, and every
    other path at its first release. Until then, `path_id` is -1.
    """

    series_id: str
    kind: str
    workload: str | None = None
    strategy: str | None = None
    integer_noise: bool = False
    path_id: int = -1
    files: tuple[RegisteredFile, ...] = ()

    @property
    def name(self) -> tuple[str, str | None, str | None]:
        """Name of the path in the ledger: kind, workload and strategy."""
        return self.kind, self.workload, self.strategy


@dataclass(frozen=True)
class SeriesRecord:
    """The record of a series. Before the series is committed, `directory` and `paths` are empty.

    `series_id` is a random string in hex, which is also the name of the directory. The first of the `paths` is the
    path of the cells. `salt` is secret, and so is `made_from`, which contains keyed digests of the query and the log.
    """

    series_id: str
    name: str
    declaration: Mapping[str, Any] = field(repr=False)
    salt: bytes = field(repr=False)
    files: Sequence[RegisteredFile]
    made_from: str = field(default="{}", repr=False)
    directory: Path = Path()
    paths: tuple[PathRecord, ...] = ()

    @property
    def path_id(self) -> int:
        return self.paths[0].path_id

    @property
    def population(self) -> str:
        return str(self.declaration["population"])


@dataclass(frozen=True)
class ReleaseRecord:
    """A committed release. `request` contains the caller's parameters; `metadata` is published with the rows.

    Everything except `request` is public. `generation` is the generation of the store after the commit. `threshold`
    is in parts of a count and applies to unrounded noisy counts; it is minus infinity for a workload.
    """

    path_id: int
    name: str
    level: Fraction
    threshold: float
    request: dict[str, Any] = field(repr=False)
    metadata: dict[str, Any] = field(repr=False)
    generation: int


@dataclass(frozen=True, repr=False)
class Tracked:
    """The secret list of the tracked cells of a noise path, in the order in which they became tracked.

    `position` contains the position of each cell in the file `counts`, or -1 for an empty cell. `count` contains the
    true counts. Both have the shape (t,), where t is the number of tracked cells.
    """

    position: IntArray
    count: IntArray


@dataclass(frozen=True, repr=False)
class NewRound:
    """A round that is ready to be committed: one release with the noise drawn for it.

    A workload has no tracked cells: its noise at a level is one vector. Below, m is the length of this vector.

    Attributes:
        path_id: The noise path of the round, or the path that the round creates.
        level_noise: Noise at this level: of the cells tracked before, shape (t,), or of the workload, shape (m,).
            None if the path has an earlier release at this level.
        threshold: Effective threshold, in parts of a count; minus infinity if everything is published.
        positions: Positions of newly tracked cells in the counts file, -1 for an empty cell; shape (q,).
        counts: True counts, or true sums in steps, of newly tracked cells; shape (q,).
        empty_keys: Keys of newly tracked empty cells, in order; columns key_0, …. None if there are none.
        paths: Dict from level to the noise of the newly tracked cells, shape (q,). It has all levels released on the
            path, including the level of this round.
        attachments: Files of the path, written by `State.write_attachment`.
        step: Step of a running count; the first step is 0. The keys of `paths` are then pairs (step, level).
        beside: Rounds of other paths that are committed together with this one.
    """

    path_id: int | PathRecord
    name: str
    level: Fraction
    request: Mapping[str, Any]
    metadata: Mapping[str, Any]
    level_noise: NoiseArray | None
    threshold: float = -math.inf
    positions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    empty_keys: pl.DataFrame | None = None
    paths: Mapping[Spot, NoiseArray] = field(default_factory=dict)
    attachments: Sequence[RegisteredFile] = ()
    step: int | None = None
    beside: Sequence[NewRound] = ()

    @property
    def spot(self) -> Spot:
        """Level of the round's noise; for running counts, the pair (step, level)."""
        return self.level if self.step is None else (self.step, self.level)


@dataclass(frozen=True)
class StepRecord:
    """A step that was appended to a running series; the first step is 0.

    `digest` is a keyed, secret digest of the (unit, key) pairs of the step; it is None once the series is finished.
    `unit_kind` is the data type in which units of different steps are compared; `source` describes the log.
    """

    step: int
    digest: bytes | None = field(repr=False)
    unit_kind: str = field(repr=False)
    source: str = field(repr=False)
