"""Write and read the three files of a series: keys sorted by count, hashes of the keys, and an index of both files.

The file `counts` contains the keys and their sums of declared measures, sorted by count. Keys of equal count form a
group and are in uniformly random order. Releases track the keys of a group in this order. The file is a sequence of
Arrow record batches. `support` contains the sorted hashes of the keys with their positions in `counts`. `index` has
the counts and sizes of the groups and, for each part of the other files, the end, the checksum and the first position
or hash of the part. A part is compared with its checksum before it is used.
"""

from __future__ import annotations

import io
import mmap
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store.private_files import altered, atomic_file, check_file, disk_errors, verified, write_file
from sparsehist.store.records import RegisteredFile
from sparsehist.store.support import hash_keys, in_order, plain
from sparsehist.threads import cores, in_threads
from sparsehist.typing import IntArray, WordArray, secret

COUNTS, SUPPORT, INDEX = "counts", "support", "index"
BATCH_ROWS, SUPPORT_ROWS = 1 << 14, 1 << 12
_COUNT = "count"
SUM = "sum_"
"""Prefix of the names of columns of sums; the index of the measure follows, as in sum_0."""
Groups: TypeAlias = "tuple[IntArray, IntArray, IntArray]"
"""For each count, in increasing order: the count, the position of its first key, the number of its keys."""


def write_series_files(
    directory: Path,
    counts: pl.Series,
    rows: Callable[[IntArray], pl.DataFrame],
    *,
    salt: bytes,
    durable: bool = True,
    threads: int | None = None,
    rng: np.random.Generator,
) -> list[RegisteredFile]:
    """Drop keys of count 0, sort the others by count in memory, and write the files of a series.

    The function `rows` takes an array of indices into `counts`. It returns the keys at these indices as a frame with
    columns key_0 …, count and sum_0 ….
    """
    order = order_by_count(counts.cast(pl.Int64).to_numpy(), rng=rng)
    pieces = (rows(order[low : low + BATCH_ROWS]) for low in range(0, max(len(order), 1), BATCH_ROWS))
    return write_sorted(directory, pieces, salt=salt, durable=durable, threads=threads)


def order_by_count(counts: IntArray, *, rng: np.random.Generator) -> IntArray:
    """Return the indices of the rows with a positive count, sorted by count; equal counts are in random order."""
    order, large = np.flatnonzero(counts), 2**16 - 1
    small = np.minimum(counts[order], large).astype(np.uint16)
    order = order[np.argsort(small, kind="stable")]  # for 16-bit integers, numpy uses a fast radix sort
    rest = order[np.count_nonzero(small < large) :]
    rest[:] = rest[np.argsort(counts[rest])]
    for equal in np.split(order, np.flatnonzero(np.diff(counts[order])) + 1):
        rng.shuffle(equal)
    return order


