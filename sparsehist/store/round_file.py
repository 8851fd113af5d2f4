"""The arrays of one round in one file: newly tracked cells and the noise that was drawn.

Noise belongs to a level; levels are numbered in the order of their first release. The file of a round holds, for its
q new cells, one row of noise for each level spent so far; if the round spends a new level, also the noise at that
level of the t cells tracked before. So noise at a level is read from the round that spent it onwards, in the order of
cell numbers.

A file is an Arrow stream of one row whose columns are lists. Its schema holds what the file is for (`RoundHead`).
The whole file is compared with its digest, and the head with the row of the state, before anything of it is used.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsehist.errors import promise
from sparsehist.store.private_files import altered, check_file, disk_errors, write_file
from sparsehist.store.records import NewRound, NoiseArray, RegisteredFile
from sparsehist.store.support import plain
from sparsehist.typing import AnyArray, IntArray, secret

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD, _KEYS = b"sparsehist round", "empty_keys"


@secret
@dataclass(frozen=True)
class RoundHead:
    """What a round file is for and what it holds; the same in the file and in the row of the state.

    `n_past` cells (t) were tracked before and `n_new` (q) are from now on, of which `n_empty` are empty; the last of
    `n_levels` levels is new if the round spends. `metadata` is the SHA-256 of the published metadata.
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
    def noise_dtype(self) -> type[np.int64 | np.float64]:
        return np.int64 if self.integer_noise else np.float64

    def as_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()


def digest_of(metadata_text: str) -> str:
    """SHA-256 of the metadata of a release, in hex."""
    return hashlib.sha256(metadata_text.encode()).hexdigest()


def write_round(
    path: Path,
    head: RoundHead,
    record: NewRound,
    noise: Sequence[NoiseArray],
    *,
    durable: bool,
) -> RegisteredFile:
    """Write the file of a round atomically; `noise` of its new cells in the order of the levels."""
    import pyarrow as pa

    by_level = np.concatenate(noise) if noise else np.empty(0)
    past = np.empty(0) if record.level_noise is None else record.level_noise
    promise(len(by_level) == head.n_levels * head.n_new, "noise of other levels than those of the path")
    keys, table = pa.BufferOutputStream(), plain(record.empty_keys)
    with pa.ipc.new_stream(keys, table.schema) as writer:
        writer.write_table(table)
    columns = {
        "positions": _as_list(record.positions, np.int64),
        "counts": _as_list(record.counts, np.int64),
        "level_noise": _as_list(past, head.noise_dtype),
        "noise": _as_list(by_level, head.noise_dtype),
        _KEYS: pa.array([keys.getvalue().to_pybytes()], pa.large_binary()),
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata({_HEAD: head.as_bytes()})) as writer:
        writer.write_batch(batch)
    return write_file(path, memoryview(sink.getvalue()), durable=durable)


def _as_list(array: AnyArray, dtype: type[np.int64 | np.float64]) -> pa.LargeListArray:
    import pyarrow as pa

    flat = np.ascontiguousarray(array, dtype)
    values = pa.Array.from_buffers(pa.from_numpy_dtype(dtype), len(flat), [None, pa.py_buffer(flat)])
    offsets = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(np.array([0, len(flat)], np.int64))])
    return pa.LargeListArray.from_arrays(offsets, values)


@secret
class RoundFile:
    """The arrays of a round file, mapped into memory."""

    def __init__(self, directory: Path, registered: RegisteredFile, head: RoundHead) -> None:
        """Map a file and compare it with its digest and with the row of the state."""
        import pyarrow as pa

        path = check_file(directory, registered)
        with disk_errors(path), path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hashlib.sha256(mapped).hexdigest() != registered.digest:
            raise altered(path)
        reader = pa.ipc.open_stream(pa.py_buffer(mapped))
        if reader.schema.metadata != {_HEAD: head.as_bytes()}:
            raise altered(path)
        self._head, self._batch = head, reader.read_next_batch()

    @property
    def positions(self) -> IntArray:
        """Of the new cells in the counts file, -1 for an empty one; shape (q,)."""
        positions: IntArray = self._values("positions", np.int64)
        return positions

    @property
    def counts(self) -> IntArray:
        """True counts of the new cells; shape (q,)."""
        counts: IntArray = self._values("counts", np.int64)
        return counts

    def noise(self, level: int) -> NoiseArray:
        """The noise at the level of that number: shape (t + q,) where this round spent it, else (q,)."""
        head = self._head
        new: NoiseArray = self._values("noise", head.noise_dtype)[level * head.n_new : (level + 1) * head.n_new]
        if not (head.spends and level == head.n_levels - 1):
            return new
        whole: NoiseArray = np.concatenate([self._values("level_noise", head.noise_dtype), new])
        return whole

    def empty_keys(self) -> pa.Table:
        """The keys of the empty ones among the new cells, in order."""
        import pyarrow as pa

        return pa.ipc.open_stream(self._batch[_KEYS][0].as_buffer()).read_all()

    def _values(self, name: str, dtype: type[np.int64 | np.float64]) -> Any:
        values = self._batch[name].values
        return np.frombuffer(values.buffers()[1] or b"", dtype, len(values), 8 * values.offset)
