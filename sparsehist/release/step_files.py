"""What is kept of a running series: keys, new units of each key by step, and the (unit, key) pairs that counted.

Of each step one file says for each key with new units its number and how many. Keys, which are numbered for good in
the order in which they first occurred, texts of units, and pairs stand in a few runs each: a step adds one, in the
place of some before it. All files are written once, and vouched for in the transaction that appends the step. Pairs
and units are as secret as the log, and are erased when nothing more is to be appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.domain.base import key_names
from sparsehist.errors import StoreDamagedError
from sparsehist.release.runs import (
    Added,
    Numbering,
    PairRun,
    merged_numbering,
    merged_pairs,
    n_replaced,
    numbering_run,
    sealed,
)
from sparsehist.store import RegisteredFile, SeriesRecord, State
from sparsehist.store.private_files import check_file, disk_errors
from sparsehist.typing import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS, _COUNTS, _UNITS, _PAIRS = "keys", "counts", "units", "pairs"


class StepFiles:
    """The files of a running series as far as it was appended; nothing is read until it is asked for. Secret."""

    def __init__(self, state: State, record: SeriesRecord, dtypes: Sequence[pl.DataType]) -> None:
        self._directory = record.directory
        self._schema = dict(zip(key_names(len(dtypes)), dtypes, strict=True))
        self._files: dict[str, dict[int, RegisteredFile]] = {part: {} for part in (_KEYS, _COUNTS, _UNITS, _PAIRS)}
        for path in state.paths(record):
            for file in sorted(path.files, key=_step_of):
                self._files[file.name.rpartition(".")[2]][_step_of(file)] = file
        self.n_steps = len(state.steps(record))
        if len(self._files[_COUNTS]) != self.n_steps:
            raise StoreDamagedError(f"{self._directory} is not the directory of a whole series; restore a backup")

    def __repr__(self) -> str:
        return f"StepFiles(steps={self.n_steps})"

    @property
    def unit_files(self) -> list[str]:
        """Names of the files that say who counted."""
        return [file.name for part in (_UNITS, _PAIRS) for file in self._files[part].values()]

    @cached_property
    def known_keys(self) -> Numbering:
        """Every key that ever had a unit."""
        return Numbering.read(self._paths(_KEYS))

    @cached_property
    def known_units(self) -> Numbering:
        """Every text that is a unit."""
        return Numbering.read(self._paths(_UNITS))

    @cached_property
    def pair_runs(self) -> list[PairRun]:
        """The pairs that counted."""
        return [PairRun.read(path) for path in self._paths(_PAIRS)]

    @cached_property
    def all_keys(self) -> pl.DataFrame:
        """The keys by number."""
        parts = [values.cast(pl.Schema(self._schema)) for values in self.known_keys.values()]
        return pl.concat([pl.DataFrame(schema=self._schema), *parts])

    def keys(self, numbers: IntArray) -> pl.DataFrame:
        """Keys by their numbers, in the order asked."""
        return self.all_keys[numbers]

    def counts_at(self, steps: Sequence[int], n_keys: int, some: IntArray | None = None) -> IntArray:
        """Running counts of all keys, or of some that all differ, at some steps, ascending: shape (steps, keys)."""
        place = np.full(0 if some is None else n_keys, -1, np.int64)
        if some is not None:
            place[some] = np.arange(some.size)
        running = np.zeros(n_keys if some is None else some.size, np.int64)
        counts = np.zeros((len(steps), running.size), np.int64)
        row = {step: i for i, step in enumerate(steps)}
        for step, (numbers, units) in enumerate(self._increments(max(steps, default=-1))):
            if some is None:
                running[numbers] += units
            else:
                at = place[numbers]
                running[at[at >= 0]] += units[at >= 0]
            if step in row:
                counts[row[step]] = running
        return counts

    def _increments(self, last: int) -> Iterator[tuple[IntArray, IntArray]]:
        for path in self._paths(_COUNTS)[: last + 1]:
            with disk_errors(path):
                numbers, units = np.fromfile(path, "<i8").reshape(2, -1)
            yield numbers, units

    def _paths(self, part: str) -> list[Path]:
        return [check_file(self._directory, file) for file in self._files[part].values()]

    def write(self, state: State, record: SeriesRecord, new: Added) -> tuple[list[RegisteredFile], list[str]]:
        """Write what the next step adds; returns the files, and the names of those that they take the place of."""
        numbers, units = np.unique(new.pairs.keys, return_counts=True)
        content: dict[str, list[memoryview | bytes]] = {_COUNTS: [np.stack([numbers, units]).astype("<i8").tobytes()]}
        replaced: list[str] = []
        for part, values, hashes, known in (
            (_KEYS, new.keys, new.key_hashes, self.known_keys),
            (_UNITS, new.units, new.unit_hashes, self.known_units),
        ):
            if values.height:
                n = n_replaced([run.num_rows for run in known.runs], values.height)
                replaced += self._last(part, n)
                run = merged_numbering([*known.runs[len(known.runs) - n :], numbering_run(values, hashes)])
                content[part] = sealed([_as_ipc(run)])
        if new.pairs.keys.size:
            n = n_replaced([run.keys.size for run in self.pair_runs], new.pairs.keys.size)
            replaced += self._last(_PAIRS, n)
            content[_PAIRS] = sealed(merged_pairs([*self.pair_runs[len(self.pair_runs) - n :], new.pairs]).parts())
        written = [
            state.write_attachment(record, f"-{self.n_steps}.{part}", *parts) for part, parts in content.items()
        ]
        return written, replaced

    def _last(self, part: str, n: int) -> list[str]:
        names = [file.name for file in self._files[part].values()]
        return names[len(names) - n :]


def _step_of(file: RegisteredFile) -> int:
    return int(file.name.rpartition("-")[2].partition(".")[0])


def _as_ipc(table: pa.Table) -> memoryview:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return memoryview(sink.getvalue())
