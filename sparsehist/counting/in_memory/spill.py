"""Rows that wait on disk, in parts by their units: each part is read back, and counted alone.

A piece is written with the rows of each part together; where its parts end is remembered.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from sparsehist.counting.contract import Codes32
from sparsehist.counting.in_memory.codes import LogColumn, by_first_bits, taken, value_hash
from sparsehist.typing import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

PART_BITS = 6
PARTS = 1 << PART_BITS
READ_AT_ONCE = 1 << 19


class Spill:
    """Units and the codes of their keys, on disk. Secret.

    Whole numbers are written as they are, text as its bytes, with their lengths in a file of their own.

    Args:
        directory: A private one.
        dtype: Of the units, as `plain` makes them.
    """

    def __init__(self, directory: Path, dtype: pl.DataType) -> None:
        self._directory = directory
        self._text = dtype == pl.String
        self._seed = secrets.randbits(64)
        self._files: dict[str, BinaryIO] = {}
        self._ends: dict[str, list[IntArray]] = {}
        self._unread = set(range(PARTS))

    def __repr__(self) -> str:
        return "Spill()"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep the files open for `write`, which one thread calls."""
        with ExitStack() as stack:
            for column in ("units", "codes", *(["lengths"] if self._text else [])):
                self._files[column] = stack.enter_context((self._directory / column).open("wb", buffering=0))
                self._ends[column] = [np.zeros(PARTS + 1, dtype=np.int64)]
            yield

    def parted(self, units: LogColumn, codes: Codes32) -> tuple[pl.Series, Codes32, list[int]]:
        """Bring the rows of each part together; returns where each part ends, too."""
        hashes = value_hash(units.values, self._seed)
        order, ends = by_first_bits(hashes if units.places is None else hashes[units.places], PART_BITS)
        places = order if units.places is None else units.places[order]
        return taken(units.values, places), codes[order], ends

    def write(self, units: pl.Series, codes: Codes32, ends: list[int]) -> None:
        """Write rows that `parted` has put in order."""
        if not codes.size:
            return
        self._write("codes", codes, ends)
        if not self._text:
            self._write("units", units.to_numpy(), ends)
            return
        text: pa.LargeStringArray = units.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        _, offsets, held = text.buffers()
        starts = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
        self._write("lengths", np.diff(starts).astype(np.uint32), ends)
        if held is not None:
            self._write("units", np.frombuffer(held, dtype=np.uint8), [int(starts[end]) for end in ends])

    def together(self) -> list[list[int]]:
        """Parts that are read together: of a small log several, since each reading has its price."""
        rows = np.diff(self._ends["codes"]).sum(axis=0)
        number = (np.cumsum(rows) - rows) // READ_AT_ONCE
        return [np.flatnonzero(number == own).tolist() for own in np.unique(number)]

    def read(self, parts: Sequence[int]) -> tuple[pl.Series, Codes32]:
        """Read parts back that follow one another; the files are gone once all are read."""
        units, codes = self._units(parts), self._read("codes", parts, np.uint32)
        self._unread.difference_update(parts)
        if not self._unread:
            for column in self._files:
                (self._directory / column).unlink(missing_ok=True)
        return units, codes

    def _units(self, parts: Sequence[int]) -> pl.Series:
        import pyarrow as pa

        if not self._text:
            return pl.Series(self._read("units", parts, np.int64))
        lengths = self._read("lengths", parts, np.uint32)
        starts = np.zeros(lengths.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=starts[1:])
        buffers = pa.py_buffer(starts), pa.py_buffer(self._read("units", parts, np.uint8))
        return pl.Series(pa.LargeStringArray.from_buffers(lengths.size, *buffers))

    def _write(self, column: str, values: np.ndarray, ends: list[int]) -> None:
        values[ends[0] : ends[-1]].tofile(self._files[column])
        self._ends[column].append(self._ends[column][-1][-1] + np.array(ends) - ends[0])

    def _read(self, column: str, parts: Sequence[int], dtype: type[np.generic]) -> np.ndarray:
        ends = np.stack(self._ends[column])[:, [parts[0], parts[-1] + 1]] * np.dtype(dtype).itemsize
        found = np.empty(int(np.diff(ends).sum()), dtype=np.uint8)
        left = found.data
        with (self._directory / column).open("rb") as file:
            for begin, end in ends.tolist():
                file.seek(begin)
                left = left[file.readinto(left[: end - begin]) :]
        return found.view(dtype)
