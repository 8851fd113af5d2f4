"""Functions on cells that are as smooth as the distance from both ends: known at a few cells, interpolated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from sparsehist.typing import FloatArray, IntArray

# Panels of up to this many cells are computed cell by cell.
_PLAIN = 64
# Chebyshev nodes on a panel no nearer to an end than it is long: an error of about 3e-13.
_NODES = 14


def on_panels(size: int, at: Callable[[IntArray], FloatArray], *, plain: int = _PLAIN) -> FloatArray:
    """Values at all cells 0, …, size − 1 from those at Chebyshev nodes of panels that double away from both ends.

    Args:
        size: Number of cells.
        at: Gives the values at some cells.
        plain: Cells at both ends that are asked for one by one; longer panels are interpolated.

    Returns:
        Shape (size,).
    """
    values = np.empty(size)
    for first, last in _panels(size, plain):
        if last - first <= _PLAIN or first < plain or last > size - plain:
            values[first:last] = at(np.arange(first, last))
            continue
        nodes = first + chebyshev_nodes(last - first)
        values[first:last] = _interpolated(nodes, at(nodes), first, last)
    return values


def chebyshev_nodes(count: int) -> IntArray:
    """The cells of 0, …, count − 1 next to the nodes of Chebyshev; sorted."""
    angles = (2 * np.arange(_NODES) + 1) * np.pi / (2 * _NODES)
    return np.unique(np.rint((count - 1 - (count - 1) * np.cos(angles)) / 2).astype(np.int64))


def _panels(size: int, plain: int) -> list[tuple[int, int]]:
    edges, step = [0], plain
    while edges[-1] + step < size // 2:
        edges.append(edges[-1] + step)
        step = edges[-1]
    borders = sorted({*edges, *(size - edge for edge in edges), *([size // 2] if size > 2 * plain else [])})
    return list(pairwise(borders))


def _interpolated(nodes: IntArray, given: FloatArray, first: int, last: int) -> FloatArray:
    """The polynomial through the nodes, by Newton's divided differences on [−1, 1]."""
    middle, half = (first + last - 1) / 2, (last - 1 - first) / 2
    places: FloatArray = np.asarray((nodes - middle) / half, np.float64)
    order = _leja(places)
    places, differences = places[order], given[order].astype(np.float64)
    for depth in range(1, places.size):
        differences[depth:] = (differences[depth:] - differences[depth - 1 : -1]) / (
            places[depth:] - places[: places.size - depth]
        )
    at = (np.arange(first, last) - middle) / half
    values = np.full(at.size, differences[-1])
    for depth in range(places.size - 2, -1, -1):
        values *= at - places[depth]
        values += differences[depth]
    return values


def _leja(places: FloatArray) -> IntArray:
    """The order that keeps divided differences small."""
    order = [int(np.argmax(np.abs(places)))]
    logs = np.zeros(places.size)
    for _ in range(places.size - 1):
        with np.errstate(divide="ignore"):
            logs += np.log(np.abs(places - places[order[-1]]))
        order.append(int(np.argmax(logs)))
    return np.asarray(order)
