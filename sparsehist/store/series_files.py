"""The files of a series, written once: keys sorted by count, hashes of keys, and an index of both.

`counts` holds the keys, with the sums of declared measures, sorted by count. Within a group of equal count, keys are
in uniformly random order: tracked cells are the first of their group, and the next to be tracked follow them. It is a
sequence of Arrow record batches.
`support` holds the sorted hashes of the keys with their positions in `counts`. `index` holds the groups of equal
count and, for each part of the other files, its end, its checksum and its first position or hash. A part is compared
with its checksum before it is used.
"""

from __future__ import annotations

import io
import mmap
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store.private_files import (
    HashedFile,
    altered,
    atomic_file,
    check_file,
    disk_errors,
    verified,
    write_file,
)
from sparsehist.store.records import RegisteredFile
from sparsehist.store.support import SortedHashes, hash_keys, plain
from sparsehist.threads import cores, in_threads
from sparsehist.typing import AnyArray, IntArray, WordArray, secret

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS, SUPPORT, INDEX = "counts", "support", "index"
BATCH_ROWS, SUPPORT_ROWS = 1 << 14, 1 << 12
_COUNT = "count"
SUM = "sum_"
"""Prefix of columns of sums; the number of the measure follows."""
_FEW = 1 << 16
Groups: TypeAlias = "tuple[IntArray, IntArray, IntArray]"
"""For each count, in increasing order: the count, the position of its first key, the number of its keys."""


def write_series_files(
    directory: Path,
    counted: pl.DataFrame,
    *,
    salt: bytes,
    durable: bool = True,
    threads: int | None = None,
    rng: np.random.Generator,
) -> list[RegisteredFile]:
    """Write the files of a series, as `write_sorted` does, from unsorted counts in memory; omit keys that count 0."""
    order = order_by_count(counted[_COUNT].cast(pl.Int64).to_numpy(), rng=rng)
    pieces = (counted[order[low : low + BATCH_ROWS]] for low in range(0, max(len(order), 1), BATCH_ROWS))
    return write_sorted(directory, pieces, salt=salt, durable=durable, threads=threads)


def order_by_count(counts: IntArray, *, rng: np.random.Generator) -> IntArray:
    """Return the order of rows by count, without those that count 0, uniformly random among equal counts."""
    order = rng.permutation(np.flatnonzero(counts))
    # numpy sorts 16-bit numbers by radix, in a tenth of the time.
    dtype = np.uint16 if counts.max(initial=0) < _FEW else np.int64
    return order[np.argsort(counts[order].astype(dtype), kind="stable")]


def write_sorted(
    directory: Path,
    pieces: Iterable[pl.DataFrame],
    *,
    salt: bytes,
    durable: bool = True,
    threads: int | None = None,
) -> list[RegisteredFile]:
    """Write the files of a series from sorted counts in bounded memory, and return them for registration.

    `pieces` are frames, at least one, with columns key_0 …, count and sum_0 …, without nulls; each key once. Counts,
    at least 1, increase over all frames; keys of equal count are in uniformly random order. A release reads whole
    frames, so each should have about 10,000 rows.
    """
    rest = iter(pieces)
    first = next(rest)
    schema = plain(first.clear()).schema

    def prepared(rows: pl.DataFrame) -> tuple[memoryview, IntArray, WordArray]:
        table = plain(rows)
        (batch,) = table.cast(schema).combine_chunks().to_batches()
        counts = rows[_COUNT].cast(pl.Int64).to_numpy()
        return memoryview(batch.serialize()), counts, hash_keys(rows.select(_keys(rows.columns)), salt, table)

    sizes: Counter[int] = Counter()
    largest = n_rows = 0
    with SortedHashes(directory) as hashes, atomic_file(directory / COUNTS, durable=durable) as file:
        counts_index = _PartWriter(file)
        frames = (piece for piece in chain([first], rest) if len(piece))
        for content, counts, of_keys in in_threads(prepared, frames, threads or cores()):
            if counts[0] < max(largest, 1) or (np.diff(counts) < 0).any():
                raise StoreError("the counts are not in increasing order; count again")
            counts_index.write(content, n_rows)
            sizes.update(dict(zip(*(part.tolist() for part in np.unique(counts, return_counts=True)), strict=True)))
            hashes.add(of_keys)
            largest, n_rows = int(counts[-1]), n_rows + len(counts)
        with atomic_file(directory / SUPPORT, durable=durable) as support:
            support_index = _PartWriter(support)
            for held, positions in hashes.in_order(SUPPORT_ROWS):
                support_index.write(memoryview(held.tobytes() + positions.tobytes()), held[0])
    sink = io.BytesIO()
    np.savez(
        sink,
        groups=np.array(list(sizes.items()), np.int64).reshape(-1, 2),
        schema=np.frombuffer(schema.serialize(), np.uint8),
        counts=counts_index.as_array(),
        support=support_index.as_array(),
    )
    return [file.registered, support.registered, write_file(directory / INDEX, sink.getbuffer(), durable=durable)]


