"""Creating a series: check the declaration, count the log, write the files, commit."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from sparsehist.counting import count_keys
from sparsehist.counting.contract import Choice, ClosedQuery, Counts, Files, Query
from sparsehist.counting.count import list_pairs
from sparsehist.counting.fingerprint import Fingerprint, Trace
from sparsehist.counting.lakes import is_table
from sparsehist.counting.spark_sources import is_spark_frame
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_choice, checked_text
from sparsehist.declaration.declaration import CHECKED_QUERY, UNCHECKED_SOURCE
from sparsehist.declaration.noise import NoiseChoice
from sparsehist.domain import Domain
from sparsehist.errors import (
    DataError,
    InputError,
    SeriesDiffersError,
    StoreError,
    present,
)
from sparsehist.ledger.ledger import Ledger
from sparsehist.privacy import Level
from sparsehist.release.cell_parameters import LARGEST_COUNT
from sparsehist.release.stored_declaration import (
    check_alike,
    declaration_of,
    declare,
    write_bounding,
    write_catalogues,
)
from sparsehist.series.series_handle import Series
from sparsehist.series.store_handle import Progress, Store, reporting
from sparsehist.store import (
    NewSeries,
    RegisteredFile,
    SeriesRecord,
    State,
    ensure_store,
    write_series_files,
)
from sparsehist.store.layout import spill_directory
from sparsehist.store.support import BOUNDING, salt_for

_PATIENCE = 60.0
"""Seconds at least to wait for the store once a log is counted: what others hold it for is short."""
_DIFFERS = {"query": "the text of its query", "source": "the log it was made from"}


def create(
    store: str | os.PathLike[str] | Store,
    source: object,
    *,
    name: str,
    unit: str | Sequence[str] | None = None,
    key: str | Sequence[str],
    max_keys: int,
    domain: Domain | str,
    noise: NoiseChoice = "gaussian",
    cap: Level | None = None,
    population: str = "default",
    on_null: Choice = "error",
    on_outside: Choice = "error",
    bounding: str = "keep",
    most_keys: int | None = None,
    key_types: Mapping[str, str] | None = None,
    unverified: bool = False,
    portable: bool = False,
    if_exists: str = "error",
    accept_changed_source: bool = False,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    progress: Progress = None,
    who: str | None = None,
    wait: float = 0.0,
    seed: int | None = None,
) -> Series:
    """Count a log into a new series, bounding what each unit adds.

    Args:
        store: Directory of the store, made if there is none; ":memory:" for experiments; or a Store.
        source: The log: path, URL, glob or list of them (Parquet, CSV, JSON lines), `Files` that say how they are
            read, table of Delta or Iceberg (its object, or "delta:path", "iceberg:path"), Polars frame, Spark frame
            (classic or Connect), DuckDB relation, anything with the Arrow PyCapsule interface, `Query`, or `Counts`
            that were bounded elsewhere.
        name: Of the series.
        unit: Column of the privacy unit (who is protected), or several that name it together, such as
            ("date", "ip_id"); not for `Counts`.
        key: Column of the key, or several for a product domain.
        max_keys: Keys a unit may count towards; more are cut by an order that only its own rows decide.
        domain: All keys that could occur, or its text; never read off the log.
        noise: Family of noise: "gaussian" (level rho of zCDP), "laplace" or "discrete_laplace" (level epsilon of
            pure DP), "poisson" or "skellam" (level 1/mean). Or an instance with the sensitivity that
            max_keys implies, such as `sh.noise.Laplace(sensitivity=20)`.
        cap: Refuse releases beyond this level (the sum over the series' paths). A budget of the population charges a
            series that is not Gaussian its cap, whole, at its first release, but for pure noise on the pure route;
            without a cap the level of its first release is charged as one, and nothing finer is released after it.
        population: Whose costs add up over series.
        on_null: "error" or "drop" for rows without unit or key (null, NaN, empty).
        on_outside: "error" or "drop" for keys outside the domain.
        bounding: What becomes of a unit with more than max_keys keys: "keep" counts it towards max_keys of them;
            "share" towards all of them, with weights that cost the same noise ("weighted counts"; for Gaussian and
            Laplace noise). Where many units have more, shares are far less biased.
        most_keys: For "share": keys to which a unit is cut before that; 64 times max_keys by default. The thresholds
            of an open domain rise with it.
        key_types: What key columns are turned into before they are counted: {"time": "date"} counts days of
            timestamps, "integer" and "text" take whole numbers, booleans, decimals and text. Not for queries, which
            cast in their SELECT.
        unverified: Do not check whether a `Query` keeps units apart; record, in the ledger and with every release,
            that nobody did; SQL's `unverified = true`.
        portable: Let a unit with too many keys keep those that every engine would choose, by SHA-256, so that one log
            and one salt give the same counts on Polars, DuckDB, Spark and warehouses. One machine has a
            faster order of its own. Releases say it. Spark's frames are always counted so.
        if_exists: "error", or "reuse": a series of this name is returned if declaration, query and log are those it
            was made from. Files are told by paths, sizes and times, and read only where these differ; rows are read.
        accept_changed_source: With "reuse", take a series that was made from another log than is there now, whose
            counts stay; the ledger and later releases say so. Never accepts another declaration or query.
        memory_limit: Such as "4GB", for the distinct keys; rows then wait on disk, in 64 parts.
        threads: At most this many.
        progress: None shows progress on a terminal, True always, False never; or a function of a phase's name.
        who: Asks for it, kept in the ledger; the user of the operating system by default.
        wait: Seconds to wait for a store in use.
        seed: Makes a ":memory:" store reproducible.

    Returns:
        The series.

    Raises:
        DeclarationError: If a parameter is wrong.
        DataError: If the log breaks a rule; never quotes a key or a unit.
        NameTakenError: If the name stands for another series.
        SeriesDiffersError: If it was to be reused, and declaration, query or log differ; says which.
        BudgetExceededError: If the route of the population's budget cannot charge such noise, or it has no delta for
            an open domain; names a route that could.
    """
    if isinstance(source, Counts) and source.counted_by is not None:
        source.counted_by.check(key=key, max_keys=max_keys)
        portable = True
    declaration = declare(
        name=name, unit=unit, key=key, max_keys=max_keys, domain=domain, noise=noise, cap=cap,
        population=population, on_null=on_null, on_outside=on_outside, bounding=bounding, most_keys=most_keys,
        key_types=key_types, unverified=unverified, portable=portable,
    )  # fmt: skip
    checked_choice("if_exists", if_exists, ("error", "reuse"))
    checked_choice("accept_changed_source", accept_changed_source, (False, True))
    home = store if isinstance(store, Store) else Store(store, wait=wait, seed=seed)
    asked = NewLog(source, counting_of(source, declaration), if_exists, accept_changed_source, who)
    return counted_into(
        home, asked, progress=progress, wait=wait, memory_limit=memory_limit, threads=threads,
    )  # fmt: skip


def counting_of(source: object, declaration: Declaration) -> Declaration:
    """The declaration with what the source decides: what the guarantee rests on, and in which order units are cut."""
    if is_spark_frame(source):
        declaration = replace(declaration, bounding=replace(declaration.bounding, portable=True))
    if isinstance(source, (str, os.PathLike, list, tuple, Files)) or is_table(source):
        return declaration
    unverified = declaration.unverified or (isinstance(source, Query) and source.unverified)
    of_session = isinstance(source, ClosedQuery) and not source.is_checked
    checked = isinstance(source, Query) and not unverified and not of_session
    return replace(declaration, unverified=unverified, source=CHECKED_QUERY if checked else UNCHECKED_SOURCE)


class UnitBound(Protocol):
    """Leaves units out of a series that have counted in enough others."""

    def begin(self, state: State) -> None:
        """Read what they counted in."""

    def kept(self, pairs: pl.DataFrame, columns: str | Sequence[str]) -> pl.DataFrame:
        """Of distinct pairs of a unit, of these columns, and a key, those that count."""

    def check(self, state: State) -> None:
        """Refuse to go on where that is no longer what was read."""

    def files(self, directory: Path, *, durable: bool) -> list[RegisteredFile]:
        """Write who counts now."""


def counted_into(
    home: Store,
    asked: NewLog,
    *,
    progress: Progress = None,
    wait: float = 0.0,
    bound: UnitBound | None = None,
    **how: Any,
) -> Series:
    """Count a log into a series that is declared, or give the one that is the same.

    Args:
        home: The store; made if there is none.
        asked: Log, declaration, and what to do about a series that is there.
        progress: As for `create`.
        wait: As for `create`.
        bound: Leaves units out; None where all of them count.
        how: memory_limit and threads, as for `create`.
    """
    checked_text("who", asked.who)
    declaration = asked.declaration
    made = ensure_store(home.path)
    try:
        with ExitStack() as spills, reporting(progress) as report:
            with home._hold(wait or None) as state:
                record = state.series(declaration.name)
                if record is None:
                    _check(state, declaration)
                    if bound is not None:
                        bound.begin(state)
                    spill = spills.enter_context(spill_directory(state.spill))
            if record is not None:
                return _reused(home, record, asked, wait)
            asked = replace(asked, source=checked_source(asked.source, declaration))
            # The store is not held meanwhile: others may release.
            written = spill / "series"
            new = _counted(home, asked, written, bound, report, durable=state.durable, **how)
            with home._hold(max(wait, home.wait, _PATIENCE)) as state:
                record = state.series(declaration.name)
                if record is None:
                    _check(state, declaration)
                    if bound is not None:
                        bound.check(state)
                    state.take_series_directory(written, new.series_id)
                    state.commit_series(new)
                home._remember(state)
        if record is not None:  # somebody else was faster
            return _reused(home, record, asked, wait)
    except BaseException:
        if made:
            _remove_if_empty(home)
        raise
    return home.series(declaration.name)


def _counted(
    home: Store,
    asked: NewLog,
    written: Path,
    bound: UnitBound | None,
    report: Callable[[str], None],
    *,
    durable: bool,
    **how: Any,
) -> NewSeries:
    """Count a log, and write the files of its series into a directory."""
    declaration, trace = asked.declaration, asked.trace()
    rng = home._generator()
    salt = rng.bytes(16)
    bounding = salt_for(BOUNDING, salt)
    how |= {"domain": declaration.domain, "temporary_directory": written.parent, "progress": report}
    log: Any = asked.source
    told: dict[str, Any] = {
        "unit": asked.unit, "key": declaration.key, "on_null": declaration.on_null,
        "on_outside": declaration.on_outside, "key_types": dict(declaration.key_types), "watch": trace.watch,
    }  # fmt: skip
    if bound is not None:
        log = bound.kept(list_pairs(log, salt=bounding, **told, **how).frame(), present(declaration.unit))
        told = {"unit": "unit", "key": log.drop("unit").columns}
    counted = count_keys(
        log, max_keys=declaration.max_keys, salt=bounding, weights=declaration.touched,
        portable=declaration.portable, may_be_empty=declaration.period is not None or bound is not None,
        **told, **how,
    )  # fmt: skip
    frame = counted.frame
    if home._reproducible:  # engines give rows in any order, and keys that count 0 or not
        frame = frame.filter(pl.col("count") > 0).sort(pl.all())
    report("writing")
    with ThreadPoolExecutor(1) as beside:
        fingerprint = beside.submit(trace.finish)
        files = _write(written, declaration, frame, salt=salt, durable=durable, threads=how.get("threads"), rng=rng)
        files += write_bounding(written, counted.bounding, durable=durable)
        if bound is not None:
            files += bound.files(written, durable=durable)
        source_text = fingerprint.result().as_text()
    return _new_series(declaration, counted.engine, salt, files, source_text, asked.who)


def checked_source(source: object, declaration: Declaration) -> object:
    """Return a source as it is to be counted; refuses a query that does not keep units apart, unless unverified."""
    if not isinstance(source, Query):
        return source
    from sparsehist.counting.queries import checked  # and with it DuckDB, which a file does not need

    query = replace(source, unverified=source.unverified or declaration.unverified)
    return checked(query, declaration.unit or (), declaration.key)


def _check(state: State, declared: Declaration) -> None:
    Ledger.of(state).check_series(
        declared.name, declared.population, declared.noise, is_open=declared.domain.is_open,
        of_period=declared.period is not None,
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class NewLog:
    """What a caller wants: a new series, or one that is the same.

    Attributes:
        counted_here: Whether the source is `Counts` that were made here, of the units that are declared.
    """

    source: object
    declaration: Declaration
    if_exists: str
    accept_changed_source: bool
    who: str | None
    counted_here: bool = False

    @property
    def unit(self) -> str | Sequence[str] | None:
        """Columns of the source that name the unit."""
        return None if self.counted_here else self.declaration.unit

    def trace(self, key: str | None = None) -> Trace:
        unit = (self.unit,) if isinstance(self.unit, str) else self.unit or ()
        counts = (self.source.count,) if isinstance(self.source, Counts) else ()
        return Trace(self.source, tuple(dict.fromkeys((*unit, *self.declaration.key, *counts))), key)


def _write(
    directory: Path,
    declaration: Declaration,
    frame: pl.DataFrame,
    *,
    salt: bytes,
    durable: bool,
    threads: int | None,
    rng: np.random.Generator,
) -> list[RegisteredFile]:
    """Write the files of a series."""
    if int(frame["count"].max() or 0) > LARGEST_COUNT:  # type: ignore[arg-type]
        raise DataError(
            f"a key has more than {LARGEST_COUNT} units: beyond that a count and its noise do not fit into one "
            "double; the count column is not a number of units, or has to be scaled"
        )
    directory.mkdir(mode=0o700)
    files = write_series_files(directory, frame, salt=salt, durable=durable, threads=threads, rng=rng)
    return files + write_catalogues(directory, declaration.domain, durable=durable)


def _new_series(
    declaration: Declaration,
    engine: str,
    salt: bytes,
    files: list[RegisteredFile],
    source: str,
    who: str | None,
) -> NewSeries:
    stored = declaration.as_json() | {"engine": engine}
    integer = declaration.family.integer
    return NewSeries(secrets.token_hex(8), declaration.name, stored, salt, files, source, integer, who)


def _reused(store: Store, record: SeriesRecord, asked: NewLog, wait: float) -> Series:
    """The series that exists, if it is what was asked for."""
    known = declaration_of(record)
    name = f"{store!r} has a series {known.name!r} already"
    declared = asked.declaration
    alike = "use another name" if known.period is None else "add the log with the same again"
    check_alike(name, known, declared, asked.if_exists, remedy=alike)
    made_from = Fingerprint.from_text(record.made_from)
    try:
        changed = asked.trace(made_from.key).changed(made_from)
    except (InputError, OSError):  # it is not there any more, or cannot be read as it was
        changed = ["source"]
    if asked.accept_changed_source and changed in ([], ["source"]):
        # Whether the log did change is as secret as the log: what is noted and published is that it may have.
        with store._hold(wait or None) as state:
            state.accept_source(record, who=asked.who)
            store._remember(state)
    elif changed:
        said = " and ".join(_DIFFERS[one] for one in changed)
        stays = "accept_changed_source keeps the counts of the log as it was; " if len(changed) == 1 else ""
        if known.period is not None:
            raise SeriesDiffersError(
                f"{name}, and {said} differs: a period is counted once; one that was never released can be dropped "
                "and counted again"
            )
        remedy = f"{stays if changed == ['source'] else ''}use another name to count what is named now"
        raise SeriesDiffersError(f"{name}, and {said} differs: {remedy}")
    return store.series(known.name)


def _remove_if_empty(store: Store) -> None:
    """Take back a store made for a series that could not be created, unless somebody else uses it by now."""
    path = store.path
    discarded = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        with store._hold() as state:
            if state.all_series() or state.ledger() or any(state.spill.iterdir()):
                return
            path.rename(discarded)
    except (StoreError, OSError):
        return
    shutil.rmtree(discarded, ignore_errors=True)
    path.with_name(path.name + ".generation").unlink(missing_ok=True)
