"""Parquet files in pieces of whole row groups, so that nothing is decoded twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Slice = tuple[str, int, int]
"""File, first row, number of rows."""


def row_group_sizes(file: str) -> list[int] | None:
    """Read from its end how many rows each row group of a file has.

    None where Arrow cannot read it; Polars reads more kinds of columns, and says what is wrong with a file that is
    not whole.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(file)
    except (pa.ArrowException, OSError):
        return None
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def pieces(row_groups: Mapping[str, Sequence[int]], rows: int) -> Iterator[list[Slice]]:
    """Divide files into pieces of at least so many rows each, but for the last.

    Args:
        row_groups: Sizes of the row groups of each file.
        rows: Least size of a piece.
    """
    piece: list[Slice] = []
    missing = rows
    for file, sizes in row_groups.items():
        start = 0
        for size in sizes:
            if piece and piece[-1][0] == file:
                piece[-1] = (file, piece[-1][1], piece[-1][2] + size)
            else:
                piece.append((file, start, size))
            start, missing = start + size, missing - size
            if missing <= 0:
                yield piece
                piece, missing = [], rows
    if piece:
        yield piece