def write_sorted(
    directory: Path, pieces: Iterable[pl.DataFrame], *, salt: bytes, durable: bool = True, threads: int | None = None
) -> list[RegisteredFile]:
    """Write the files of a series from sorted counts, in bounded memory; return the sizes and digests of the files.

    `pieces` yields one or more frames with columns key_0 …, count and sum_0 …, without nulls. Each key occurs once.
    Counts are at least 1 and never decrease; keys of equal count are in uniformly random order. A release reads
    whole frames, so each frame should have about 10,000 rows.
    """
    rest = iter(pieces)
    first = next(rest)
    stored = [name for name in first.columns if name != _COUNT]
    schema = plain(first.clear()[stored]).schema
    sizes: Counter[int] = Counter()

    def prepared(rows: pl.DataFrame) -> tuple[memoryview, IntArray, WordArray]:
        table = plain(rows[stored])
        (batch,) = table.cast(schema).combine_chunks().to_batches()
        counts = rows[_COUNT].cast(pl.Int64).to_numpy()
        return memoryview(batch.serialize()), counts, hash_keys(rows[_keys(stored)], salt, table)

    def batches(hashes: BinaryIO) -> Iterator[tuple[memoryview, int]]:
        """Yield each part of `counts` with the position of its first key. Write the keys' hashes to a file."""
        frames = (piece for piece in chain([first], rest) if len(piece))
        for content, counts, of_keys in in_threads(prepared, frames, threads or cores()):
            if counts[0] < max(sizes, default=1) or (np.diff(counts) < 0).any():
                raise StoreError("the counts are not sorted in increasing order; count the log again")
            yield content, sizes.total()
            sizes.update(dict(zip(*(part.tolist() for part in np.unique(counts, return_counts=True)), strict=True)))
            of_keys.tofile(hashes)

    with tempfile.TemporaryFile(dir=directory) as file:
        counts, counts_index = _write_parts(directory / COUNTS, batches(file), durable=durable)
        hashes = np.memmap(file, np.uint64, "r") if sizes else np.empty(0, np.uint64)
        bits = len(hashes).bit_length()  # each entry of `support` ends with a position of this many bits
        parts = ((words.data, words[0] >> bits) for words in in_order(hashes, SUPPORT_ROWS))
        support, support_index = _write_parts(directory / SUPPORT, parts, durable=durable)
    content = io.BytesIO()
    np.savez(
        content,
        groups=np.array(list(sizes.items()), np.int64).reshape(-1, 2),
        schema=np.frombuffer(schema.serialize(), np.uint8),
        counts=counts_index,
        support=support_index,
    )
    return [counts, support, write_file(directory / INDEX, content.getbuffer(), durable=durable)]


def _keys(columns: Iterable[str]) -> list[str]:
    return [name for name in columns if not name.startswith(SUM)]


def _write_parts(
    path: Path, parts: Iterable[tuple[memoryview, int]], *, durable: bool
) -> tuple[RegisteredFile, WordArray]:
    """Write parts to a file. Return its `RegisteredFile`, and the end, checksum and first entry of each part."""
    index: list[tuple[int, int, int]] = []
    with atomic_file(path, durable=durable) as file:
        for content, first in parts:
            file.write(content)
            index.append((file.size, zlib.crc32(content), int(first)))
    return file.registered, np.array(index, np.uint64).reshape(-1, 3).T


class _Parts:
    """A memory-mapped file that consists of parts. A part is compared with its checksum when it is first read."""

    def __init__(self, path: Path, index: WordArray) -> None:
        ends, self._sums, self.first = index
        self.path, self._checked, self._bounds = path, set[int](), [0, *ends.tolist()]
        with disk_errors(path), path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(ends) else b""

    def __getitem__(self, number: int) -> memoryview:
        content = memoryview(self._mapped)[self._bounds[number] : self._bounds[number + 1]]
        if number not in self._checked:
            if zlib.crc32(content) != self._sums[number]:
                raise altered(self.path)
            self._checked.add(number)
        return content

    def of_values(self, values: WordArray, side: Literal["left", "right"]) -> Iterator[tuple[int, slice]]:
        """Find the parts of the file that may contain at least one of `values`, which must be sorted.

        For each such part, yield its index and the slice of `values` that it may contain. Pass "right" as `side` if
        the last entry of a part may equal the first entry of the next part, and "left" otherwise.
        """
        low = np.searchsorted(values, self.first)
        high = np.append(np.searchsorted(values, self.first[1:], side), len(values))
        for number in np.flatnonzero(low < high[: len(low)]).tolist():
            yield number, slice(low[number], high[number])


