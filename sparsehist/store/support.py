"""Which keys have a count: sorted hashes with the positions of their rows, memory-mapped.

In the file: magic · version of the hash · k · bytes of a position · hashes, sorted (k × 8) · positions (k × 4 or 8).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsehist.errors import StoreDamagedError
from sparsehist.store.key_hash import HASH_VERSION, Words
from sparsehist.store.ordering import sort_with_positions
from sparsehist.store.private_files import AtomicFile, disk_errors
from sparsehist.store.records import IntArray, RegisteredFile

SUPPORT = "support"
_MAGIC = int.from_bytes(b"SHSUPPRT", "little")
_HEADER_WORDS = 4
_BLOCK = 1 << 20


def write_support(directory: Path, hashes: Words, *, durable: bool) -> RegisteredFile:
    """Write the hashes of the rows 0 … k−1, sorted.

    Args:
        directory: Of the series.
        hashes: Shape (k,).
        durable: Whether to wait for the disk.
    """
    ordered, positions = sort_with_positions(hashes)
    header = np.array([_MAGIC, HASH_VERSION, len(hashes), positions.itemsize], dtype="<u8")
    target = AtomicFile(directory / SUPPORT, durable=durable)
    with target as file:
        file.write(header.tobytes())
        for block in chain(_blocks(ordered), _blocks(positions)):
            file.write(block)
    return target.registered


def _blocks(array: NDArray[np.uint32 | np.uint64]) -> Iterator[memoryview]:
    for low in range(0, len(array), _BLOCK):
        block = array[low : low + _BLOCK]
        yield block.astype(block.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


class Support:
    """Looks up hashes; opening reads the header only."""

    def __init__(self, path: Path) -> None:
        with disk_errors(path), path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = np.frombuffer(mapped, dtype="<u8", count=min(_HEADER_WORDS, len(mapped) // 8)).tolist()
        if len(header) < _HEADER_WORDS or header[:2] != [_MAGIC, HASH_VERSION]:
            raise StoreDamagedError(f"{path} was altered; restore the store from a backup")
        _, _, count, width = header
        start = 8 * _HEADER_WORDS
        if width not in {4, 8} or len(mapped) != start + (8 + width) * count:
            raise StoreDamagedError(f"{path} was altered; restore the store from a backup")
        self._hashes: Words = np.frombuffer(mapped, dtype="<u8", count=count, offset=start)
        self._positions = np.frombuffer(mapped, dtype=f"<u{width}", count=count, offset=start + 8 * count)

    def candidates(self, hashes: Words) -> Iterator[tuple[IntArray, IntArray]]:
        """The rows with the hashes asked for: pairs of (index into `hashes`, position), most often one pair.

        Each pair holds at most one row for each hash; rows with equal hashes come in further pairs.
        """
        asked = np.arange(len(hashes))
        place = np.searchsorted(self._hashes, hashes)
        while True:
            inside = place < len(self._hashes)
            asked, place = asked[inside], place[inside]
            hit = self._hashes[place] == hashes[asked]
            asked, place = asked[hit], place[hit]
            if len(asked) == 0:
                return
            yield asked, self._positions[place].astype(np.int64)
            place = place + 1
