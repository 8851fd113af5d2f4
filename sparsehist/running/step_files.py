"""What is kept of a running series: keys, new units of each key by step, and the (unit, key) pairs that counted.

Three files a step, written once and vouched for in the transaction that appends it: the keys that occur for the first
time, which are numbered in that order for good; for each key with new units its number and how many; and the pairs.
The pairs are as secret as the log, and are erased when nothing more is to be appended.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from sparsehist.domain.base import key_names
from sparsehist.errors import StoreDamagedError, raise_alone
from sparsehist.store import RegisteredFile, SeriesRecord, State
from sparsehist.store.private_files import check_file, disk_errors
from sparsehist.typing import IntArray

_KEYS, _COUNTS, _PAIRS = "keys", "counts", "pairs"


class StepFiles:
    """The files of a running series as far as it was appended; nothing is read until it is asked for. Secret."""

    def __init__(self, state: State, record: SeriesRecord, dtypes: Sequence[pl.DataType]) -> None:
        self._directory = record.directory
        self._schema = dict(zip(key_names(len(dtypes)), dtypes, strict=True))
        self._files: dict[tuple[int, str], RegisteredFile] = {}
        for path in state.paths(record):
            for file in path.files:
                step, part = file.name.rpartition("-")[2].split(".")
                self._files[int(step), part] = file
        self.n_steps = len(state.steps(record))

    def __repr__(self) -> str:
        return f"StepFiles(steps={self.n_steps})"

    @property
    def pair_files(self) -> list[str]:
        """Names of the files that say who counted."""
        return [file.name for (_, part), file in self._files.items() if part == _PAIRS]

    @cached_property
    def all_keys(self) -> pl.DataFrame:
        """Every key that ever had a unit, by number."""
        return pl.concat([pl.DataFrame(schema=self._schema), *map(self._frame, self._parts(_KEYS))])

    def keys(self, numbers: IntArray) -> pl.DataFrame:
        """Keys by their numbers, in the order asked."""
        return self.all_keys[numbers]

    def numbers(self, keys: pl.DataFrame) -> IntArray:
        """The number of each key, -1 for those that never had a unit."""
        known = self.all_keys.with_row_index("number")
        found = keys.select(list(self._schema)).join(known, on=list(self._schema), how="left", maintain_order="left")
        return found["number"].cast(pl.Int64).fill_null(-1).to_numpy()

    def counts_at(self, steps: Sequence[int], n_keys: int) -> IntArray:
        """Running counts of all keys at some steps, ascending: shape (steps, keys)."""
        counts = np.zeros((len(steps), n_keys), np.int64)
        running = np.zeros(n_keys, np.int64)
        place = {step: i for i, step in enumerate(steps)}
        for step, (numbers, units) in enumerate(self._increments(max(steps, default=-1))):
            running[numbers] += units
            if step in place:
                counts[place[step]] = running
        return counts

    def counts_of(self, numbers: IntArray, steps: Sequence[int], n_keys: int) -> IntArray:
        """Running counts of some keys, all different, at some steps, ascending: shape (steps, q)."""
        place = np.full(n_keys, -1, np.int64)
        place[numbers] = np.arange(numbers.size)
        counts = np.zeros((len(steps), numbers.size), np.int64)
        running = np.zeros(numbers.size, np.int64)
        row = {step: i for i, step in enumerate(steps)}
        for step, (changed, units) in enumerate(self._increments(max(steps, default=-1))):
            at = place[changed]
            running[at[at >= 0]] += units[at >= 0]
            if step in row:
                counts[row[step]] = running
        return counts

    def pairs_of(self, units: pl.Series) -> pl.DataFrame:
        """The pairs of some units that counted: columns unit and number of the key."""
        wanted = units.unique().to_frame("unit").lazy()
        pairs = [pl.scan_ipc(path) for path in self._parts(_PAIRS)]
        if not pairs:
            return pl.DataFrame(schema={"unit": units.dtype, "number": pl.Int64})
        return pl.concat(pairs).join(wanted, on="unit", how="semi").collect()

    def _increments(self, last: int) -> Iterator[tuple[IntArray, IntArray]]:
        for step in range(last + 1):
            path = self._path(step, _COUNTS)
            with disk_errors(path):
                numbers, units = np.fromfile(path, "<i8").reshape(2, -1)
            yield numbers, units

    def _parts(self, part: str) -> list[Path]:
        return [self._path(step, part) for step in range(self.n_steps)]

    def _path(self, step: int, part: str) -> Path:
        if (step, part) not in self._files:
            raise StoreDamagedError(f"{self._directory} is not the directory of a whole series; restore a backup")
        return check_file(self._directory, self._files[step, part])

    def _frame(self, path: Path) -> pl.DataFrame:
        try:
            return pl.read_ipc(path).select(pl.col(n).cast(t) for n, t in self._schema.items())
        except (pl.exceptions.PolarsError, OSError):
            raise_alone(_altered(path))


def write_step(
    state: State, record: SeriesRecord, step: int, *, keys: pl.DataFrame, new_units: pl.DataFrame, pairs: pl.DataFrame
) -> list[RegisteredFile]:
    """Write the files of a step.

    Args:
        state: Held.
        record: The series.
        step: From 0.
        keys: Those that occur for the first time; columns key_0, …
        new_units: Columns number and units.
        pairs: Columns unit and number.
    """
    columns = [new_units[name].cast(pl.Int64).to_numpy() for name in ("number", "units")]
    counts = io.BytesIO(np.stack(columns).astype("<i8").tobytes())
    parts = {_KEYS: _as_ipc(keys), _COUNTS: counts, _PAIRS: _as_ipc(pairs)}
    return [state.write_attachment(record, f"-{step}.{part}", content.getbuffer()) for part, content in parts.items()]


def _as_ipc(frame: pl.DataFrame) -> io.BytesIO:
    """In the oldest Arrow layout, which every later reader knows."""
    sink = io.BytesIO()
    frame.write_ipc(sink, compat_level=pl.CompatLevel.oldest())
    return sink


def _altered(path: Path) -> StoreDamagedError:
    return StoreDamagedError(f"{path} was altered; restore the store from a backup")
