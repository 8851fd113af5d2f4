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
"""A level; for running counts, (step, level)."""


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
    """A noise path of a series, with the files attached to it. `workload` names a workload, measure or query session.

    Only the path of the cells is created with the series. Other paths have `path_id` -1 before their first release.
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
    """A series. `directory` and `paths` are empty until the series is committed. The first path is that of the cells.

    `series_id` is a random string in hex; it is also the name of the directory. `salt` is secret, and so is
    `made_from`, which has keyed digests of the query and the log.
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
    """A committed release. `request` holds the caller's parameters; `metadata` is published with the rows.

    Everything except `request` is public. `generation` is the generation of the store after the commit. `threshold`
    is the effective threshold, minus infinity for a workload.
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

    `position` has their positions in the counts file (-1 for an empty cell), `count` their true counts; shape (t,).
    """

    position: IntArray
    count: IntArray


@dataclass(frozen=True, repr=False)
class NewRound:
    """A round that is ready to be committed: one release with the noise drawn for it.

    A workload has no tracked cells; its noise at each level is a vector of length m.

    Attributes:
        path_id: The noise path of the round, or the path that the round creates.
        level_noise: Noise at this level: of the cells tracked before, shape (t,), or of the workload, shape (m,).
            None if the path has an earlier release at this level.
        threshold: Effective threshold; minus infinity if everything is published.
        positions: Positions of newly tracked cells in the counts file, -1 for an empty cell; shape (q,).
        counts: True counts, or true sums in steps, of newly tracked cells; shape (q,).
        empty_keys: Keys of newly tracked empty cells, in order; columns key_0, …. None if there are none.
        paths: Noise of newly tracked cells by level, shape (q,) each, for every level of the path and this round's.
        attachments: Files of the path, written by `State.write_attachment`.
        step: For a running count, its step from 0; then `paths` is by step and level.
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
    """A step of a running series; the first step is 0. `digest` is a keyed, secret digest of the (unit, key) pairs.

    `digest` is None after `finish`. `unit_kind` is the data type of units in comparisons; `source` describes the log.
    """

    step: int
    digest: bytes | None = field(repr=False)
    unit_kind: str = field(repr=False)
    source: str = field(repr=False)
