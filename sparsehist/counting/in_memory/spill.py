"""Rows that wait on disk, in parts by their units: each part is read back once, and counted alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from sparsehist.counting.contract import Codes32
from sparsehist.counting.in_memory.codes import LogColumn, by_first_bits, taken, value_hash

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
        self._files: dict[tuple[str, int], BinaryIO] = {}
        self._rows = np.zeros(PARTS, dtype=np.int64)

    def __repr__(self) -> str:
        return "Spill()"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep the files open for `write`, which one thread calls."""
        with ExitStack() as stack:
            for column in ("units", "codes", *(["lengths"] if self._text else [])):
                for part in range(PARTS):
                    self._files[column, part] = stack.enter_context(self._path(column, part).open("wb", buffering=0))
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
        self._rows += np.diff(ends)
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
        number = (np.cumsum(self._rows) - self._rows) // READ_AT_ONCE
        return [np.flatnonzero(number == own).tolist() for own in np.unique(number)]

    def read(self, parts: Sequence[int]) -> tuple[pl.Series, Codes32]:
        """Read parts back; they are gone then."""
        import pyarrow as pa

        codes = self._read("codes", parts, np.uint32)
        if not self._text:
            return pl.Series(self._read("units", parts, np.int64)), codes
        starts = np.zeros(codes.size + 1, dtype=np.int64)
        np.cumsum(self._read("lengths", parts, np.uint32), out=starts[1:])
        buffers = pa.py_buffer(starts), pa.py_buffer(self._read("units", parts, np.uint8))
        return pl.Series(pa.LargeStringArray.from_buffers(codes.size, *buffers)), codes

    def _path(self, column: str, part: int) -> Path:
        return self._directory / f"{column}_{part}"

    def _write(self, column: str, values: np.ndarray, ends: list[int]) -> None:
        for part, (begin, end) in enumerate(pairwise(ends)):
            values[begin:end].tofile(self._files[column, part])

    def _read(self, column: str, parts: Sequence[int], dtype: type[np.generic]) -> np.ndarray:
        paths = [self._path(column, part) for part in parts]
        found = [np.fromfile(path, dtype=dtype) for path in paths]
        for path in paths:
            path.unlink()
        return np.concatenate(found)
