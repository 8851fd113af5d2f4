"""Records that go into the state and come out of it. The repr of those with secrets shows no secret."""

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
"""The levels spent on a noise path, in the order of their first release, with the lowest threshold of each."""
NoiseArray: TypeAlias = "FloatArray | IntArray"
Spot = Fraction | tuple[int, Fraction]
"""A level; of running counts, a step and a level."""


@secret
@dataclass(frozen=True)
class RegisteredFile:
    """A file in the directory of a series: its size in bytes and its SHA-256 in hex.

    Sizes are secret: they depend on the numbers of keys and units.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True)
class PathRecord:
    """A noise path of a series with its attachments; a session of queries has its name as workload.

    The path of the cells is opened with the series, any other with its first round: until then it has no `path_id`.
    """

    series_id: str
    kind: str
    workload: str | None = None
    strategy: str | None = None
    integer_noise: bool = False
    path_id: int = -1
    files: tuple[RegisteredFile, ...] = ()


@dataclass(frozen=True, repr=False)
class SeriesRecord:
    """A series; the first of its paths is that of the cells. It has a directory and paths once it is registered.

    `series_id` is random, in hex, and names its directory. The salt and `made_from`, keyed digests of its log, are
    secret.
    """

    series_id: str
    name: str
    declaration: Mapping[str, Any]
    salt: bytes
    files: Sequence[RegisteredFile]
    made_from: str = "{}"
    directory: Path = Path()
    paths: tuple[PathRecord, ...] = ()

    @property
    def path_id(self) -> int:
        """The noise path of the cells."""
        return self.paths[0].path_id

    @property
    def population(self) -> str:
        """As declared."""
        return str(self.declaration["population"])

    def __repr__(self) -> str:
        return f"SeriesRecord(name={self.name!r}, series_id={self.series_id!r})"


@dataclass(frozen=True)
class ReleaseRecord:
    """A committed release: `request` are the caller's parameters, `metadata` is published beside the rows.

    All except the request is public. The generation is that of the store with it. The threshold is the effective
    one, minus infinity for a workload.
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
    """The cells whose noise was drawn, published or not, by cell number. Secret.

    `position` in the counts file, -1 for an empty cell, and true `count`; both of shape (t,).
    """

    position: IntArray
    count: IntArray


def _no_keys() -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame()


@dataclass(frozen=True, repr=False)
class NewRound:
    """A round to commit.

    A workload path has one entry for each of the m numbers of its state from its first round on, and tracks no cells.

    Attributes:
        path_id: The noise path it belongs to, or the one to open with it.
        level_noise: Noise at this level of the cells tracked so far, shape (t,), or of the workload, shape (m,);
            None when the level was spent before.
        threshold: The effective one; minus infinity where everything is published.
        positions: Of the newly tracked cells in the counts file, -1 for an empty one; shape (q,).
        counts: True counts of the newly tracked cells, or their true sums in steps; shape (q,).
        empty_keys: Columns key_0 …; a row for each position of -1, in order.
        paths: Noise of the newly tracked cells, shape (q,), at every level of the path, this one included.
        attachments: Files of the path, written by `State.write_attachment`.
        step: Of a running count, from 0; then paths are by step and level.
        beside: Rounds of other paths that belong to this one: all are committed, or none is.
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
    empty_keys: pl.DataFrame = field(default_factory=_no_keys)
    paths: Mapping[Spot, NoiseArray] = field(default_factory=dict)
    attachments: Sequence[RegisteredFile] = ()
    who: str | None = None
    step: int | None = None
    beside: Sequence[NewRound] = ()

    @property
    def spot(self) -> Spot:
        """The level, or step and level, of its noise."""
        return self.level if self.step is None else (self.step, self.level)


@dataclass(frozen=True)
class StepRecord:
    """A step of a running series, from 0. The keyed digest of its pairs is None once they are erased. Secret.

    Units are compared as `unit_kind`; the `source` is that of its log, as in a declaration.
    """

    step: int
    digest: bytes | None = field(repr=False)
    unit_kind: str = field(repr=False)
    source: str = field(repr=False)