@secret
class SeriesFiles:
    """The files of a series, opened for reading.

    Attributes:
        groups: Three arrays with an entry for each group: count, position of the first key, number of keys.
        n_nonzero: Number of keys with a positive count.
    """

    def __init__(self, directory: Path, files: Iterable[RegisteredFile], salt: bytes) -> None:
        """Open the files and read the index; the other files are read when needed."""
        registered = {file.name: file for file in files}
        if not {COUNTS, SUPPORT, INDEX} <= set(registered):
            raise StoreDamagedError(f"files of a series are missing; restore the store from a backup: {directory}")
        index = np.load(io.BytesIO(verified(directory, registered[INDEX])), allow_pickle=False)
        count, size = index["groups"].T
        self.groups: Groups = (count, np.cumsum(size) - size, size)
        self.n_nonzero, self._salt = int(size.sum()), salt
        self._schema = index["schema"].tobytes()
        self._counts = _Parts(check_file(directory, registered[COUNTS]), index["counts"])
        self._support = _Parts(check_file(directory, registered[SUPPORT]), index["support"])
        self._columns = _keys(self._read([], None).columns)

    def keys(self, positions: IntArray) -> pl.DataFrame:
        """Return the keys at these positions of the file `counts`. Strings may share memory with other keys."""
        return self._at(positions, self._columns)

    def sums(self, positions: IntArray, measure: int) -> IntArray:
        """Return the sums of a measure at these positions of the file `counts`, in multiples of its step."""
        (column,) = self._at(positions, [f"{SUM}{measure}"])
        return column.to_numpy()

    def _at(self, positions: IntArray, columns: list[str]) -> pl.DataFrame:
        positions = np.asarray(positions, dtype=np.int64)
        if len(positions) and not (positions.min() >= 0 and positions.max() < self.n_nonzero):
            raise altered(self._counts.path)
        # Positions mostly come in a few sorted runs, which a stable sort merges quickly.
        order, first = np.argsort(positions, kind="stable"), self._counts.first.view(np.int64)
        rows = [self._read([], columns)]
        for number, some in self._counts.of_values(positions[order].view(np.uint64), "left"):
            rows.append(self._read([number], columns)[positions[order[some]] - first[number]])
        return pl.concat(rows)[np.argsort(order, kind="stable")]

    def positions(self, keys: pl.DataFrame) -> IntArray:
        """Return the positions of these keys in the file `counts`; -1 for keys that are not in the file."""
        keys = keys.select(self._columns)
        bits = self.n_nonzero.bit_length()  # each entry of `support` ends with a position of this many bits
        hashes = hash_keys(keys, self._salt) >> np.uint64(bits)
        order, pairs = np.argsort(hashes), [np.empty((2, 0), np.int64)]
        for number, some in self._support.of_values(hashes[order], "right"):
            words = np.frombuffer(self._support[number], np.uint64)
            low, high = (np.searchsorted(words >> bits, hashes[order[some]], side) for side in ("left", "right"))
            row, found = np.repeat(order[some], high - low), words[_ranges(low, high)] & ((1 << bits) - 1)
            pairs.append(np.stack([row, found.astype(np.int64)]))
        # Compare the keys too, because the hashes of different keys may have the same leading bits.
        row, position = np.concatenate(pairs, axis=1)
        same = np.ones(len(row), dtype=np.bool_)
        for column in self.keys(position):
            same &= (keys[column.name][row] == column).to_numpy()
        result = np.full(keys.height, -1, dtype=np.int64)
        result[row[same]] = position[same]
        return result

    def all_keys(self) -> pl.DataFrame:
        return self._read(range(len(self._counts.first)), self._columns)

    def all_counted(self) -> pl.DataFrame:
        """Return all keys with their counts, in the order of the file `counts`."""
        count, _, size = self.groups
        return self.all_keys().with_columns(pl.Series(_COUNT, np.repeat(count, size)))

    def _read(self, parts: Iterable[int], columns: list[str] | None) -> pl.DataFrame:
        """Return the rows of some parts of `counts`. The schema and these parts are read as one Arrow stream."""
        stream = b"".join([self._schema, *(self._counts[number] for number in parts)])
        return pl.read_ipc_stream(io.BytesIO(stream), columns=columns)


def _ranges(low: IntArray, high: IntArray) -> IntArray:
    sizes = high - low
    numbers: IntArray = np.arange(sizes.sum()) + np.repeat(low - np.cumsum(sizes) + sizes, sizes)
    return numbers
