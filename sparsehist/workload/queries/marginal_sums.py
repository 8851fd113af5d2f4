"""Exact sums of counts over marginals, many at a time.

Each pass over the cells makes one joint table, from which every marginal of its columns is summed. Columns are packed
into blocks first, so that a joint table is one of a few blocks: all 435 pairs of 30 columns of 4 or 5 values take 45
passes of one multiplication and one addition each. Measured over a million cells: a fifth of the time of one
`bincount` a marginal, which is itself faster than a GROUP BY.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsehist.typing import FloatArray, IntArray, NDArray
from sparsehist.workload.queries.cells import Cells

Subset = tuple[int, ...]

_JOINT = 2**15
"""Most cells of a joint table: 256 kB, so that it stays in the cache of a core."""

_PIECE = 2**16
"""Cells counted at a time, for the same reason."""

_EXACT = 2**53
"""Sums below this are exact in float64, which `bincount` adds in."""


def marginal_sums(cells: Cells, subsets: Sequence[Subset]) -> list[IntArray]:
    """Sum counts over all cells that agree on some columns, for each subset of columns (ascending). Secret.

    Returns:
        For each marginal an int64 array, one axis per column.
    """
    if float(cells.counts.sum(dtype=np.float64)) < _EXACT / 2:
        return _sums(cells, cells.counts.astype(np.float64), subsets)
    high = _sums(cells, (cells.counts >> 26).astype(np.float64), subsets)
    low = _sums(cells, (cells.counts & (2**26 - 1)).astype(np.float64), subsets)
    return [(above << 26) + below for above, below in zip(high, low, strict=True)]


def _sums(cells: Cells, weights: FloatArray, subsets: Sequence[Subset]) -> list[IntArray]:
    answers: dict[int, IntArray] = {}
    limit = min(_JOINT, max(64, len(weights)))
    blocks = _pack([cells.shape[column] for column in range(len(cells.shape))], subsets, limit)
    codes: dict[Subset, NDArray[np.integer]] = {}
    for joint, served in _joints(cells.shape, subsets, blocks, limit):
        columns = [column for block in joint for column in block]
        sizes = [cells.shape[column] for column in columns]
        for block in joint:
            if block not in codes:
                codes[block] = _code(cells, block)
        widths = [math.prod(cells.shape[column] for column in block) for block in joint]
        table = _count([codes[block] for block in joint], widths, weights).reshape(sizes)
        for place in served:
            wanted = subsets[place]
            summed = table.sum(axis=tuple(axis for axis, column in enumerate(columns) if column not in wanted))
            # what is left stands in the order of the blocks, which is not always ascending
            left = [column for column in columns if column in wanted]
            answers[place] = np.rint(np.transpose(summed, np.argsort(left))).astype(np.int64)
    return [answers[place] for place in range(len(subsets))]


def _pack(sizes: Sequence[int], subsets: Sequence[Subset], limit: int) -> list[Subset]:
    """Pack the columns asked about into blocks, first fit, so small that those of a marginal fit together."""
    longest = max(map(len, subsets), default=0)
    room = limit ** (1.0 / max(longest, 1))
    blocks: list[list[int]] = []
    for column in sorted({column for subset in subsets for column in subset}, key=lambda column: -sizes[column]):
        for block in blocks:
            if math.prod(sizes[member] for member in block) * sizes[column] <= room:
                block.append(column)
                break
        else:
            blocks.append([column])
    return [tuple(sorted(block)) for block in blocks]


def _joints(
    sizes: Sequence[int], subsets: Sequence[Subset], blocks: Sequence[Subset], limit: int
) -> list[tuple[tuple[Subset, ...], list[int]]]:
    """Say which blocks to count together, and which marginals are summed from that."""
    block_of = {column: block for block in blocks for column in block}
    joints: dict[frozenset[Subset], list[int]] = {}
    for place in sorted(range(len(subsets)), key=lambda place: -len(subsets[place])):
        subset = subsets[place]
        touched = frozenset(block_of[column] for column in subset)
        if math.prod(sizes[column] for block in touched for column in block) > limit:
            touched = frozenset((column,) for column in subset)
        home = touched if touched in joints else next((made for made in joints if touched < made), touched)
        joints.setdefault(home, []).append(place)
    return [(tuple(sorted(joint)), served) for joint, served in joints.items()]


def _code(cells: Cells, block: Subset) -> NDArray[np.integer]:
    """Number the values of a block of columns, in as few bytes as they need: the passes read them over and over."""
    width = math.prod(cells.shape[column] for column in block)
    code = np.zeros(len(cells.counts), np.int64)
    for column in block:
        code *= cells.shape[column]
        code += cells.coordinates[column]
    return code.astype(np.uint16) if width < 2**16 else code


def _count(codes: Sequence[NDArray[np.integer]], widths: Sequence[int], weights: FloatArray) -> FloatArray:
    """Weights by joint code."""
    table = np.zeros(math.prod(widths))
    piece = max(_PIECE, len(table))
    number = np.empty(min(piece, len(weights)), np.intp)
    for start in range(0, len(weights), piece):
        stop = min(start + piece, len(weights))
        joint = number[: stop - start]
        joint[:] = 0
        for place, (code, width) in enumerate(zip(codes, widths, strict=True)):
            if place:
                joint *= width
            joint += code[start:stop]
        table += np.bincount(joint, weights[start:stop], minlength=len(table))
    return table
