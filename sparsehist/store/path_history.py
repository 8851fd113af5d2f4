"""What happened on a noise path, and which part of which file holds the noise of a level."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from fractions import Fraction
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

from sparsehist.errors import NotFoundError
from sparsehist.privacy.levels import as_level
from sparsehist.store.database import Database
from sparsehist.store.records import RegisteredFile, ReleaseRecord
from sparsehist.store.round_file import RoundFile, RoundShape


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path in order: one release, one file and its shape each.

    Attributes:
        levels: In the order in which they were first spent.
    """

    directory: Path
    kind: str
    integer_noise: bool
    releases: tuple[ReleaseRecord, ...]
    files: tuple[RegisteredFile, ...]
    shapes: tuple[RoundShape, ...]
    levels: tuple[Fraction, ...]

    @property
    def n_tracked(self) -> int:
        """Cells published at least once, or the size of a workload's state."""
        return self.shapes[-1].n_past + self.shapes[-1].n_new if self.shapes else 0

    def new_cells(self) -> Iterator[tuple[int, slice]]:
        """The rounds that tracked new cells, with the numbers of these."""
        for number, shape in enumerate(self.shapes):
            if shape.n_new:
                yield number, slice(shape.n_past, shape.n_past + shape.n_new)

    def cells_with_noise(self, ordinal: int) -> Iterator[tuple[int, slice]]:
        """The rounds that hold noise at the level of that number, with the cells it is for."""
        for number, shape in enumerate(self.shapes):
            spent_here = shape.spends and shape.n_levels - 1 == ordinal
            first = 0 if spent_here else shape.n_past
            if shape.n_levels > ordinal and (shape.n_new or spent_here):
                yield number, slice(first, shape.n_past + shape.n_new)

    def open_round(self, number: int) -> RoundFile:
        """The file of a round."""
        return RoundFile(self.directory, self.files[number], self.shapes[number])


def read_history(database: Database, path_id: int, series: Path) -> PathHistory:
    """Read what the state knows of a noise path; no array is touched."""
    known = database.rows("state_read_path", path_id=path_id)
    if not known:
        raise NotFoundError("no such noise path")
    ((series_id, kind, integer_noise),) = known
    rows = sorted(database.rows("state_read_releases", path_id=path_id), key=itemgetter(0))
    spends = [bool(row[7]) for row in rows]
    n_levels = accumulate(spends)
    shapes = tuple(
        RoundShape(n_past, n_new, n_empty, levels, spent, integer_noise)
        for (*_, n_past, n_new, n_empty), levels, spent in zip(rows, n_levels, spends, strict=True)
    )
    releases = tuple(
        _release(path_id, row[:7], shape.n_past + shape.n_new) for row, shape in zip(rows, shapes, strict=True)
    )
    return PathHistory(
        series / series_id,
        kind,
        integer_noise,
        releases,
        tuple(RegisteredFile(*row[8:11]) for row in rows),
        shapes,
        tuple(release.level for release, spent in zip(releases, spends, strict=True) if spent),
    )


def no_history(directory: Path, kind: str, *, integer_noise: bool) -> PathHistory:
    """That of a path about to be opened."""
    return PathHistory(directory, kind, integer_noise, (), (), (), ())


class StoredJson(Mapping[str, Any]):
    """A JSON object that is read when it is first asked for: a round needs that of few releases."""

    __slots__ = ("_read", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._read: dict[str, Any] | None = None

    def _object(self) -> dict[str, Any]:
        if self._read is None:
            self._read = json.loads(self._text)
        return self._read

    def __getitem__(self, name: str) -> Any:
        return self._object()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._object())

    def __len__(self) -> int:
        return len(self._object())

    def __repr__(self) -> str:
        return repr(self._object())


def _release(path_id: int, row: tuple[Any, ...], n_tracked: int) -> ReleaseRecord:
    generation, name, level, threshold, request, metadata, released = row
    return ReleaseRecord(
        path_id=path_id,
        name=name,
        level=as_level(level),
        threshold=threshold,
        request=StoredJson(request),
        metadata=StoredJson(metadata),
        generation=generation,
        released=released.replace(tzinfo=UTC),
        n_tracked=n_tracked,
    )