def _keys(columns: Iterable[str]) -> list[str]:
    return [name for name in columns if name != _COUNT and not name.startswith(SUM)]


class _PartWriter:
    """A writer of the parts of a file; it records the end, checksum and first entry of each part."""

    def __init__(self, file: HashedFile) -> None:
        self._file, self._parts = file, list[tuple[int, int, int]]()

    def write(self, content: memoryview, first: int) -> None:
        self._file.write(content)
        self._parts.append((self._file.size, zlib.crc32(content), int(first)))

    def as_array(self) -> WordArray:
        return np.array(self._parts, np.uint64).reshape(-1, 3).T


class _Parts:
    """The parts of a memory-mapped file; each is compared with its checksum when first read."""

    def __init__(self, path: Path, index: WordArray) -> None:
        ends, self._sums, self.first = index
        self.path, self._checked, self._bounds = path, set[int](), [0, *ends.tolist()]
        with disk_errors(path), path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(ends) else b""

    def __len__(self) -> int:
        return len(self._sums)

    def __getitem__(self, number: int) -> memoryview:
        content = memoryview(self._mapped)[self._bounds[number] : self._bounds[number + 1]]
        if number not in self._checked:
            if zlib.crc32(content) != self._sums[number]:
                raise altered(self.path)
            self._checked.add(number)
        return content


