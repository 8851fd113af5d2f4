"""The files of a series, written once: keys by count, groups of equal count, and the hashes of the keys.

`counts` is an Arrow IPC file, sorted by count and, within a group of equal count, in an order that is uniform
over all orders: so the tracked cells of a group are always its first ones, and the next to be tracked, chosen
uniformly, are simply the next in order. Its rows stand in batches of one size, so that a position
says where its row is, and opening it reads the index of batches (24 bytes for a million rows) and nothing else.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.errors import StoreDamagedError, raise_alone
from sparsehist.store.ordering import Positions, random_order, sort_with_positions, take
from sparsehist.store.parts.counts_in_parts import PARTS, CountsInParts, Groups, arrow_array
from sparsehist.store.private_files import (
    HashedFile,
    altered,
    atomic_file,
    check_file,
    disk_errors,
    write_file,
)
from sparsehist.store.records import RegisteredFile, SeriesRecord
from sparsehist.store.support import LOOK_UP, SUPPORT, Support, hash_keys, plain, salt_for, write_support
from sparsehist.threads import cores, in_threads
from sparsehist.typing import BoolArray, IntArray, WordArray, secret

if TYPE_CHECKING:
    import pyarrow as pa


COUNTS, GROUPS = "counts", "groups"
BATCH_ROWS = 1 << 17
_BATCH_ROWS_KEY = b"rows_per_batch"
_COUNT = "count"

Progress = Callable[[int, int], None]


def write_series_files(
    directory: Path,
    counted: pl.DataFrame,
    *,
    salt: bytes,
    durable: bool = True,
    progress: Progress | None = None,
    threads: int | None = None,
    rng: np.random.Generator,
) -> list[RegisteredFile]:
    """Write the files of a series.

    Args:
        directory: Of the series; exists.
        counted: Columns key_0 … and count; one row a cell, without nulls. Those that count 0 are left out. Secret.
        salt: Of the series. Secret.
        durable: Whether to wait for the disk.
        progress: Called with (rows written, all rows) now and then.
        threads: That make rows ready beside the one that writes; as many as there are cores if None.
        rng: Randomness.

    Returns:
        What the state has to vouch for.

    Raises:
        StoreError: If the disk refuses.
    """
    counts = counted[_COUNT].cast(pl.Int64).to_numpy()
    ordered, order = _order_by_count(counts, rng=rng)
    nonzero = int(np.searchsorted(ordered, 1))
    ordered, order = ordered[nonzero:], order[nonzero:]
    groups = write_groups(directory, _group(ordered), durable=durable)
    del ordered
    with ThreadPoolExecutor(1) as beside:
        with atomic_file(directory / COUNTS, durable=durable) as file:
            hashes = _write_rows(file, counted, order, salt, progress or (lambda *_: None), threads or cores())
            del order
            support = beside.submit(write_support, directory, hashes, durable=durable)  # while the disk is waited for
        return [file.registered, groups, support.result()]


def _write_rows(
    file: HashedFile, counted: pl.DataFrame, order: Positions, salt: bytes, progress: Progress, threads: int
) -> WordArray:
    """Write rows in an order; returns the hashes of their keys, in that order."""
    import pyarrow as pa

    hashes = np.empty(len(order), dtype=np.uint64)

    def ready(low: int) -> pa.RecordBatch:
        rows = counted[order[low : low + BATCH_ROWS]]
        table = plain(rows).combine_chunks()
        hashes[low : low + BATCH_ROWS] = hash_keys(rows.drop(_COUNT), salt, table)
        return table.to_batches()[0]

    schema = plain(counted.clear()).schema.with_metadata({_BATCH_ROWS_KEY: str(BATCH_ROWS).encode()})
    with pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema) as writer:
        written = 0
        for batch in in_threads(ready, range(0, len(order), BATCH_ROWS), threads):
            writer.write_batch(batch)
            written += batch.num_rows
            progress(written, len(order))
    return hashes


def _order_by_count(counts: IntArray, *, rng: np.random.Generator) -> tuple[WordArray, Positions]:
    """Counts in rising order and where each stood, in uniformly random order where counts are equal."""
    shuffled = random_order(len(counts), rng=rng)
    words = take(counts, shuffled, np.empty(len(counts), dtype=np.uint64))
    ordered, order = sort_with_positions(words, in_place=True)
    return ordered, take(shuffled, order, np.empty_like(order))


def _group(ordered: WordArray) -> Groups:
    start = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    return ordered[start].astype(np.int64), start, np.diff(start, append=len(ordered))


def write_groups(directory: Path, groups: Groups, *, durable: bool) -> RegisteredFile:
    """Write the groups of equal count."""
    return write_file(directory / GROUPS, _as_npy(groups), durable=durable)


def _as_npy(groups: Groups) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.stack(groups).astype("<i8"), allow_pickle=False)
    return sink.getvalue()


def parts_of(record: SeriesRecord) -> CountsInParts | None:
    """What a cluster wrote of a series; None if its counts are in the store."""
    if all(file.name != PARTS for file in record.files):
        return None
    return CountsInParts(record.directory / PARTS, salt_for(LOOK_UP, record.salt))


@secret
class SeriesFiles:
    """The counts of a series, in the store or where a cluster wrote them; made by `open` in constant time."""

    def __init__(self, groups: Groups, stored: CountsInStore | CountsInParts) -> None:
        self.groups = groups
        self.n_nonzero = int(groups[2].sum())
        self._stored = stored

    @classmethod
    def open(cls, directory: Path, record: SeriesRecord) -> SeriesFiles:
        """Open the files of a series."""
        paths = {file.name: check_file(directory, file) for file in record.files}
        if GROUPS not in paths or not ({PARTS} <= set(paths) or {COUNTS, SUPPORT} <= set(paths)):
            raise StoreDamagedError(f"{directory} is not the directory of a whole series; restore a backup")
        if PARTS in paths:
            parts = CountsInParts(paths[PARTS], salt_for(LOOK_UP, record.salt))
            parts.check()
            stored: CountsInStore | CountsInParts = parts
        else:
            stored = CountsInStore(paths[COUNTS], paths[SUPPORT], record.salt)
        files = cls(_read_groups(paths[GROUPS]), stored)
        if stored.n_rows != files.n_nonzero:
            raise altered(paths[GROUPS])
        return files

    def keys(self, positions: IntArray) -> pl.DataFrame:
        """The keys at some positions, in the order asked, sharing no memory with any other key."""
        return self._stored.rows(np.asarray(positions, dtype=np.int64))

    def positions(self, keys: pl.DataFrame) -> IntArray:
        """Where keys stand among the counts; -1 for those without a count."""
        found = np.full(keys.height, -1, dtype=np.int64)
        keys = keys.select(self._stored.columns)
        for asked, position in self._stored.candidates(keys):
            same = _equal(keys[asked], self.keys(position))
            found[asked[same]] = position[same]
        return found

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        """Which keys have a count; the arguments are those of `positions`."""
        return self.positions(keys) >= 0

    def all_keys(self) -> pl.DataFrame:
        """Every key, in the order of positions; reads the whole file."""
        return self._stored.whole(self._stored.columns)

    def all_counted(self) -> pl.DataFrame:
        """Every key with its count, in the order of positions; reads the whole file."""
        return self._stored.whole([*self._stored.columns, _COUNT])


@secret
class CountsInStore:
    """Counts and hashes of keys in files of the store, memory-mapped; `CountsInParts` has the same to be called."""

    def __init__(self, counts: Path, support: Path, salt: bytes) -> None:
        import pyarrow as pa

        self._path, self._support_path, self._salt = counts, support, salt
        try:
            self._counts = pa.ipc.open_file(pa.memory_map(str(counts)))
            self._batch_rows = int(self._counts.schema.metadata[_BATCH_ROWS_KEY])
            last = self._counts.num_record_batches - 1
            rest = self._counts.get_batch(last).num_rows if last >= 0 else 0
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            raise_alone(altered(counts))
        self.n_rows = max(last, 0) * self._batch_rows + rest
        self.columns = [name for name in self._counts.schema.names if name != _COUNT]

    def rows(self, positions: IntArray) -> pl.DataFrame:
        """The keys at some positions, in the order asked, sharing no memory with any other key."""
        return pl.DataFrame(pl.from_arrow(self._take(positions)))

    def whole(self, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of all rows, count among them, in the order of positions."""
        import pyarrow as pa

        try:
            return pl.DataFrame(pl.from_arrow(self._counts.read_all().select(list(columns))))
        except (pa.ArrowException, OSError):
            raise_alone(altered(self._path))

    def candidates(self, keys: pl.DataFrame) -> Iterator[tuple[IntArray, IntArray]]:
        """Rows that may be those of keys: pairs of (row of `keys`, position), every row that is among them."""
        return Support(self._support_path).candidates(hash_keys(keys, self._salt))

    def _take(self, positions: IntArray) -> pa.Table:
        import pyarrow as pa

        if len(positions) and not (positions.min() >= 0 and positions.max() < self.n_rows):
            raise altered(self._path)
        batch = positions // self._batch_rows
        order = None
        if np.any(np.diff(batch) < 0):
            order = np.argsort(batch, kind="stable")
            positions, batch = positions[order], batch[order]
        parts = list(self._parts(positions, batch))
        schema = pa.schema([self._counts.schema.field(name) for name in self.columns])
        table = pa.Table.from_batches(parts, schema=schema)
        if order is None:
            return table
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return table.take(arrow_array(back))

    def _parts(self, positions: IntArray, batch: IntArray) -> Iterator[pa.RecordBatch]:
        """One piece for each batch that is asked for, copied out of the mapped file."""
        import pyarrow as pa

        bounds = np.flatnonzero(np.diff(batch, prepend=-1, append=-1 if len(batch) else []))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            number = int(batch[low])
            try:
                rows = self._counts.get_batch(number).select(self.columns)
                yield rows.take(arrow_array(positions[low:high] - number * self._batch_rows))
            except (pa.ArrowException, OSError):
                raise_alone(altered(self._path))


def _equal(left: pl.DataFrame, right: pl.DataFrame) -> BoolArray:
    same = np.ones(left.height, dtype=np.bool_)
    for one, other in zip(left.iter_columns(), right.iter_columns(), strict=True):
        same &= (one == other).to_numpy()
    return same


def _read_groups(path: Path) -> Groups:
    with disk_errors(path):
        try:
            count, start, size = np.load(path, allow_pickle=False)
        except (ValueError, TypeError, EOFError):
            raise_alone(altered(path))
    return count, start, size
