"""A session for readers of releases: a process with a DuckDB that holds copies of what was published, nothing else.

It never opens the store. Releases and the public ledger are copied in; `analyst_engine` is what runs there and what a
reader may run. The process is started by the first query and ends with the session. It cannot take more memory than
was declared, and is killed when it does not stop.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import select
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import duckdb
import polars as pl
import pyarrow as pa

from sparsehist.errors import (
    InputError,
    NotAllowedError,
    NotFoundError,
    SignatureError,
    StatementError,
    StoreError,
    present,
    raise_alone,
)
from sparsehist.ledger.signatures import content_digest, public_keys, verify_chain
from sparsehist.release.releases import Release, check_signature, read_signed
from sparsehist.sqlfront import release_tables
from sparsehist.sqlfront.analyst_engine import HEAD, PIECE, QUERY, REFUSED, ROWS, SETTINGS, STOP, bytes_of, first_line
from sparsehist.sqlfront.declaring import TAKEN_NAMES
from sparsehist.store import LEDGER_NAME, is_store, read_json
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sparsehist.ledger.signatures import PublicKeys


_Settings = dict[str, str | bool | int | float | list[str]]
_SHOW = re.compile(r"\s*show\s+(tables|ledger)\s*;?\s*", re.IGNORECASE)
_LEDGER: dict[str, pl.DataType | type[pl.DataType]] = {
    "store": pl.String,
    "series": pl.String,
    "release": pl.String,
    "level": pl.String,
    "noise": pl.String,
    "threshold": pl.Float64,
    "generation": pl.Int64,
    "round": pl.String,
    "digest": pl.String,
}


class AnalystSession:
    """Queries over published releases: tables `series.release` and the table `ledger`. A context manager.

    Example:
        >>> rows = pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]})
        >>> release = Release(rows, {"series": "visits", "name": "public"})
        >>> with AnalystSession([release], pl.DataFrame(schema=_LEDGER)) as session:
        ...     session.sql("select url from visits.public").to_series().to_list()
        ['/a']
    """

    def __init__(
        self,
        releases: Iterable[Release],
        ledger: pl.DataFrame,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        time_limit: float | None = None,
    ) -> None:
        """Take releases and ledger; they are copied when the first query comes."""
        limits = {"memory_limit": memory_limit, "threads": threads}
        self._config: _Settings = {setting: str(value) for setting, value in limits.items() if value is not None}
        self._limit = _checked_limit(self._config)
        if time_limit is not None and not time_limit > 0:
            raise InputError(f"time_limit is in seconds and above 0, got {time_limit}")
        if memory_limit is not None and sys.platform != "linux":
            warnings.warn("memory_limit does not bound single huge values on this system", stacklevel=2)
        self._time_limit = math.inf if time_limit is None else time_limit
        self._tables: dict[tuple[str, ...], pl.DataFrame] = {}
        for release in releases:
            self._take(release)
        self._tables["ledger",] = ledger
        self._one_at_a_time = threading.Lock()
        self._process: _EngineProcess | None = None
        self._closed = False
        self._owner = os.getpid()

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
        if shown := _SHOW.fullmatch(text):  # DuckDB's own names tables of its schema alone, and columns of the ledger
            return self.tables() if shown[1].lower() == "tables" else self._tables["ledger",].clone()
        with self._one_at_a_time:
            process = self._started()
            try:
                return self._answered(process, text)
            except BaseException:
                process.abandon()
                raise

    def tables(self) -> pl.DataFrame:
        """The tables that can be queried: name and number of rows, releases first, then the ledger."""
        named = {"name": list(map(".".join, self._tables)), "rows": [rows.height for rows in self._tables.values()]}
        return pl.DataFrame(named, schema={"name": pl.String, "rows": pl.Int64})

    def interrupt(self) -> None:
        """Stop the statement another thread is running; if it does not stop, tables of the reader's own are gone."""
        if self._process is not None:
            self._process.stop()

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        if self._process is not None:
            self._process.end()

    def __enter__(self) -> Self:
        """Enter a block at whose end the session is closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """How much there is to read."""
        return f"AnalystSession({len(self._tables) - 1} releases)"

    def _take(self, release: Release) -> None:
        series = str(release.metadata.get("series", ""))
        if (series, release.name) in self._tables:
            raise InputError(f"two different releases are called {series}.{release.name}; open them one at a time")
        if series in TAKEN_NAMES:
            raise InputError(f"the series {series} has a name of DuckDB's own; read its releases by sparsehist.read")
        self._tables[series, release.name] = release.frame

    def _started(self) -> _EngineProcess:
        if self._closed:
            raise StatementError("this session is closed")
        if os.getpid() != self._owner:  # two that read one pipe would get each other's rows
            raise StatementError("this session belongs to the process that opened it; open another one here")
        if self._process is None or not self._process.is_there():
            self._process = _EngineProcess(bytes_of(self._limit))
            self._process.set_up(self._settings(), self._tables.values())
        return self._process

    def _settings(self) -> dict[str, Any]:
        """What an engine is told."""
        tables = [
            {
                "path": path,
                "pieces": -(-rows.height // _ROWS_OF_A_PIECE) or 1,
                "fill": release_tables.filling(*path) if len(path) > 1 else [statement("analyst_create_ledger")],
            }
            for path, rows in self._tables.items()
        ]
        return {
            "config": self._config,
            "tables": tables,
            "arriving": release_tables.ARRIVING,
            "tree": statement("guarantee_tree"),
            "limit": statement("analyst_memory_limit"),
            "lock": statement("analyst_lock"),
        }

    def _answered(self, process: _EngineProcess, text: str) -> pl.DataFrame:
        left: float = bytes_of(self._limit)
        frames: list[pl.DataFrame] = []
        for piece in process.ask(text, self._time_limit):
            try:
                frame = pl.DataFrame(pa.ipc.open_stream(piece).read_all())
            except pl.exceptions.PolarsError as problem:  # a type that Polars does not have
                raise_alone(StatementError(f"the result cannot be a frame: {first_line(problem)}"))
            left -= max(frame.estimated_size(), len(piece))  # which is larger depends on the type
            if left < 0:
                raise StatementError(
                    f"the result needs more than the memory limit of this session, {self._limit}: ask for fewer "
                    "rows, or open the session with a larger memory_limit"
                )
            frames.append(frame)
        return pl.concat(frames) if frames else pl.DataFrame()


_ROWS_OF_A_PIECE = 1 << 16
_GRACE = 2.0
"""Seconds in which a statement that is stopped has to end; then its process is killed."""
_GONE = "; tables and views of your own are gone, the releases are there"
_START = "import sys; sys.path[:] = sys.argv[1:]; from sparsehist.sqlfront.analyst_engine import serve; serve()"


class _EngineProcess:
    """The process of one engine, and the pipe to it; `most` is how many bytes one message may have."""

    def __init__(self, most: int) -> None:
        # Not a fork: the caller may have threads. It finds modules where this process did, but for the directory
        # it is in, and Ctrl-C in a terminal does not reach it.
        words = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            "-c",
            _START,
            str(Path(__file__).parents[2]),
            *filter(None, sys.path),
        ]
        # Arrow's other pools reserve a gigabyte that no limit would see.
        plain = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        try:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, and no text of anybody's
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=plain,
                start_new_session=True,
            )
        except OSError as problem:
            raise_alone(StatementError(f"the engine of the session cannot be started: {problem.strerror}"))
        self._to, self._from = present(self._process.stdin), present(self._process.stdout)
        self._most = most + (1 << 20)
        self._writing = threading.Lock()
        self._answering = self._amid = self._late = False
        self._stop_at = self._kill_at = math.inf
        self._end = weakref.finalize(self, _killed, self._process, os.getpid())

    def set_up(self, settings: dict[str, Any], tables: Iterable[pl.DataFrame]) -> None:
        """Hand over all that the engine will hold."""
        self._answering = True
        try:
            self._send(SETTINGS, json.dumps(settings).encode())
            for rows in tables:
                for piece in rows.iter_slices(_ROWS_OF_A_PIECE) if rows.height else [rows]:
                    sink = BytesIO()
                    piece.write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
                    self._send(PIECE, sink.getbuffer())
            for _ in self._answer():
                pass
        except BaseException:
            self.end()
            raise

    def is_there(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def ask(self, text: str, seconds: float) -> Iterator[bytearray]:
        """Run a statement; its rows in pieces."""
        query = text.encode(errors="replace")
        self._stop_at, self._kill_at, self._late = time.monotonic() + seconds, math.inf, False
        self._answering = True
        self._send(QUERY, query)
        try:
            yield from self._answer()
        except StatementError:
            if not self._late:
                raise
            gone = "" if self.is_there() else _GONE
            raise_alone(StatementError(f"this took longer than the time limit of {seconds:g} s{gone}"))

    def stop(self) -> None:
        """Stop the statement that runs, if there is one: kindly at first."""
        if self._answering:
            self._kill_at = min(self._kill_at, time.monotonic() + _GRACE)
            with contextlib.suppress(StatementError):
                self._send(STOP, b"")

    def abandon(self) -> None:
        """Leave a statement whose answer nobody will read."""
        if self._answering and not self._amid:
            self.stop()
            with contextlib.suppress(StatementError):
                for _ in self._answer():
                    pass
        if self._answering:
            self.end()

    def end(self) -> None:
        """Kill it."""
        self._end()

    def _answer(self) -> Iterator[bytearray]:
        while True:
            kind, body = self._received()
            if kind == ROWS:
                yield body
                continue
            self._answering = False
            said = json.loads(body)
            if kind == REFUSED:
                refusals = {kind.__name__: kind for kind in (NotAllowedError, StatementError, InputError)}
                raise refusals[said["kind"]](said["message"])
            return

    def _send(self, kind: bytes, body: bytes | memoryview) -> None:
        try:
            with self._writing:
                self._to.write(HEAD.pack(kind, len(body)))
                self._to.write(body)
                self._to.flush()
        except OSError:
            self._gone()

    def _received(self) -> tuple[bytes, bytearray]:
        self._wait()
        self._amid = True
        kind, length = HEAD.unpack(self._read(HEAD.size))
        if length > self._most:
            self._gone()
        body = self._read(length)
        self._amid = False
        return kind, body

    def _read(self, length: int) -> bytearray:
        body = bytearray(length)
        left = memoryview(body)
        while left:
            self._wait()
            count = os.readv(self._from.fileno(), [left])
            if not count:
                self._gone()
            left = left[count:]
        return body

    def _wait(self) -> None:
        """Wait until there is something to read, or time is up."""
        while not select.select([self._from], [], [], 0.1)[0]:
            now = time.monotonic()
            if now > self._stop_at:
                self._late, self._stop_at = True, math.inf
                self.stop()
            if now > self._kill_at:
                self._gone("this was stopped")

    def _gone(self, why: str = "this needs more memory than the session may take, or the engine failed") -> NoReturn:
        self._answering = False
        self.end()
        raise_alone(StatementError(why + _GONE))


def _killed(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill a process, as its owner: a fork of the owner has nothing to end."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            present(pipe).close()


def _checked_limit(config: _Settings) -> str:
    """The memory limit a DuckDB so configured has."""
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            return str(connection.execute(statement("analyst_memory_limit")).fetchall()[0][0])
    except duckdb.Error as problem:
        raise_alone(InputError(f"memory_limit or threads cannot be used: {first_line(problem)}"))


def open_analyst(
    releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    verify: PublicKeys | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    time_limit: float | None = None,
) -> AnalystSession:
    """Open a session over published releases; no store is needed, and none is opened.

    Args:
        releases: The directory they were written to, or their files. Each is compared with the public ledger beside
            it, if that lists it.
        verify: Public keys you trust, as files or as Ed25519 keys of `cryptography`: they must have signed every
            release, and the public ledger beside it must list it and be signed as a whole.
        memory_limit: Such as "2GB"; four fifths of the machine by default. Queries run in a process of their own,
            which takes some 160 MB and what the releases take. Beyond that it may take this limit and 64 MB, single
            huge values included; the rows of a result may take the limit once more in this process. What does not
            fit fails; nothing is written to disk. Systems other than Linux do not bound single values.
        threads: How many to use.
        time_limit: Seconds that a statement may take; no limit by default. `interrupt` stops one from another thread.

    Returns:
        The session; a context manager.

    Raises:
        NotFoundError: If nothing is there.
        InputError: If a file is not a release, is not what the ledger says, or the directory is a store.
        SignatureError: If something is not signed by one of these keys, or was changed, cut or reordered after.
    """
    trusted = None if verify is None else public_keys(verify)
    files = _files(releases)
    ledgers = {file.parent: _ledger(file.parent, trusted) for file in files}
    if isinstance(releases, (str, os.PathLike)) and Path(releases).is_dir():
        ledgers[Path(releases)] = _ledger(Path(releases), trusted)
    entries = pl.concat([pl.DataFrame(schema=_LEDGER), *ledgers.values()]).unique(maintain_order=True)
    found: dict[str, Release] = {}
    for file in files:
        release, signed = read_signed(file)
        if trusted is None:
            digest = content_digest(release.frame, release.metadata)
        else:
            digest = check_signature(file, release, signed, trusted)
        _compare(file, release, digest, ledgers[file.parent], listed=trusted is not None)
        found.setdefault(digest, release)
    return AnalystSession(found.values(), entries, memory_limit=memory_limit, threads=threads, time_limit=time_limit)


def _files(releases: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    if not isinstance(releases, (str, os.PathLike)):
        return [Path(file) for file in releases]
    place = Path(releases)
    if place.is_file():
        return [place]
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
    return [file for file in files if _is_release(file)]


def _is_release(file: Path) -> bool:
    try:
        return file.is_file() and "sparsehist" in pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, OSError):
        return False


def _ledger(directory: Path, trusted: Sequence[Ed25519PublicKey] | None) -> pl.DataFrame:
    path = directory / LEDGER_NAME
    if not path.exists():
        return pl.DataFrame(schema=_LEDGER)
    try:
        stores = read_json(path)["stores"]
        rows = [{**entry, "store": store} for store, held in stores.items() for entry in held["releases"]]
        frame = pl.DataFrame([{column: row.get(column) for column in _LEDGER} for row in rows], schema=_LEDGER)
        if trusted is not None:
            for store, held in stores.items():
                verify_chain(store, held, trusted)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        pl.exceptions.PolarsError,
    ) as bad:
        if isinstance(bad, SignatureError):
            raise SignatureError(f"{path} does not verify: {bad}") from None
        raise_alone(StoreError(f"{path} is no public ledger of this version"))
    return frame


def _compare(file: Path, release: Release, digest: str, ledger: pl.DataFrame, *, listed: bool) -> None:
    """Refuse a release that is not what the ledger beside it says; one that it leaves out, if it must be listed."""
    metadata = release.metadata
    entries = ledger.filter(
        pl.col("store") == str(metadata.get("store")),
        pl.col("series") == str(metadata.get("series")),
        pl.col("release") == release.name,
    )
    if entries.height and digest not in entries["digest"].to_list():
        raise InputError(f"{file} is not the release the ledger beside it lists: it was changed after it was written")
    if listed and not entries.height:
        raise SignatureError(f"{file} does not verify: the public ledger beside it does not list it")
