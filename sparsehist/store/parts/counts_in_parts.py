"""Counts that lie in many Parquet files, written by a cluster: a round reads the row groups of what it publishes.

There are two copies. `counts` is sorted by count and, among equal counts, by a keyed hash of the key, over all files:
so a position says in which file and row group its row is. `support` is sorted by another keyed hash of the key and
says in which file and row of the first a key is: that is where candidate empty keys are looked up. The store keeps
which files there are, how large, with what digest, and how many rows each of their row groups has. Both copies are as
secret as the log.

    hash of a key = the first 60 bits of SHA-256 of the salt in hexadecimal and, of each column, a NUL and its text

Collisions cost a comparison: the key itself decides.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from sparsehist.errors import StoreDamagedError, StoreError, raise_alone
from sparsehist.store.private_files import altered, read_json, write_file
from sparsehist.store.records import RegisteredFile
from sparsehist.store.statements import statement
from sparsehist.typing import IntArray, secret

PARTS = "parts"
COUNTS, SUPPORT = "counts", "support"
HASH, FILE, ROW = "hash", "file", "row"
HASH_DIGITS = 15
"""Of a SHA-256, in hexadecimal: what a signed number of 64 bits holds."""
_BLOCK = 1 << 22
_PATIENCE = 60
"""Seconds for which Google Cloud Storage is asked again where it does not answer; its library would take 900."""
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
Groups = tuple[IntArray, IntArray, IntArray]
"""The groups of equal count, (G,) each: count (strictly rising), first position among the counts, cells."""


@secret
@dataclass(frozen=True)
class PartFile:
    """A file: its name, size in bytes, digest and rows of each row group; of support also the lowest hash of each."""

    name: str
    size: int
    digest: str
    rows: list[int]
    lowest: list[int]


def register_parts(
    directory: Path,
    place: str,
    groups: Groups,
    digests: Mapping[str, str],
    dtypes: Sequence[pl.DataType],
    *,
    durable: bool,
) -> RegisteredFile:
    """Check what a cluster wrote, and note down which files there are; `digests` by their names."""
    with _reading(place):
        counts, edges = _listed(place, COUNTS, "count", digests)
        support, hashes = _listed(place, SUPPORT, HASH, digests)
    count, start, size = groups
    ends = np.cumsum([n for part in counts for n in part.rows])
    firsts = np.concatenate([[0], ends])[:-1]
    # Row groups hold the counts that the groups say there are at their positions: so the files are sorted throughout.
    expected = np.stack([count[np.searchsorted(start, at, side="right") - 1] for at in (firsts, ends - 1)], axis=1)
    whole = ends[-1:].tolist() == [size.sum()] == [sum(n for part in support for n in part.rows)]
    if not whole or not np.array_equal(edges, expected):
        raise StoreError(f"{shown_place(place)}: what was written is not whole or not in order; count again")
    if (np.diff(hashes.ravel()) < 0).any():
        raise StoreError(f"{shown_place(place)}: what was written for look-ups is not in order; count again")
    about = {
        "place": place,
        "dtypes": [str(dtype) for dtype in dtypes],
        COUNTS: [asdict(part) for part in counts],
        SUPPORT: [asdict(part) for part in support],
    }
    return write_file(directory / PARTS, json.dumps(about).encode(), durable=durable)


def _listed(place: str, copy: str, column: str, digests: Mapping[str, str]) -> tuple[list[PartFile], IntArray]:
    """The files of a copy in order, and the least and greatest value of a column in each row group; shape (n, 2)."""
    from pyarrow import fs, parquet

    system, root = _found(place)
    files = system.get_file_info(fs.FileSelector(f"{root}/{copy}"))
    parts, edges = [], []
    for file in sorted(files, key=lambda file: str(file.base_name)):
        if not file.base_name.endswith(".parquet"):
            continue
        with system.open_input_file(file.path) as opened:
            about = parquet.ParquetFile(opened).metadata
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        column_at = about.schema.names.index(column)
        bounds = [group.column(column_at).statistics for group in groups if group.num_rows]
        edges += [[bound.min, bound.max] for bound in bounds]
        lowest = [bound.min for bound in bounds] if copy == SUPPORT else []
        rows = [group.num_rows for group in groups if group.num_rows]
        parts.append(PartFile(file.base_name, file.size, digests[file.base_name], rows, lowest))
    return parts, np.array(edges, dtype=np.int64).reshape(-1, 2)


class _Copy:
    """One of the two copies: its files, and where each file and row group begins."""

    def __init__(self, name: str, parts: Sequence[Mapping[str, Any]]) -> None:
        self.name, self.parts = name, [PartFile(**part) for part in parts]
        self.file_of = np.repeat(np.arange(len(self.parts)), [len(part.rows) for part in self.parts])
        self.number = np.concatenate([np.arange(0), *(np.arange(len(part.rows)) for part in self.parts)])
        sizes = np.array([n for part in self.parts for n in part.rows], dtype=np.int64)
        self.first: IntArray = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.lowest: IntArray = np.array([low for part in self.parts for low in part.lowest], dtype=np.int64)
        totals = [sum(part.rows) for part in self.parts]
        self.start_of = dict(zip((part.name for part in self.parts), np.cumsum([0, *totals]).tolist(), strict=False))


@secret
class CountsInParts:
    """The keys of a series in the files of a cluster; opening reads the list of files and nothing else."""

    def __init__(self, path: Path, salt: bytes) -> None:
        try:
            about = read_json(path)
            self._place, dtypes = str(about["place"]), about["dtypes"]
            self._counts, self._support = (_Copy(name, about[name]) for name in (COUNTS, SUPPORT))
            known = {str(dtype): dtype for dtype in (pl.String(), pl.Int64(), pl.UInt64(), pl.Date(), pl.Boolean())}
            self._dtypes = {f"key_{i}": known[name] for i, name in enumerate(dtypes)}
        except (ValueError, KeyError, TypeError):
            raise_alone(altered(path))
        self._salt = salt

    @property
    def columns(self) -> list[str]:
        return list(self._dtypes)

    @property
    def n_rows(self) -> int:
        return int(self._counts.first[-1])

    def rows(self, positions: IntArray) -> pl.DataFrame:
        order = np.argsort(positions, kind="stable")
        pieces = [self._none(self.columns), *self._rows(positions[order], self.columns)]
        found = pl.concat(pieces)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return found[back]

    def whole(self, columns: Sequence[str]) -> pl.DataFrame:
        return pl.concat([self._none(columns), *self._rows(np.arange(self.n_rows), columns)])

    def candidates(self, keys: pl.DataFrame) -> Iterator[tuple[IntArray, IntArray]]:
        hashes, lowest = hash_texts(keys, self._salt), self._support.lowest
        # A hash may stand at the end of a row group and at the beginning of those after it.
        first = np.maximum(np.searchsorted(lowest, hashes, side="left") - 1, 0)
        spans = np.searchsorted(lowest, hashes, side="right") - first
        asked = np.repeat(np.arange(len(hashes)), spans)
        group = np.repeat(first, spans) + np.arange(len(asked)) - np.repeat(np.cumsum(spans) - spans, spans)
        order = np.argsort(group, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
            with self._opened(self._support, int(group[some[0]])) as read:
                held = read([HASH])[HASH].to_numpy()
                low, high = (np.searchsorted(held, hashes[asked[some]], side=side) for side in _SIDES)
                counts = high - low
                if not counts.any():
                    continue
                table = read([FILE, ROW])
            places = np.repeat(low, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            names, rows = (column.to_numpy()[places] for column in (table[FILE], table[ROW]))
            starts = np.array([self._counts.start_of[name] for name in names.tolist()], dtype=np.int64)
            yield np.repeat(asked[some], counts), starts + rows

    def check(self) -> None:
        """Compare names and sizes of the files with what is known of them: before a round draws anything."""
        from pyarrow import fs

        with _reading(self._place):
            system, root = _found(self._place)
            for copy in (self._counts, self._support):
                held = {
                    file.base_name: file.size for file in system.get_file_info(fs.FileSelector(f"{root}/{copy.name}"))
                }
                if any(held.get(part.name) != part.size for part in copy.parts):
                    raise _altered(self._place)

    def verify(self) -> None:
        """Compare every file with its digest; reads all of them."""
        with _reading(self._place):
            system, root = _found(self._place)
            for copy in (self._counts, self._support):
                for part in copy.parts:
                    if _digest(system, f"{root}/{copy.name}/{part.name}") != part.digest:
                        raise _altered(self._place)

    def erase(self) -> None:
        """Remove the files; where they are gone already, nothing is left to do."""
        erase_parts(self._place)

    def _none(self, columns: Sequence[str]) -> pl.DataFrame:
        return pl.DataFrame(schema={name: self._dtypes.get(name, pl.Int64()) for name in columns})

    def _rows(self, positions: IntArray, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows at rising positions, row group by row group, in canonical dtypes."""
        if len(positions) and not 0 <= positions[0] <= positions[-1] < self.n_rows:
            raise _altered(self._place)
        first = self._counts.first
        group = np.searchsorted(first, positions, side="right") - 1
        for some in np.split(np.arange(len(group)), np.flatnonzero(np.diff(group)) + 1) if len(group) else ():
            number = int(group[some[0]])
            with self._opened(self._counts, number) as read:
                table = read(list(columns)).take(arrow_array(positions[some] - first[number]))
            frame = pl.DataFrame(pl.from_arrow(table))
            yield frame.cast({name: self._dtypes.get(name, pl.Int64()) for name in columns})

    @contextmanager
    def _opened(self, copy: _Copy, group: int) -> Iterator[Callable[[list[str]], Any]]:
        """Reads columns of a row group, counted over all files."""
        import pyarrow as pa
        from pyarrow import parquet

        part = copy.parts[copy.file_of[group]]
        with _reading(self._place):
            system, root = _found(self._place)
            path = f"{root}/{copy.name}/{part.name}"
            with system.open_input_file(path) as opened:
                if opened.size() != part.size:
                    raise _altered(self._place)
                try:
                    file = parquet.ParquetFile(opened, page_checksum_verification=True)
                    number = int(copy.number[group])
                    if file.metadata.row_group(number).num_rows != part.rows[number]:
                        raise _altered(self._place)
                    yield lambda columns: file.read_row_group(number, columns=columns)
                except (pa.ArrowException, OSError, KeyError):
                    if _digest(system, path) == part.digest:  # what cannot be reached fails here again
                        raise
                    raise_alone(_altered(self._place))


