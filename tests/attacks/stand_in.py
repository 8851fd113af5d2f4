"""In-memory stand-ins for a store and its files, which let tests draw thousands of releases quickly.

`sparsehist.release.pipeline` uses these classes like a store on disk, because their methods return the same data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.domain import Integers
from sparsehist.release.cell_parameters import requested
from sparsehist.release.cell_round import open_path
from sparsehist.release.metadata import level_fields
from sparsehist.release.pipeline import LockedSeries, release
from sparsehist.store import PathRecord, ReleaseRecord, Tracked


class FilesInMemory:
    """Stand-in for the files of a series. Cells with units are sorted by count; ties are in random order."""

    def __init__(self, counts: np.ndarray, rng: np.random.Generator) -> None:
        cells = rng.permutation(np.flatnonzero(counts))
        self.cells = cells[np.argsort(counts[cells], kind="stable")]
        count, start, size = np.unique(counts[self.cells], return_index=True, return_counts=True)
        self.groups = (count, start, size)
        self.n_nonzero = self.cells.size

    def keys(self, positions: np.ndarray) -> pl.DataFrame:
        return pl.DataFrame({"key_0": self.cells[positions]})

    def positions(self, keys: pl.DataFrame) -> np.ndarray:
        place = {cell: at for at, cell in enumerate(self.cells.tolist())}
        return np.array([place.get(key, -1) for key in keys["key_0"].to_list()], dtype=np.int64)

    def all_keys(self) -> pl.DataFrame:
        return pl.DataFrame({"key_0": self.cells})


class StateInMemory:
    """Stand-in for the state of a store. It keeps releases, tracked cells and their noise in memory."""

    store_id = "00"

    def __init__(self, files: FilesInMemory) -> None:
        self.files = files
        self.generation = 1
        self.made: list[ReleaseRecord] = []
        self.by_level: dict[Fraction, np.ndarray] = {}
        self.cells = Tracked(np.empty(0, np.int64), np.empty(0, np.int64))
        self.empties = pl.DataFrame(schema={"key_0": pl.Int64})

    def series_files(self, _record: object) -> FilesInMemory:
        return self.files

    def release_named(self, _record: object, name: str) -> ReleaseRecord | None:
        return next((made for made in self.made if made.name == name), None)

    def past(self, _path: int) -> list[tuple[Fraction, float]]:
        lowest: dict[Fraction, float] = {}
        for made in self.made:
            lowest[made.level] = min(made.threshold, lowest.get(made.level, math.inf))
        return list(lowest.items())

    def events(self, *, limits: bool = False) -> list[dict[str, object]]:
        return []

    def tracked(self, _path: int) -> Tracked:
        return self.cells

    def noise(self, _path: int, level: Fraction, _size: int) -> np.ndarray:
        return self.by_level[level]

    def empty_keys(self, _path: int) -> pl.DataFrame:
        return self.empties

    def commit_round(self, record) -> None:
        if record.level_noise is not None:
            self.by_level[record.level] = record.level_noise
        self.by_level = {at: np.append(noise, record.paths[at]) for at, noise in self.by_level.items()}
        position = np.append(self.cells.position, record.positions)
        self.cells = Tracked(position, np.append(self.cells.count, record.counts))
        self.empties = pl.concat([self.empties, record.empty_keys])
        self.generation += 1
        request, metadata = dict(record.request), dict(record.metadata)
        made = (0, record.name, record.level, record.threshold, request, metadata, self.generation)
        self.made.append(ReleaseRecord(*made))


class _Record:
    series_id, population, name, path_id = "00", "default", "cells", 0
    accepted = False
    files = ()
    paths = (PathRecord(0, "cells", None, None, "gaussian", False),)


class Drawn:
    """An in-memory series over a small domain, from which any number of releases can be made."""

    def __init__(self, counts: np.ndarray, max_keys: int, *, rng: np.random.Generator) -> None:
        self.size, self.rng = counts.size, rng
        self.state = StateInMemory(FilesInMemory(counts, rng))
        domain = Integers(counts.size)
        self.declaration = Declaration(name="cells", key="cell", max_keys=max_keys, domain=domain)

    def release(self, name: str, level: object = None, threshold: float | None = None) -> pl.DataFrame:
        request = requested(name, level_fields(level), threshold=threshold, false_keys=None)
        home = SimpleNamespace(in_memory=True, generator=lambda: self.rng)
        return release(LockedSeries(home, self.state, _Record, self.declaration), request, open_path).frame

    def row(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the noisy counts of a release by cell, with NaN for unpublished cells."""
        values = np.full(self.size, np.nan)
        values[frame["cell"].to_numpy()] = frame["noisy_count"].to_numpy()
        return values
