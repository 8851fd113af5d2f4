"""A session for readers of releases: a DuckDB with copies of published files only.

It never opens a store. Releases and the public ledger are copied, then the connection is locked: no files, network,
extensions or settings, and nothing is written to disk. `analyst_rules` lists allowed statements.
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
from sparsehist.sqlfront.results import TAKEN_NAMES, put, stoppable
from sparsehist.store import LEDGER_NAME, is_store, read_json
from sparsehist.store.statements import statement

_SHOW = re.compile(r"\s*show\s+(tables|ledger)\s*;?\s*", re.IGNORECASE)
_LEDGER: dict[str, Any] = {
    **dict.fromkeys("store series release level noise round digest".split(), pl.String),
    "threshold": pl.Float64,
    "generation": pl.Int64,
}


class AnalystSession:
    """Queries over published releases: tables `series.release` and the table `ledger`. A context manager.

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
        """Copy releases and ledger into a DuckDB and lock it; limits as for `open_analyst`."""
        if time_limit is not None and not 0 < time_limit < math.inf:
            raise InputError(f"time_limit must be a positive number of seconds, got {time_limit}")
        self._time_limit = time_limit
        self._tables: dict[tuple[str, ...], pl.DataFrame] = {}
        for release in releases:
            path = (str(release.metadata.get("series", "")), release.name)
            if path in self._tables:
                raise InputError(f"two different releases are called {'.'.join(path)}; open them one at a time")
            if path[0] in TAKEN_NAMES:
                raise InputError(f"the series {path[0]} has a name of DuckDB's own; read its releases by sh.read")
            self._tables[path] = release.frame
        self._tables["ledger",] = ledger
        self._own: set[str] = set()
        self._one_at_a_time, self._owner = threading.Lock(), os.getpid()
        limits = {"memory_limit": memory_limit, "threads": threads}
        try:
            config: dict[str, Any] = {name: str(value) for name, value in limits.items() if value is not None}
            self._connection = duckdb.connect(":memory:", config=config)
            for names, rows in self._tables.items():
                schema, name = ("main", *names)[-2:]
                put(self._connection, rows, schema, name)
            ((limit,),) = self._connection.execute("select current_setting('memory_limit')").fetchall()
            self._memory_limit = str(limit)
            self._connection.execute(statement("analyst_lock"))
        except duckdb.Error as problem:
            raise_alone(InputError(f"the session cannot be opened with these limits: {_first_line(problem)}"))

    def sql(self, text: str) -> pl.DataFrame:
        """Run one statement.

        Args:
            text: A query (SELECT, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN), or CREATE TEMP TABLE or VIEW … AS SELECT.

        Returns:
            Its result.

        Raises:
            NotAllowedError: If a reader may not run it.
            StatementError: If it is wrong, or needs more than the memory limit or the time limit.
        """
        if os.getpid() != self._owner:  # DuckDB's threads do not survive a fork
            raise StatementError("this session belongs to the process that opened it; open another one here")
        if shown := _SHOW.fullmatch(text):  # DuckDB's SHOW TABLES lists the tables of one schema only
            return self.tables() if shown[1].lower() == "tables" else self._tables["ledger",].clone()
        with self._one_at_a_time:
            try:
                makes = check_allowed(text, self._connection, self._has)
                batches = stoppable(self._connection, lambda: list(self._batches(text)), self._time_limit)
            except TimeoutError:
                raise_alone(StatementError(f"this took longer than the time limit of {self._time_limit:g} s"))
            except duckdb.PermissionException:
                raise_alone(NotAllowedError("this reaches outside of the session, which is closed"))
            except RecursionError:
                raise_alone(StatementError("this is nested too deeply"))
            except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as problem:
                said = _first_line(problem)
                full = isinstance(problem, MemoryError) or "Out of Memory" in said
                raise_alone(self._too_large() if full else StatementError(said))
            if makes is not None:
                self._own.add(makes)
        try:
            return pl.DataFrame(pa.Table.from_batches(batches)) if batches else pl.DataFrame()
        except pl.exceptions.PolarsError as problem:  # Polars does not have this type
            raise_alone(StatementError(f"the result cannot be a frame: {_first_line(problem)}"))

    def tables(self) -> pl.DataFrame:
        """Return the tables that can be queried: name and number of rows, releases first, then the ledger."""
        rows = [(printable(".".join(path)), rows.height) for path, rows in self._tables.items()]
        return pl.DataFrame(rows, schema={"name": pl.String, "rows": pl.Int64}, orient="row")

    def interrupt(self) -> None:
        """Stop the statement that another thread is running."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection, and discard all copies."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Enter a block at whose end the session is closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """Show the number of releases."""
        return f"AnalystSession({len(self._tables) - 1} releases)"

    def _batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a result; raise beyond the memory limit: DuckDB does not count rows it returned."""
        result = self._connection.sql(query)
        if result is None:
            return
        amount, unit = re.fullmatch(r"([\d.]+) ?(\w+)", self._memory_limit).groups()  # type: ignore[union-attr]
        left = float(amount) * 1024.0 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit)
        with result.to_arrow_reader(1 << 16) as reader:
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

    def _has(self, path: tuple[str, ...]) -> bool:
        """Return whether a name in a query is one of the tables."""
        inside = path[1:] if path[:1] == ("memory",) and len(path) > 2 else path
        inside = inside[1:] if inside[:1] == ("main",) and len(inside) == 2 else inside
        return inside in self._tables or (len(path) == 1 and path[0] in self._own)


