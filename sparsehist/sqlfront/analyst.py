"""A session for readers of releases: a DuckDB database in memory that contains only copies of published files.

The session never opens a store. It copies releases and the public ledger, and then locks its connection: DuckDB can
no longer use files, network or extensions, change settings or write to disk. `analyst_rules` lists what may be run.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import duckdb
import polars as pl
import pyarrow as pa

from sparsehist.errors import (
    InputError,
    NotAllowedError,
    NotFoundError,
    StatementError,
    StoreError,
    printable,
    raise_alone,
)
from sparsehist.ledger.content_digest import content_digest
from sparsehist.release.releases import AnyRelease, read
from sparsehist.sqlfront.analyst_rules import check_allowed
from sparsehist.sqlfront.engine_words import first_line
from sparsehist.sqlfront.results import TAKEN_NAMES, put, stoppable
from sparsehist.store import LEDGER_NAME, is_store, read_json
from sparsehist.store.statements import statement

_SHOW = re.compile(r"\s*show\s+(tables|ledger)\s*;?\s*", re.IGNORECASE)
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_LEDGER: dict[str, Any] = {
    **dict.fromkeys("store series release level noise round digest".split(), pl.String),
    "threshold": pl.Float64,
    "generation": pl.Int64,
}


class AnalystSession:
    """A context manager for queries of published releases.

    A release is the table `series.release`, and the public ledger is the table `ledger`.

    Example:
        >>> import sparsehist as sh
        >>> rows = pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]})
        >>> release = sh.Release(rows, {"series": "visits", "name": "public"})
        >>> with AnalystSession([release], pl.DataFrame(schema=_LEDGER)) as session:
        ...     session.sql("select url from visits.public").to_series().to_list()
        ['/a']
    """

    def __init__(
        self,
        releases: Iterable[AnyRelease],
        ledger: pl.DataFrame,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        time_limit: float | None = None,
    ) -> None:
        """Copy releases and ledger into DuckDB, and lock the connection; see `open_analyst` for the limits."""
        if time_limit is not None and not 0 < time_limit < math.inf:
            raise InputError(f"time_limit must be a positive number of seconds, got {time_limit}")
        self._time_limit, self._one_at_a_time = time_limit, threading.Lock()
        self._tables: dict[tuple[str, ...], pl.DataFrame] = {}
        for release in releases:
            path = (str(release.metadata.get("series", "")), release.name)
            if path in self._tables:
                raise InputError(
                    f"two different releases have the name {'.'.join(path)}: leave only one in the directory"
                )
            if path[0] in TAKEN_NAMES:
                raise InputError(f"DuckDB reserves the name of the series {path[0]}: read its releases with sh.read")
            self._tables[path] = release.frame
        self._tables["main", "ledger"] = ledger
        limits = {"memory_limit": memory_limit, "threads": threads}
        config: Any = {name: str(value) for name, value in limits.items() if value is not None}
        try:
            self._connection = duckdb.connect(":memory:", config=config)
            for (schema, name), rows in self._tables.items():
                put(self._connection, rows, schema, name)
            ((limit,),) = self._connection.execute("select current_setting('memory_limit')").fetchall()
            self._memory_limit = str(limit)
            self._connection.execute(statement("analyst_lock"))
        except duckdb.Error as problem:
            raise_alone(InputError(f"the session cannot be opened with these limits: {first_line(problem)}"))

    def sql(self, text: str) -> pl.DataFrame:
        """Run one query: SELECT, DESCRIBE, SUMMARIZE or SHOW.

        Returns:
            The rows of the result.

        Raises:
            NotAllowedError: If a reader may not run the query.
            StatementError: If the query is wrong, or needs more memory or time than the limits allow.
        """
        if shown := _SHOW.fullmatch(text):  # DuckDB's SHOW TABLES lists the tables of one schema only
            return self.tables() if shown[1].lower() == "tables" else self._tables["main", "ledger"].clone()
        with self._one_at_a_time:
            try:
                check_allowed(text, self._connection, self._tables)
                batches = stoppable(self._connection, lambda: list(self._batches(text)), self._time_limit)
                return pl.DataFrame(pa.Table.from_batches(batches)) if batches else pl.DataFrame()
            except TimeoutError:
                raise_alone(
                    StatementError(f"the statement took longer than the time limit of {self._time_limit:g} s")
                )
            except duckdb.PermissionException:
                raise_alone(NotAllowedError("this statement reaches outside the session, which is locked"))
            except RecursionError:
                raise_alone(StatementError("the statement is nested too deeply"))
            except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as problem:
                full = isinstance(problem, MemoryError) or "Out of Memory" in str(problem)
                raise_alone(self._too_large() if full else StatementError(first_line(problem)))
            except pl.exceptions.PolarsError:
                raise_alone(StatementError("a column is of a type that Polars does not have: cast it"))

    def tables(self) -> pl.DataFrame:
        """Return the name and the number of rows of each table: first the releases, then the ledger."""
        names = (".".join(path).removeprefix("main.") for path in self._tables)
        rows = [(printable(name), rows.height) for name, rows in zip(names, self._tables.values(), strict=True)]
        return pl.DataFrame(rows, schema={"name": pl.String, "rows": pl.Int64}, orient="row")

    def interrupt(self) -> None:
        """Stop the statement that another thread is running."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection and discard the copies of the releases and the ledger."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the session, which is closed at the end of the `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    def _batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a result. Limit their total size, which DuckDB's memory limit does not include."""
        amount, unit = re.fullmatch(r"([\d.]+) ?(\w+)", self._memory_limit).groups()  # type: ignore[union-attr]
        left = float(amount) * 1024.0 ** _UNITS.index(unit)
        with self._connection.sql(query).to_arrow_reader(1 << 16) as reader:
            yield pa.RecordBatch.from_pylist([], reader.schema)
            for batch in reader:
                left -= batch.nbytes
                if left < 0:
                    raise self._too_large()
                yield batch

    def _too_large(self) -> StatementError:
        return StatementError(
            f"this needs more than the memory limit of this session, {self._memory_limit}: ask for fewer rows or "
            "smaller values, or open the session with a larger memory_limit"
        )


def open_analyst(
    directory: str | os.PathLike[str],
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    time_limit: float | None = None,
) -> AnalystSession:
    """Open a session for readers of published releases. It needs no store.

    Args:
        directory: The directory with the Parquet files of releases. If it contains a public ledger, each release
            that the ledger lists must match its digest in the ledger.
        memory_limit: Memory that DuckDB may use, such as "2GB"; by default 80 % of the machine's memory. The rows
            of a result may take as much again, and one huge value may exceed the limit. Nothing is written to disk.
        threads: Number of threads of DuckDB.
        time_limit: Seconds that a statement may take; no limit by default. `interrupt` stops a statement earlier.

    Returns:
        The session, which is a context manager.

    Raises:
        NotFoundError: If the directory does not exist, or contains no release.
        InputError: If a release has no name or differs from the ledger, or if the directory is a store.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise NotFoundError(f"there is no directory {folder}")
    files = sorted(folder.glob("*.parquet"))
    if is_store(folder):
        raise InputError(f"{folder} is a store, which readers cannot open: pass a directory of published releases")
    if not files and not (folder / LEDGER_NAME).exists():
        raise NotFoundError(f"there is no release in {folder}")
    ledger, releases = _ledger(folder / LEDGER_NAME), dict[str, AnyRelease]()
    for file in filter(_is_release, files):
        release = read(file)
        named = {"series": release.metadata.get("series"), "release": release.metadata.get("name")}
        if not all(named.values()):
            raise InputError(f"{file} does not name its series and release: move this file to a different directory")
        digest = content_digest(release.frame, release.metadata)
        listed = ledger.filter(store=str(release.metadata.get("store")), **named)["digest"]
        if listed.len() and digest not in listed.to_list():
            raise InputError(f"{file} was changed after it was written: it does not match its digest in the ledger")
        releases[digest] = release
    return AnalystSession(
        releases.values(), ledger, memory_limit=memory_limit, threads=threads, time_limit=time_limit
    )


def _is_release(file: Path) -> bool:
    try:
        return file.is_file() and "sparsehist" in pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, OSError):
        return False


def _ledger(path: Path) -> pl.DataFrame:
    if not path.exists():
        return pl.DataFrame(schema=_LEDGER)
    try:
        stores = read_json(path)["stores"]
        rows = [{**entry, "store": store} for store, listed in stores.items() for entry in listed["releases"]]
        return pl.DataFrame([{column: row.get(column) for column in _LEDGER} for row in rows], schema=_LEDGER)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, pl.exceptions.PolarsError):
        raise_alone(StoreError(f"{path} is not a public ledger of this version"))