def erase_parts(place: str, *, begun: bool = True) -> None:
    """Remove what a cluster wrote, whole or not; where it is gone already, nothing is left to do.

    If it wrote for sure (`begun`), what the place lies in has to be there: a disk may be out of reach.
    """
    from pyarrow import fs

    with _reading(place, "cannot be erased: remove what lies there, which is as secret as the log"):
        system, root = _found(place)
        there = fs.FileSelector(root, allow_not_found=True, recursive=True)
        if system.get_file_info(there):
            with suppress(FileNotFoundError):  # what stands for a folder of an object store may go with its files
                system.delete_dir(root)
        elif begun and system.get_file_info(root.rpartition("/")[0]).type == fs.FileType.NotFound:
            raise OSError
        if any(found.is_file for found in system.get_file_info(there)):
            raise OSError


def hash_texts(keys: pl.DataFrame, salt: bytes) -> IntArray:
    """Hash keys as the cluster did; shape (n,)."""
    import duckdb

    texts = keys.select(
        text=pl.concat_str(
            part
            for name, dtype in keys.schema.items()
            for part in (
                pl.lit("\0"),
                (pl.col(name).to_physical() if dtype == pl.Date else pl.col(name)).cast(pl.String),
            )
        )
    )
    with duckdb.connect(":memory:") as connection:
        connection.register("texts", texts)
        hashes: IntArray = connection.execute(statement("parts_hash"), {"salt": salt.hex()}).fetchnumpy()["hash"]
    return hashes


