"""In which periods a unit counts where it counts in some only: the first that were added, first come, first kept.

Whether a unit counts in a period depends on that unit alone: on the periods added before in which it has a row that
may count. What others do, the engine, and the order of rows change nothing. Each period keeps a list of the units
that count in it, as secret as the log, in the directory of its series: it stands or falls with it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sparsehist.errors import RefusedError, StoreInUseError, raise_alone
from sparsehist.ledger.ledger import Ledger
from sparsehist.release.steps import comparable_units, kind_of_all
from sparsehist.store import RegisteredFile, SeriesRecord, State, write_file
from sparsehist.store.private_files import altered, verify_file

UNITS = "units"


class FirstPeriods:
    """Keeps the units of a period that counted in fewer than `most_periods` before. Holds secrets."""

    def __init__(self, population: str, most_periods: int) -> None:
        self._population, self._most = population, most_periods
        self._seen: list[str] = []
        self._full = pl.DataFrame()
        self._kind = ""
        self._units = pl.Series("unit", [])

    def __repr__(self) -> str:
        return f"FirstPeriods({self._population!r}, most_periods={self._most})"

    def begin(self, state: State) -> None:
        """Read who counted in how many periods."""
        records = periods_of(state, self._population)
        gone = [path for path in Ledger.of(state).of_population(self._population) if path.dropped and path.releases]
        if gone or any(_file(record) is None for record in records):
            raise RefusedError(
                f"who counted in the periods of {self._population!r} was erased, by finish or by dropping one that "
                "was released: nothing more can be added"
            )
        self._seen = [record.series_id for record in records]
        if not records:
            return
        tables = [_read(record) for record in records]
        kinds = {kind for kind, table in tables if table.height}
        self._kind = kinds.pop() if kinds else ""
        counted = pl.concat([table for kind, table in tables if kind == self._kind] or [tables[0][1]])
        self._full = counted.group_by("unit").len().filter(pl.col("len") >= self._most).select("unit")

    def kept(self, pairs: pl.DataFrame, columns: str | Sequence[str]) -> pl.DataFrame:
        """The pairs of units, of these columns, that count in this period."""
        units, kind = comparable_units(pairs["unit"], columns)
        pairs = pairs.with_columns(units.alias("unit"))
        self._kind = kind_of_all(self._kind, kind, "periods")
        if self._full.height:
            pairs = pairs.join(self._full, on="unit", how="anti")
        self._units = pairs["unit"].unique()
        return pairs

    def check(self, state: State) -> None:
        """Refuse to commit what was chosen before another period was added."""
        if [record.series_id for record in periods_of(state, self._population)] != self._seen:
            raise StoreInUseError(
                f"a period of {self._population!r} was added or dropped meanwhile, and units of both may count in "
                "one of them only: nothing was written, begin again"
            )

    def files(self, directory: Path, *, durable: bool) -> list[RegisteredFile]:
        """Write who counts in this period; with their kind as the name of the column."""
        sink = io.BytesIO()
        frame = self._units.alias(self._kind).to_frame().sort(self._kind)
        frame.write_ipc(sink, compat_level=pl.CompatLevel.oldest())
        return [write_file(directory / UNITS, sink.getbuffer(), durable=durable)]


def periods_of(state: State, population: str) -> list[SeriesRecord]:
    """The series of the periods that were added, in that order."""
    return [record for record in state.all_series() if record.population == population]


def _file(record: SeriesRecord) -> RegisteredFile | None:
    return next((file for file in record.files if file.name == UNITS), None)


def _read(record: SeriesRecord) -> tuple[str, pl.DataFrame]:
    file = _file(record)
    path = record.directory / UNITS
    if file is not None:
        verify_file(record.directory, file)
    try:
        frame = pl.read_ipc(path)
    except (pl.exceptions.PolarsError, OSError):
        raise_alone(altered(path))
    return frame.columns[0], frame.rename({frame.columns[0]: "unit"})
