"""Read and write the rounds of a noise path: for each release, its newly tracked cells and its new noise.

Each round has a file with the noise of its q newly tracked cells at every level released so far; levels are in the
order of their first release. If the round is the first at its level, the file also contains the noise of the t
earlier tracked cells at this level, which is in no file of an earlier round.

A file is an archive of numpy arrays: `seal` (digest of the round's row in the state), `positions` and `counts` of new
cells, `level_noise` (t), `noise` (levels × q), and `keys` of empty cells as an Arrow stream. The state contains the
digest of the file.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsehist.errors import NotFoundError, StoreInUseError, promise
from sparsehist.store.private_files import altered, verified, write_file
from sparsehist.store.records import NewRound, NoiseArray, RegisteredFile, Spot, Tracked
from sparsehist.typing import AnyArray, secret

if TYPE_CHECKING:
    import polars as pl

_TRACKING = ("cells", "measure")
"""Kinds of paths whose rounds track cells."""


@secret
@dataclass(frozen=True)
class Round:
    """A committed round: its file, and the sizes of the arrays in the file.

    `n_past` (t) is the number of cells that were tracked before the round. `n_new` (q) is the number of cells that
    became tracked in the round, and `n_empty` is the number of empty cells among these. `n_levels` is the number of
    levels released on the path, including this round. `spends` is true if the round is the first at its level.
    """

    file: RegisteredFile
    seal: bytes
    spends: bool
    n_levels: int
    n_past: int
    n_new: int
    n_empty: int

    @property
    def new(self) -> slice:
        return slice(self.n_past, self.n_past + self.n_new)


def sealed(*row: object) -> bytes:
    """Return the SHA-256 of a round's row in the state. The file of the round contains this digest."""
    return hashlib.sha256(json.dumps(row).encode()).digest()


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path, in order. The file of a round is read when its arrays are first needed.

    `levels` are in the order of their first release; for running counts they are pairs (step, level).
    """

    directory: Path
    kind: str
    integer_noise: bool
    rounds: Sequence[Round] = ()
    levels: Sequence[Spot] = ()
    _opened: dict[int, Mapping[str, AnyArray]] = field(default_factory=dict)

    @property
    def n_tracked(self) -> int:
        """Number of cells tracked so far; for a workload, the length m of its noise vector."""
        return self.rounds[-1].new.stop if self.rounds else 0

    def arrays(self, number: int) -> Mapping[str, AnyArray]:
        """Return the arrays of a round. The first call reads them and compares them with the digests in the state."""
        if number not in self._opened:
            stored = self.rounds[number]
            n_past = self.rounds[number - 1].new.stop if number else stored.n_past
            arrays = dict(np.load(io.BytesIO(verified(self.directory, stored.file)), allow_pickle=False))
            sizes = n_past, len(arrays["level_noise"]), len(arrays["positions"])
            fits = sizes == (stored.n_past, n_past * stored.spends, stored.n_new)
            if arrays["seal"].tobytes() != stored.seal or not fits:
                raise altered(self.directory / stored.file.name)
            self._opened[number] = arrays
        return self._opened[number]

    def tracked(self) -> Tracked:
        promise(self.kind in _TRACKING, "only paths of cells and of measures track cells")
        position, count = np.empty((2, self.n_tracked), np.int64)
        for stored, arrays in self._with_new_cells():
            position[stored.new], count[stored.new] = arrays["positions"], arrays["counts"]
        return Tracked(position, count)

    def empty_keys(self) -> pl.DataFrame:
        """Return the keys of the tracked empty cells, in the order in which they became tracked.

        There must be at least one tracked empty cell.
        """
        import polars as pl

        keys = [arrays["keys"].tobytes() for stored, arrays in self._with_new_cells() if stored.n_empty]
        return pl.concat(map(pl.read_ipc_stream, keys))

    def noise(self, level: Spot, n_tracked: int) -> NoiseArray:
        if n_tracked != self.n_tracked:
            raise StoreInUseError("the tracked cells changed while this release was prepared; repeat the release")
        if level not in self.levels:
            raise NotFoundError("this noise path has no release at that level")
        ordinal, noise = self.levels.index(level), np.empty(n_tracked, self._dtype)
        for stored, arrays in self._with_new_cells():
            if stored.n_levels > ordinal:
                noise[stored.new] = arrays["noise"][ordinal]
        for number, stored in enumerate(self.rounds):
            if stored.spends and stored.n_levels == ordinal + 1:
                noise[: stored.n_past] = self.arrays(number)["level_noise"]
                return noise
        raise altered(self.directory)

    def write_round(self, name: str, record: NewRound, row: Sequence[object], *, durable: bool) -> PathHistory:
        """Write the file of the next round. Return the history that includes this round.

        Raise a LawError if the sizes of the round's arrays are inconsistent.
        """
        spends = record.spot not in self.levels
        levels = [*self.levels, *([record.spot] if spends else [])]
        past = np.array([] if record.level_noise is None else record.level_noise, self._dtype)
        n_new, n_empty = len(record.positions), int((record.positions == -1).sum())
        of_cells = self.kind in _TRACKING
        n_past = self.n_tracked if of_cells or self.rounds else len(past)
        promise(set(record.paths) == (set(levels) if of_cells else set()), "each new cell needs noise at every level")
        noise = np.array([record.paths[level] for level in levels if of_cells], self._dtype)
        fits = noise.size == len(noise) * n_new and len(record.counts) == n_new and (of_cells or not n_new)
        promise(fits, "noise or counts do not match the new cells")
        fits = spends == (record.level_noise is not None) and len(past) == n_past * spends
        promise(fits, "only a new level has noise of the cells tracked before")
        keys = record.empty_keys
        promise((0 if keys is None else keys.height) == n_empty, "each empty cell needs a key")
        seal, content, stream = sealed(*row, int(spends)), io.BytesIO(), io.BytesIO()
        if keys is not None:
            keys.write_ipc_stream(stream)
        arrays: dict[str, Any] = {
            "seal": np.frombuffer(seal, np.uint8),
            "positions": record.positions,
            "counts": record.counts,
            "level_noise": past,
            "noise": noise,
            "keys": np.frombuffer(stream.getvalue(), np.uint8),
        }
        np.savez(content, **arrays)
        file = write_file(self.directory / name, content.getbuffer(), durable=durable)
        stored = Round(file, seal, spends, len(levels), n_past, n_new, n_empty)
        opened = {**self._opened, len(self.rounds): arrays}
        return replace(self, rounds=[*self.rounds, stored], levels=levels, _opened=opened)

    @property
    def _dtype(self) -> type[Any]:
        return np.int64 if self.integer_noise else np.float64

    def _with_new_cells(self) -> Iterator[tuple[Round, Mapping[str, AnyArray]]]:
        numbers = enumerate(self.rounds if self.kind in _TRACKING else ())
        checked = [(stored, self.arrays(number)) for number, stored in numbers]  # checks every round
        return ((stored, arrays) for stored, arrays in checked if stored.n_new)
