"""The rounds of a noise path, and the file of each: newly tracked cells and the noise that was drawn.

Noise belongs to a level; levels are numbered in the order of their first release. The file of a round holds, for its
q new cells, one row of noise for each level spent so far; if the round spends a new level, also the noise at that
level of the t cells tracked before. So noise at a level is read from the round that spent it onwards, in the order of
cell numbers.

A file is the head (`RoundHead`) as a line of JSON, the arrays it gives the sizes of, and the keys of empty cells as
an Arrow stream. File and digest, and head and row of the state, are compared before anything is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.errors import present, promise
from sparsehist.privacy.levels import level_text
from sparsehist.store.private_files import altered, verified, write_file
from sparsehist.store.records import NewRound, NoiseArray, RegisteredFile, Spot
from sparsehist.store.support import plain
from sparsehist.typing import IntArray, secret

_WORD = 8  # bytes of a number
TRACKING = ("cells", "measure")
"""Kinds of paths whose rounds track cells."""


@secret
@dataclass(frozen=True)
class RoundHead:
    """What a round is for and what its file holds; stands in the file and in the row of the state.

    `n_past` cells (t) were tracked before and `n_new` (q) are from now on, of which `n_empty` are empty; the last of
    `n_levels` levels is new if the round spends.
    """

    generation: int
    name: str
    level: str
    threshold: float
    step: int | None
    metadata: str
    n_past: int
    n_new: int
    n_empty: int
    n_levels: int
    spends: bool
    integer_noise: bool

    @property
    def noise_dtype(self) -> type[Any]:
        return np.int64 if self.integer_noise else np.float64

    def as_line(self) -> bytes:
        """A line of JSON, of whole words, with the digest of the metadata in their place."""
        said = asdict(self) | {"metadata": hashlib.sha256(self.metadata.encode()).hexdigest()}
        line = json.dumps(said, sort_keys=True).encode()
        return line.ljust(len(line) + _WORD - len(line) % _WORD - 1) + b"\n"


class RoundFile:
    """The arrays of a round file: `positions` and `counts` of its new cells, shape (q,), and their noise."""

    def __init__(self, directory: Path, registered: RegisteredFile, head: RoundHead) -> None:
        """Read a file; compare it with its digest and with the row of the state."""
        content, line = verified(directory, registered), head.as_line()
        if not content.startswith(line):
            raise altered(directory / registered.name)
        n_past = head.n_past if head.spends else 0
        sizes = [head.n_new, head.n_new, n_past, head.n_levels * head.n_new]
        *starts, end = (len(line) + _WORD * np.cumsum([0, *sizes])).tolist()
        arrays = [np.frombuffer(content, np.int64, size, at) for size, at in zip(sizes, starts, strict=True)]
        self.positions: IntArray = arrays[0]
        self.counts: IntArray = arrays[1]
        self._level_noise, self._noise = (array.view(head.noise_dtype) for array in arrays[2:])
        self._head, self._keys = head, content[end:]

    def noise(self, level: int) -> NoiseArray:
        """The noise at the level of that number: shape (t + q,) where this round spent it, else (q,)."""
        head = self._head
        new: NoiseArray = self._noise[level * head.n_new : (level + 1) * head.n_new]
        if not (head.spends and level == head.n_levels - 1):
            return new
        whole: NoiseArray = np.concatenate([self._level_noise, new])
        return whole

    def empty_keys(self) -> Any:
        """The keys of the empty ones among the new cells, in order: an Arrow table."""
        import pyarrow as pa

        return pa.ipc.open_stream(self._keys).read_all()


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path in order; a file is read when its arrays are first needed.

    `levels` (of running counts, steps and levels) are in the order of their first release.
    """

    directory: Path
    kind: str
    integer_noise: bool
    rounds: Sequence[tuple[RoundHead, RegisteredFile]] = ()
    levels: Sequence[Spot] = ()
    opened: dict[int, RoundFile] = field(default_factory=dict)

    @property
    def n_tracked(self) -> int:
        """Cells tracked so far, or the size of a workload's state."""
        return self.rounds[-1][0].n_past + self.rounds[-1][0].n_new if self.rounds else 0

    def open_round(self, number: int) -> RoundFile:
        """The file of a round, checked when it is first read."""
        if number not in self.opened:
            head, file = self.rounds[number]
            self.opened[number] = RoundFile(self.directory, file, head)
        return self.opened[number]

    def new_cells(self) -> Iterator[tuple[RoundFile, slice]]:
        """The rounds that tracked new cells, with the numbers of these."""
        for number, (head, _) in enumerate(self.rounds):
            if head.n_new:
                yield self.open_round(number), slice(head.n_past, head.n_past + head.n_new)

    def noise(self, ordinal: int) -> NoiseArray:
        """The noise of all cells at the level of that number."""
        dtype: type[Any] = np.int64 if self.integer_noise else np.float64
        out: NoiseArray = np.empty(self.n_tracked, dtype)
        for number, (head, _) in enumerate(self.rounds):
            spent_here = head.spends and head.n_levels - 1 == ordinal
            if head.n_levels > ordinal and (spent_here or head.n_new):
                cells = slice(0 if spent_here else head.n_past, head.n_past + head.n_new)
                out[cells] = self.open_round(number).noise(ordinal)
        return out

    def write_round(
        self, name: str, record: NewRound, generation: int, metadata: str, *, durable: bool
    ) -> tuple[RoundHead, RegisteredFile]:
        """Write the file of the next round; a record that does not fit the path is a bug."""
        spends = record.spot not in self.levels
        levels = [*self.levels, *([record.spot] if spends else [])]
        n_past, n_new = self.n_tracked, len(record.positions)
        of_cells = self.kind in TRACKING  # other paths have all their noise from the first round on
        if not of_cells and not self.rounds:
            n_past = len(present(record.level_noise))
        n_empty = int((record.positions == -1).sum())
        promise(set(record.paths) == (set(levels) if of_cells else set()), "new cells without noise at every level")
        promise(of_cells or n_new == 0, "new cells on a path that is not of cells")
        promise(
            {len(noise) for noise in record.paths.values()} <= {n_new} == {len(record.counts)},
            "noise or counts of other cells than the new ones",
        )
        promise(spends == (record.level_noise is not None), "noise of a level that spends nothing, or none")
        promise(record.level_noise is None or len(record.level_noise) == n_past, "noise of other tracked cells")
        promise(record.empty_keys.height == n_empty, "empty cells without keys")
        head = RoundHead(
            generation, record.name, level_text(record.level), float(record.threshold), record.step, metadata,
            n_past, n_new, n_empty, len(levels), spends, self.integer_noise,
        )  # fmt: skip
        past = [] if record.level_noise is None else [record.level_noise]
        noise = [np.ascontiguousarray(each, head.noise_dtype) for each in (*past, *_in_order(record.paths, levels))]
        cells = [np.ascontiguousarray(each, np.int64) for each in (record.positions, record.counts)]
        parts = [each.data for each in (*cells, *noise) if len(each)]
        keys = _as_stream(record.empty_keys)
        return head, write_file(self.directory / name, head.as_line(), *parts, keys, durable=durable)


def _in_order(paths: Mapping[Spot, NoiseArray], levels: Sequence[Spot]) -> list[NoiseArray]:
    return [paths[level] for level in levels] if paths else []


def _as_stream(keys: pl.DataFrame) -> memoryview:
    import pyarrow as pa

    sink, table = pa.BufferOutputStream(), plain(keys)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