def _digest(system: Any, path: str) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with system.open_input_stream(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _found(place: str) -> tuple[Any, str]:
    """The file system of a place and the path in it."""
    from pyarrow import fs

    place = place.replace("s3a://", "s3://", 1)
    if place.startswith("gs://"):
        place += f"?retry_limit_seconds={_PATIENCE}"
    found: tuple[Any, str] = fs.FileSystem.from_uri(place)
    return found


@contextmanager
def _reading(place: str, failed: str = "cannot be read: the counts of the series lie there") -> Iterator[None]:
    """Say which place it was that could not be read; a URL without what may give access to it."""
    import pyarrow as pa

    try:
        yield
    except StoreError:
        raise
    except (pa.ArrowException, OSError, KeyError):
        raise_alone(StoreError(f"{shown_place(place)} {failed}"))


def shown_place(place: str) -> str:
    """A place without what may give access to it."""
    return re.sub(r"(?<=://)[^/@]*@|\?.*", "", place)


def _altered(place: str) -> StoreDamagedError:
    return StoreDamagedError(f"{shown_place(place)} was altered; restore what the cluster wrote there from a copy")


def arrow_array(values: IntArray) -> Any:
    """The same numbers as an Arrow array; `pa.array` would import pandas where that is installed."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))]
    )