def open_analyst(
    releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    time_limit: float | None = None,
) -> AnalystSession:
    """Open a session over published releases; no store is needed, and none is opened.

    Args:
        releases: The directory with the files of releases, or these files. Each is compared with the public ledger
            beside it, if listed there.
        memory_limit: Of DuckDB, such as "2GB"; four fifths of the machine by default. The rows of a result may take
            the limit once more. One huge value may exceed it; nothing is written to disk.
        threads: Number of threads of DuckDB.
        time_limit: Seconds that a statement may take; no limit by default. `interrupt` stops one from another thread.

    Returns:
        The session; a context manager.

    Raises:
        NotFoundError: If nothing is there.
        InputError: If a file is not a release, is not what the ledger says, or the directory is a store.
    """
    files, places = _files(releases)
    ledgers = {place: _ledger(place) for place in places}
    entries = pl.concat([pl.DataFrame(schema=_LEDGER), *ledgers.values()]).unique(maintain_order=True)
    found: dict[str, AnyRelease] = {}
    for file in files:
        release = read(file)
        named = {"series": release.metadata.get("series"), "release": release.metadata.get("name")}
        if not all(named.values()):
            raise InputError(f"{file} does not name its series and release: open the others without it")
        digest = content_digest(release.frame, release.metadata)
        listed = ledgers[file.parent].filter(store=str(release.metadata.get("store")), **named)["digest"]
        if listed.len() and digest not in listed.to_list():
            raise InputError(
                f"{file} is not the release the ledger beside it lists: it was changed after it was written"
            )
        found.setdefault(digest, release)
    return AnalystSession(found.values(), entries, memory_limit=memory_limit, threads=threads, time_limit=time_limit)


def _files(releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[list[Path], set[Path]]:
    """Return the files of releases, and the directories whose ledgers list them."""
    if isinstance(releases, str | os.PathLike):
        place, named = Path(releases), [Path(releases)]
    else:
        place, named = None, [Path(file) for file in releases]
    if place is None or place.is_file():
        if not all(file.is_file() for file in named):  # a name may be a row of a log, so it is not shown
            raise NotFoundError("one of the files named is not there")
        return named, {file.parent for file in named}
    if not place.is_dir():
        raise NotFoundError(f"there is no directory or file {place}")
    try:
        holds_store, files = is_store(place), sorted(place.glob("*.parquet"))
    except OSError as problem:
        raise InputError(f"{place} cannot be read: {problem.strerror}") from None
    if holds_store:
        raise InputError(f"{place} is a store, which readers never open; name the directory its releases are in")
    if not files and not (place / LEDGER_NAME).exists():
        raise NotFoundError(f"there is no release in {place}")
    return [file for file in files if _is_release(file)], {place}


def _is_release(file: Path) -> bool:
    try:
        return file.is_file() and "sparsehist" in pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, OSError):
        return False


def _ledger(directory: Path) -> pl.DataFrame:
    path = directory / LEDGER_NAME
    if not path.exists():
        return pl.DataFrame(schema=_LEDGER)
    try:
        stores = read_json(path)["stores"]
        rows = [{**entry, "store": store} for store, held in stores.items() for entry in held["releases"]]
        return pl.DataFrame([{column: row.get(column) for column in _LEDGER} for row in rows], schema=_LEDGER)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, pl.exceptions.PolarsError):
        raise_alone(StoreError(f"{path} is no public ledger of this version"))


def _first_line(problem: Exception) -> str:
    """Return the first line of an error of DuckDB."""
    return str(problem).split("\n", maxsplit=1)[0]
