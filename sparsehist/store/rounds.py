"""The rounds of a noise path, and their files: newly tracked cells and the noise that was drawn.

Levels are numbered in the order of first release. The file of a round holds the noise of its q new cells at each
level spent so far; if the round spends a new level, also the noise at that level of the t cells tracked before. So
all noise at a level is in the round that spent it and in later ones, in the order of cell numbers.

A file contains a digest of its row in the state, positions and counts of its new cells, this noise, and the keys of
empty cells as an Arrow stream. The state contains the digest of the file and the sizes of its arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsehist.errors import present, promise
from sparsehist.store.private_files import altered, verified, write_file
from sparsehist.store.records import NewRound, NoiseArray, RegisteredFile, Spot
from sparsehist.typing import IntArray, secret

if TYPE_CHECKING:
    import polars as pl

_WORD = 8  # bytes of a number
TRACKING = ("cells", "measure")
"""Kinds of paths whose rounds track cells."""


@secret
@dataclass(frozen=True)
class RoundSizes:
    """The sizes of the arrays in the file of a round, and the digest of its row.

    `n_past` (t) cells were tracked before, `n_new` (q) are new, of which `n_empty` are empty. If the round spends a
    level, this is the last of `n_levels`.
    """

    n_past: int
    n_new: int
    n_empty: int
    n_levels: int
    spends: bool
    seal: bytes


def sealed(*row: object) -> bytes:
    """Return the digest of a round's row: generation, name, level, threshold, step, metadata, whether it spends."""
    return hashlib.sha256(json.dumps(row).encode()).digest()


class RoundFile:
    """The arrays of a round file: `positions` and `counts` of new cells, shape (q,), and noise."""

    def __init__(self, directory: Path, registered: RegisteredFile, sizes: RoundSizes, dtype: type[Any]) -> None:
        """Read a file, and check its digest and its row."""
        content = verified(directory, registered)
        if not content.startswith(sizes.seal):
            raise altered(directory / registered.name)
        n_past = sizes.n_past if sizes.spends else 0
        lengths = [sizes.n_new, sizes.n_new, n_past, sizes.n_levels * sizes.n_new]
        *starts, end = (len(sizes.seal) + _WORD * np.cumsum([0, *lengths])).tolist()
        arrays = [np.frombuffer(content, np.int64, length, at) for length, at in zip(lengths, starts, strict=True)]
        self.positions: IntArray = arrays[0]
        self.counts: IntArray = arrays[1]
        self._level_noise, self._noise = (array.view(dtype) for array in arrays[2:])
        self._sizes, self._keys = sizes, content[end:]

    def noise(self, level: int) -> NoiseArray:
        """Return the noise at the level of this number: shape (t + q,) if this round spent the level, else (q,)."""
        sizes = self._sizes
        new: NoiseArray = self._noise[level * sizes.n_new : (level + 1) * sizes.n_new]
        if not (sizes.spends and level == sizes.n_levels - 1):
            return new
        whole: NoiseArray = np.concatenate([self._level_noise, new])
        return whole

    def empty_keys(self) -> Any:
        """Return the keys of the new empty cells, in order, as an Arrow table."""
        import pyarrow as pa

        return pa.ipc.open_stream(self._keys).read_all()


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path, in order; their files are read when first needed.

    `levels`, or (step, level) of running counts, are in the order of their first release.
    """

    directory: Path
    kind: str
    integer_noise: bool
    rounds: Sequence[tuple[RoundSizes, RegisteredFile]] = ()
    levels: Sequence[Spot] = ()
    opened: dict[int, RoundFile] = field(default_factory=dict)

    @property
    def dtype(self) -> type[Any]:
        """Type of the noise numbers."""
        return np.int64 if self.integer_noise else np.float64

    @property
    def n_tracked(self) -> int:
        """Number of cells tracked so far, or of numbers in a workload's state."""
        return self.rounds[-1][0].n_past + self.rounds[-1][0].n_new if self.rounds else 0

    def open_round(self, number: int) -> RoundFile:
        """Return the file of a round; its first reading checks it."""
        if number not in self.opened:
            sizes, file = self.rounds[number]
            self.opened[number] = RoundFile(self.directory, file, sizes, self.dtype)
        return self.opened[number]

    def new_cells(self) -> Iterator[tuple[RoundFile, slice]]:
        """Yield each round that tracked new cells, with the slice of their numbers."""
        for number, (sizes, _) in enumerate(self.rounds):
            if sizes.n_new:
                yield self.open_round(number), slice(sizes.n_past, sizes.n_past + sizes.n_new)

    def noise(self, ordinal: int) -> NoiseArray:
        """Return the noise of all cells at the level of this number."""
        out: NoiseArray = np.empty(self.n_tracked, self.dtype)
        for number, (sizes, _) in enumerate(self.rounds):
            spent_here = sizes.spends and sizes.n_levels - 1 == ordinal
            if sizes.n_levels > ordinal and (spent_here or sizes.n_new):
                cells = slice(0 if spent_here else sizes.n_past, sizes.n_past + sizes.n_new)
                out[cells] = self.open_round(number).noise(ordinal)
        return out

    def write_round(
        self, name: str, record: NewRound, row: Sequence[object], *, durable: bool
    ) -> tuple[RoundSizes, RegisteredFile]:
        """Write the file of the next round, with this row; a record that does not fit the path is a bug."""
        spends = record.spot not in self.levels
        levels = [*self.levels, *([record.spot] if spends else [])]
        n_past, n_new = self.n_tracked, len(record.positions)
        of_cells = self.kind in TRACKING  # other paths track no cells
        if not of_cells and not self.rounds:
            n_past = len(present(record.level_noise))
        n_empty = int((record.positions == -1).sum())
        promise(set(record.paths) == (set(levels) if of_cells else set()), "new cells without noise at every level")
        promise(of_cells or n_new == 0, "new cells on a path that tracks no cells")
        promise(
            {len(noise) for noise in record.paths.values()} <= {n_new} == {len(record.counts)},
            "noise or counts do not match the new cells",
        )
        promise(spends == (record.level_noise is not None), "noise must come with a new level, and only then")
        promise(record.level_noise is None or len(record.level_noise) == n_past, "noise of other tracked cells")
        promise(record.empty_keys.height == n_empty, "empty cells without keys")
        sizes = RoundSizes(n_past, n_new, n_empty, len(levels), spends, sealed(*row, int(spends)))
        past = [] if record.level_noise is None else [record.level_noise]
        new = [record.paths[level] for level in levels if of_cells]
        noise = [np.ascontiguousarray(each, self.dtype) for each in (*past, *new)]
        cells = [np.ascontiguousarray(each, np.int64) for each in (record.positions, record.counts)]
        parts = [each.data for each in (*cells, *noise) if len(each)]
        keys = _as_stream(record.empty_keys)
        return sizes, write_file(self.directory / name, sizes.seal, *parts, keys, durable=durable)


def _as_stream(keys: pl.DataFrame) -> memoryview:
    import pyarrow as pa

    from sparsehist.store.support import plain

    sink, table = pa.BufferOutputStream(), plain(keys)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
