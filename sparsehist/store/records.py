"""What goes into the state and what comes out of it.

Records that hold secrets (salts, counts, noise, keys) have a repr that shows none of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from sparsehist.typing import FloatArray, IntArray, secret

Past = Sequence[tuple[Fraction, float]]
"""The levels spent on a noise path, in the order of their first release, with the lowest threshold of each."""
NoiseArray: TypeAlias = "FloatArray | IntArray"
Spot = Fraction | tuple[int, Fraction]
"""Where noise was drawn: at a level, or at a step and a level."""


@secret
@dataclass(frozen=True)
class RegisteredFile:
    """A file, in the directory of a series, that the state vouches for: its size in bytes and its SHA-256 in hex.

    Sizes are secret: they tell how many keys and units there are.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True, repr=False)
class NewSeries:
    """A series to register; its files are in place already. Its salt and the keyed digests of its log are secret.

    `series_id` is random, in hex, and names its directory; `place` is where a cluster wrote its counts, if one did.
    """

    series_id: str
    name: str
    declaration: Mapping[str, Any]
    salt: bytes
    files: list[RegisteredFile]
    made_from: str = "{}"
    integer_noise: bool = False
    who: str | None = None
    place: str | None = None


@dataclass(frozen=True)
class PathRecord:
    """A noise path of a series, with the files attached to it; a session of queries has its name as workload."""

    path_id: int
    kind: str
    workload: str | None
    strategy: str | None
    family: str
    integer_noise: bool
    files: tuple[RegisteredFile, ...] = ()


@dataclass(frozen=True)
class NewPath:
    """A noise path to open together with its first round; the cells of a series have theirs from the start."""

    kind: str
    series_id: str
    workload: str
    strategy: str
    family: str
    integer_noise: bool = False
    cap: str | None = None


@dataclass(frozen=True, repr=False)
class SeriesRecord:
    """A registered series; the cells come first among its paths. Its salt and the digests of its log are secret.

    `accepted` says whether a log that may have changed since was accepted.
    """

    series_id: str
    name: str
    population: str
    declaration: Mapping[str, Any]
    salt: bytes
    made_from: str
    accepted: bool
    directory: Path
    files: tuple[RegisteredFile, ...]
    paths: tuple[PathRecord, ...]

    @property
    def path_id(self) -> int:
        """The noise path of the cells."""
        return self.paths[0].path_id

    def __repr__(self) -> str:
        return f"SeriesRecord(name={self.name!r}, series_id={self.series_id!r})"


class ReleaseRecord(NamedTuple):
    """A release as it was committed: public parameters only, but for what `request` was given.

    The threshold is the effective one, minus infinity for a workload, of which all is published; the generation is
    that of the store with this release in it.
    """

    path_id: int
    name: str
    level: Fraction
    threshold: float
    request_text: str
    metadata_text: str
    generation: int

    @property
    def request(self) -> dict[str, Any]:
        """Read when it is asked for, as a round needs that of few releases."""
        return dict(json.loads(self.request_text))

    @property
    def metadata(self) -> dict[str, Any]:
        """What was published beside the rows; read when it is asked for."""
        return dict(json.loads(self.metadata_text))

    def __repr__(self) -> str:
        return f"ReleaseRecord(name={self.name!r}, level={self.level}, generation={self.generation})"


@dataclass(frozen=True, repr=False)
class Tracked:
    """The cells whose noise was drawn, published or not, by cell number. Secret: more than what was published.

    The position is that in the counts file, -1 for an empty cell; shape (t,), as that of the true counts.
    """

    position: IntArray
    count: IntArray


@dataclass(frozen=True, repr=False)
class NewRound:
    """A round to commit.

    On a workload path everything has one entry for each of the m numbers of its state, from the first round on:
    nothing is newly tracked, and what says what is stays empty.

    Attributes:
        path_id: The noise path it belongs to, or the one to open with it.
        level_noise: Noise at this level of the cells tracked so far, shape (t,), or of the workload, shape (m,);
            None when the level was spent before.
        threshold: The effective one; minus infinity where everything is published.
        positions: Of the newly tracked cells in the counts file, -1 for an empty one; shape (q,).
        counts: True counts of the newly tracked cells; shape (q,).
        empty_keys: Columns key_0 …; a row for each position of -1, in order.
        paths: Noise of the newly tracked cells, shape (q,), at every level of the path, this one included.
        attachments: Files of the path, written by `State.write_attachment` and vouched for from now on.
        step: Of a running count, from 0; then paths are by step and level.
    """

    path_id: int | NewPath
    name: str
    level: Fraction
    request: Mapping[str, Any]
    metadata: Mapping[str, Any]
    level_noise: NoiseArray | None
    threshold: float = -math.inf
    positions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    empty_keys: pl.DataFrame = field(default_factory=lambda: pl.DataFrame())  # noqa: PLW0108 - only then Polars is loaded
    paths: Mapping[Spot, NoiseArray] = field(default_factory=dict)
    attachments: Sequence[RegisteredFile] = ()
    who: str | None = None
    step: int | None = None

    @property
    def spot(self) -> Spot:
        """Where its noise belongs."""
        return self.level if self.step is None else (self.step, self.level)


@dataclass(frozen=True, repr=False)
class NewStep:
    """What is appended to a running series, as step `step` from 0. Its digest of the pairs that were given is secret.

    Units are compared as `unit_kind`. The files are there already; they are vouched for from now on, and take the
    place of those named in `replaced`.
    """

    step: int
    digest: bytes
    unit_kind: str
    source: str
    files: Sequence[RegisteredFile]
    who: str | None = None
    replaced: Sequence[str] = ()


class StepRecord(NamedTuple):
    """A step that was appended to a running series; the digest is None once the pairs are erased. Secret."""

    step: int
    digest: bytes | None
    unit_kind: str
    source: str

    def __repr__(self) -> str:
        return f"StepRecord(step={self.step})"
