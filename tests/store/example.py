"""Provide a small store with one series, rounds with made-up noise, and a model of what the store should contain."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.entropy import seeded
from sparsehist.store import NewRound, SeriesRecord, State, create_store, open_state
from sparsehist.store.series_files import write_series_files

SALT = b"salt of the example" * 2
N_KEYS = 400


def counted(n: int = N_KEYS) -> pl.DataFrame:
    """Return counts of 1 to 7 for keys that begin with a marker that tests search for in files."""
    number = np.arange(n)
    return pl.DataFrame({"key_0": [f"planted-key-{i:06d}" for i in number], "count": 1 + number % 7})


def add_series(state: State, name: str = "queries", *, integer_noise: bool = False) -> int:
    """Create a series in a store, and return the id of the noise path of its cells."""
    series_id = f"{state.generation:02d}" + seeded(len(name)).bytes(4).hex()
    directory = state.spill / series_id
    directory.mkdir(mode=0o700)
    keys = counted()
    files = write_series_files(
        directory, keys["count"], keys.__getitem__, salt=SALT, durable=state.durable, rng=seeded(1)
    )
    declared = Declaration(name=name, key="query", max_keys=20, domain="strings(max_bytes=20)", cap=2)
    record = SeriesRecord(series_id, name, declared.as_json(), SALT, files)
    return state.commit_series(record, directory, integer_noise=integer_noise)


def make_store(path: Path, *, durable: bool = True) -> Path:
    """Create a store that contains one series."""
    create_store(path, durable=durable)
    with open_state(path, durable=durable) as state:
        add_series(state)
    return path


@dataclass
class Model:
    """The expected contents of a noise path: tracked cells, their noise by level, and names of releases."""

    path_id: int
    integer_noise: bool = False
    position: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    empty: list[tuple[int, str]] = field(default_factory=list)
    noise: dict[Fraction, list[float]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def make_round(self, level: Fraction | str, n_new: int, n_empty: int = 0, *, seed: int = 0) -> NewRound:
        """Return a new round with `n_new` cells, of which `n_empty` are empty, and add the round to the model."""
        level = Fraction(level)
        rng = seeded(1000 * len(self.names) + seed)
        dtype = np.int64 if self.integer_noise else np.float64

        def draw(size: int) -> np.ndarray:
            return (100 * rng.normal(size=size)).astype(dtype)

        n_past = len(self.position)
        level_noise = None if level in self.noise else draw(n_past)
        positions = rng.integers(0, N_KEYS, n_new)
        positions[rng.permutation(n_new)[:n_empty]] = -1
        counts = np.where(positions < 0, 0, 5)
        if level_noise is not None:
            self.noise[level] = level_noise.tolist()
        paths = {known: draw(n_new) for known in self.noise}
        for known, values in paths.items():
            self.noise[known] += values.tolist()
        cells = (n_past + np.flatnonzero(positions < 0)).tolist()
        keys = [f"empty-key-{cell}" for cell in cells]
        self.empty += zip(cells, keys, strict=True)
        self.position += positions.tolist()
        self.count += counts.tolist()
        self.names.append(f"release_{len(self.names)}")
        return NewRound(
            path_id=self.path_id,
            name=self.names[-1],
            level=level,
            request={"level": str(level), "threshold": 3.0},
            threshold=3.0,
            metadata={"std": 1.5},
            level_noise=level_noise,
            positions=positions,
            counts=counts,
            empty_keys=pl.DataFrame({"key_0": keys}, schema={"key_0": pl.String}),
            paths=paths,
        )

    def check(self, state: State) -> None:
        """Check that the state of a store equals this model."""
        tracked = state.tracked(self.path_id)
        assert tracked.position.tolist() == self.position
        assert tracked.count.tolist() == self.count
        if self.empty:
            keys = state.empty_keys(self.path_id)
            assert keys.schema == {"key_0": pl.String}
            assert [*zip(np.flatnonzero(tracked.position < 0), keys["key_0"], strict=True)] == self.empty
        assert list(state._history(self.path_id).levels) == list(self.noise)
        for level, values in self.noise.items():
            noise = state.noise(self.path_id, level, len(self.position))
            assert noise.dtype == (np.int64 if self.integer_noise else np.float64)
            assert noise.tolist() == values
        releases = [one for record in state.all_series() for one in state.releases(record, path_id=self.path_id)]
        assert [release.name for release in releases] == self.names