@secret
class SeriesFiles:
    """The files of a series, for reading.

    Attributes:
        groups: The groups of equal count.
        n_nonzero: Number of keys.
    """

    def __init__(self, directory: Path, files: Iterable[RegisteredFile], salt: bytes) -> None:
        """Open the files; reads the index only."""
        import pyarrow as pa

        registered = {file.name: file for file in files}
        if not {COUNTS, SUPPORT, INDEX} <= set(registered):
            raise StoreDamagedError(f"{directory} is not the directory of a whole series; restore a backup")
        index = np.load(io.BytesIO(verified(directory, registered[INDEX])), allow_pickle=False)
        count, size = index["groups"].T
        self.groups: Groups = (count, np.cumsum(size) - size, size)
        self.n_nonzero, self._salt = int(size.sum()), salt
        self._schema = pa.ipc.read_schema(pa.py_buffer(index["schema"]))
        self._columns = _keys(self._schema.names)
        self._counts = _Parts(check_file(directory, registered[COUNTS]), index["counts"])
        self._support = _Parts(check_file(directory, registered[SUPPORT]), index["support"])

    def keys(self, positions: IntArray) -> pl.DataFrame:
        """Return the keys at these positions, in that order, sharing no memory with any other key."""
        return self._at(positions, self._columns)

    def sums(self, positions: IntArray, measure: int) -> IntArray:
        """Return the sums of a measure at these positions, in steps."""
        (column,) = self._at(positions, [f"{SUM}{measure}"])
        return column.to_numpy()

    def _at(self, positions: IntArray, columns: Sequence[str]) -> pl.DataFrame:
        positions = np.asarray(positions, dtype=np.int64)
        if len(positions) and not (positions.min() >= 0 and positions.max() < self.n_nonzero):
            raise altered(self._counts.path)
        part = np.searchsorted(self._counts.first, positions.view(np.uint64), side="right") - 1
        order = np.argsort(part, kind="stable")
        starts = self._counts.first.view(np.int64)
        found = [
            self._batch(number, columns).take(pl.Series(positions[order[some]] - starts[number]).to_arrow())
            for number, some in _by_part(part[order])
        ]
        table = self._table(found, columns).take(pl.Series(np.argsort(order)).to_arrow())
        return pl.DataFrame(pl.from_arrow(table))

    def positions(self, keys: pl.DataFrame) -> IntArray:
        """Return the positions of keys in the counts; -1 for those without a count."""
        found = np.full(keys.height, -1, dtype=np.int64)
        keys = keys.select(self._columns)
        asked, position = self._candidates(hash_keys(keys, self._salt))
        held = self.keys(position)
        same = np.ones(len(asked), dtype=np.bool_)
        for name in self._columns:
            same &= (keys[name][asked] == held[name]).to_numpy()
        found[asked[same]] = position[same]
        return found

    def all_keys(self) -> pl.DataFrame:
        """Return all keys, in the order of positions."""
        return self._whole(self._columns)

    def all_counted(self) -> pl.DataFrame:
        """Return all keys with their counts, in the order of positions."""
        return self._whole([*self._columns, _COUNT])

    def _whole(self, columns: Sequence[str]) -> pl.DataFrame:
        batches = [self._batch(number, columns) for number in range(len(self._counts))]
        return pl.DataFrame(pl.from_arrow(self._table(batches, columns)))

    def _table(self, batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(batches, schema=pa.schema([self._schema.field(name) for name in columns]))

    def _batch(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.ipc.read_record_batch(pa.py_buffer(self._counts[number]), self._schema).select(list(columns))

    def _candidates(self, hashes: WordArray) -> tuple[IntArray, IntArray]:
        """Return all pairs (index into `hashes`, position whose key has that hash)."""
        # Equal hashes may be at the end of one part and at the beginning of the next ones.
        low = np.maximum(np.searchsorted(self._support.first, hashes, side="left") - 1, 0)
        asked, part = _ranges(low, np.searchsorted(self._support.first, hashes, side="right"))
        order = np.argsort(part, kind="stable")
        asked, found = asked[order], [np.empty((2, 0), np.int64)]
        for number, some in _by_part(part[order]):
            held, positions = np.frombuffer(self._support[number], np.uint64).reshape(2, -1)
            low, high = (np.searchsorted(held, hashes[asked[some]], side=side) for side in ("left", "right"))
            at, place = _ranges(low, high)
            found.append(np.stack([asked[some][at], positions[place].astype(np.int64)]))
        one, other = np.concatenate(found, axis=1)
        return one, other


def _ranges(low: AnyArray, high: AnyArray) -> tuple[IntArray, IntArray]:
    """Return all pairs of an index i and a number from low[i] to high[i] − 1."""
    sizes = np.maximum(high - low, 0)
    index = np.repeat(np.arange(len(sizes)), sizes)
    return index, np.arange(len(index)) + np.repeat(low - np.cumsum(sizes) + sizes, sizes)


def _by_part(parts: AnyArray) -> Iterator[tuple[int, slice]]:
    """Yield each number in the sorted `parts`, with its slice."""
    bounds = np.flatnonzero(np.diff(parts, prepend=-1, append=-1)).tolist() if len(parts) else []
    for low, high in pairwise(bounds):
        yield int(parts[low]), slice(low, high)
