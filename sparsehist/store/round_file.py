"""The arrays of one round in one file: cells that are tracked from now on, and the noise that was drawn.

A file is written once, before the round commits, and vouched for by its row in the state. Noise belongs to a
level: levels are numbered by the order in which they were first spent, and the file of a round holds, for its
q new cells, one row of noise for each level spent so far; where the round spent a new level, also the noise at
that level of the t cells tracked before. So the noise at a level is read from the round that spent it onwards,
contiguous, in the order of cell numbers, and nothing else is touched.

    magic · t · q · levels · is the level new · integer noise · bytes of keys · checksum of each block · of all this
    positions (q) · counts (q) · noise of the new level (t, if new) · noise by level (levels × q) · empty keys

Everything is 8 bytes wide and little-endian; keys of empty cells are an Arrow stream. Rows or blobs in
DuckDB cost several times as much to commit, and more with every round: a checkpoint writes earlier data again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from sparsehist.errors import promise
from sparsehist.store.private_files import altered, check_file, disk_errors, write_file
from sparsehist.store.records import NoiseArray, RegisteredFile
from sparsehist.typing import ByteArray, IntArray, WordArray, secret

if TYPE_CHECKING:
    import pyarrow as pa


_MAGIC = int.from_bytes(b"SHROUND1", "little")
_FIXED_WORDS = 7
_WIDTH = 8


@secret
@dataclass(frozen=True)
class RoundShape:
    """What a round file holds; the state keeps it beside the size and digest.

    So many cells were tracked before (t) and are from now on (q), some of these empty; the last level is a new one
    if the round spends.
    """

    n_past: int
    n_new: int
    n_empty: int
    n_levels: int
    spends: bool
    integer_noise: bool

    def block_sizes(self) -> list[int]:
        """Bytes of the blocks whose size follows from the shape; the keys come after them."""
        noise_of_past = [self.n_past] if self.spends else []
        return [_WIDTH * n for n in [self.n_new] * 2 + noise_of_past + [self.n_new] * self.n_levels]

    @property
    def header_bytes(self) -> int:
        return _WIDTH * (_FIXED_WORDS + len(self.block_sizes()) + 2)  # checksums of keys and head, too

    @property
    def noise_dtype(self) -> type[np.int64 | np.float64]:
        return np.int64 if self.integer_noise else np.float64

    def words(self, keys_bytes: int) -> list[int]:
        return [_MAGIC, self.n_past, self.n_new, self.n_levels, self.spends, self.integer_noise, keys_bytes]


def write_round(
    path: Path,
    shape: RoundShape,
    positions: IntArray,
    counts: IntArray,
    level_noise: NoiseArray | None,
    paths: Sequence[NoiseArray],
    empty_keys: pa.Table,
    *,
    durable: bool,
) -> RegisteredFile:
    """Write a round file atomically; `paths` in the order of the levels."""
    noise = [*([] if level_noise is None else [level_noise]), *paths]
    blocks = [
        *(_bytes_of(array, np.int64) for array in (positions, counts)),
        *(_bytes_of(array, shape.noise_dtype) for array in noise),
    ]
    promise(
        [len(block) for block in blocks] == shape.block_sizes(), "blocks of a round of other sizes than its head says"
    )
    blocks.append(_as_stream(empty_keys))
    words = [*shape.words(len(blocks[-1])), *(zlib.crc32(block) for block in blocks)]
    head = np.array(words, dtype="<u8").tobytes()
    checksum = np.array([zlib.crc32(head)], dtype="<u8").tobytes()
    return write_file(path, head, checksum, *blocks, durable=durable)


def _bytes_of(array: NoiseArray, dtype: type[np.int64 | np.float64]) -> memoryview:
    flat = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return flat.view(np.uint8).data


def _as_stream(table: pa.Table) -> memoryview:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


class RoundFile:
    """Reads blocks of a round file into arrays given by the caller, checking each."""

    def __init__(self, directory: Path, registered: RegisteredFile, shape: RoundShape) -> None:
        self._path = check_file(directory, registered)
        self._shape = shape
        with disk_errors(self._path):
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        head: WordArray = np.empty(shape.header_bytes // _WIDTH, dtype="<u8")
        try:
            self._fill(head.view(np.uint8), 0)
            self._keys_bytes = int(head[_FIXED_WORDS - 1])
            self._check(head)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._checksums = head[_FIXED_WORDS:-1]
        sizes = [shape.header_bytes, *shape.block_sizes()]
        self._offsets = np.cumsum(sizes).tolist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def positions(self, out: IntArray) -> None:
        """Fill `out`, shape (q,)."""
        self._block(0, out)

    def counts(self, out: IntArray) -> None:
        """Fill `out`, shape (q,)."""
        self._block(1, out)

    def noise(self, level: int, out: NoiseArray) -> None:
        """Fill `out` with the noise at the level of that number: (t+q,) where this round spent it, else (q,)."""
        shape = self._shape
        if shape.spends and level == shape.n_levels - 1:
            self._block(2, out[: shape.n_past])
            out = out[shape.n_past :]
        self._block(2 + shape.spends + level, out)

    def empty_keys(self) -> pa.Table:
        """The keys of the new cells that are empty, in order."""
        import pyarrow as pa

        stream = np.empty(self._keys_bytes, dtype=np.uint8)
        self._block(len(self._checksums) - 1, stream)
        return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()

    def _block(self, number: int, out: NoiseArray | ByteArray) -> None:
        view = out.view(np.uint8)
        self._fill(view, self._offsets[number])
        if zlib.crc32(view.data) != self._checksums[number]:
            raise altered(self._path)

    def _fill(self, view: ByteArray, offset: int) -> None:
        done = 0
        with disk_errors(self._path):
            while done < len(view):
                read = os.preadv(self._descriptor, [view[done:].data], offset + done)
                if read == 0:
                    raise altered(self._path)
                done += read

    def _check(self, head: WordArray) -> None:
        intact = zlib.crc32(head[:-1].tobytes()) == head[-1]
        if not intact or head[:_FIXED_WORDS].tolist() != self._shape.words(self._keys_bytes):
            raise altered(self._path)
