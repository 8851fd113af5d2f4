"""Creating a series: check the declaration, count the log, write the files, commit."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl

from sparsehist.counting import count_keys
from sparsehist.counting.contract import CheckedQuery, Choice, Query
from sparsehist.counting.count import Engine
from sparsehist.domain import Domain
from sparsehist.errors import DataError, DeclarationError, NameTakenError, StoreError
from sparsehist.guarantee.check import check_query
from sparsehist.ledger.arguments import checked_text
from sparsehist.ledger.ledger import Ledger
from sparsehist.privacy import Level
from sparsehist.report.progress import Progress, reporting
from sparsehist.series.cell_parameters import LARGEST_COUNT
from sparsehist.series.declaration import (
    CHECKED_QUERY,
    UNCHECKED_SOURCE,
    Declaration,
    declaration_of,
    declare,
    write_catalogues,
)
from sparsehist.series.own_noise import NoiseChoice
from sparsehist.series.series_handle import Series
from sparsehist.series.store_handle import Store
from sparsehist.store import NewSeries, SeriesRecord, State, create_store, is_store, write_series_files


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
    unverified: bool = False,
    if_exists: str = "error",
    engine: Engine = "auto",
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
        source: The log: path, glob or list of paths (Parquet, CSV), Polars frame, DuckDB relation, anything
            with the Arrow PyCapsule interface, `Query`, or `Counts` that were bounded elsewhere.
        name: Of the series.
        unit: Column of the privacy unit (who is protected), or several that name it together, such as
            ("date", "ip_id"); not for `Counts`.
        key: Column of the key, or several for a product domain.
        max_keys: Keys a unit may count towards; more are cut by an order that only its own rows decide.
        domain: All keys that could occur, or its text; never read off the log.
        noise: Family of noise: "gaussian" (level rho of zCDP), "laplace" or "discrete_laplace" (level epsilon of
            pure DP), "poisson" or "skellam" (level 1/mean). Or its class, or an instance with the sensitivity that
            max_keys implies, such as `sh.noise.Laplace(sensitivity=20)`. A class of your own stands at the top of a
            module, has all that `sh.noise.Family` lists, and a classmethod `for_histogram(max_keys)`; whoever
            opens the store later calls `sh.noise.register` with it first.
        cap: Refuse releases beyond this level (the sum over the series' paths). A budget of the population charges a
            series that is not Gaussian its cap, whole, at its first release, but for pure noise on the pure route;
            without a cap the level of its first release is charged as one, and nothing finer is released after it.
        population: Whose costs add up over series.
        on_null: "error" or "drop" for rows without unit or key (null, NaN, empty).
        on_outside: "error" or "drop" for keys outside the domain.
        unverified: Do not check whether a `Query` keeps units apart; record, in the ledger and with every release,
            that nobody did; SQL's `unverified = true`.
        if_exists: "error", or "reuse": a series of this name and declaration is returned, the log is not read.
        engine: "auto", "polars" or "duckdb".
        memory_limit: Such as "4GB"; DuckDB spills beyond it.
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
        BudgetExceededError: If the route of the population's budget cannot charge such noise, or it has no delta for
            an open domain; names a route that could.
    """
    declaration = declare(
        name=name, unit=unit, key=key, max_keys=max_keys, domain=domain, noise=noise, cap=cap,
        population=population, on_null=on_null, on_outside=on_outside, unverified=unverified,
    )  # fmt: skip
    if not isinstance(source, (str, os.PathLike, list, tuple)):
        checked = isinstance(source, Query) and not unverified
        declaration = replace(declaration, source=CHECKED_QUERY if checked else UNCHECKED_SOURCE)
    if if_exists not in ("error", "reuse"):
        raise DeclarationError(f"if_exists must be 'error' or 'reuse', got {if_exists!r}")
    checked_text("who", who)
    home = store if isinstance(store, Store) else Store(store, wait=wait, seed=seed)
    made = not is_store(home.path)
    if made:
        create_store(home.path)
    try:
        with home._hold(wait or None) as state, reporting(progress) as report:
            record = state.series(name)
            if record is not None:
                return _reused(home, record, declaration, if_exists)
            Ledger.of(state).check_series(population, declaration.noise, is_open=declaration.domain.is_open)
            if isinstance(source, Query) and not isinstance(source, CheckedQuery) and not unverified:
                check_query(
                    source.sql, unit=declaration.unit or (), key=declaration.key, connection=source.connection,
                    parameters=source.parameters, public_tables=source.public_tables,
                )  # fmt: skip
            rng = home._generator()
            salt = rng.bytes(16)
            counted = count_keys(
                source, unit=declaration.unit, key=declaration.key, max_keys=max_keys, domain=declaration.domain,
                salt=salt, on_null=on_null, on_outside=on_outside, engine=engine, memory_limit=memory_limit,
                threads=threads, temporary_directory=state.spill, progress=report,
            )  # fmt: skip
            # Engines give rows in any order; a reproducible store needs one.
            frame = counted.frame.sort(pl.all()) if home._reproducible else counted.frame
            _commit(state, declaration, frame, counted.engine, salt, report, who=who, rng=rng)
            home._remember(state)
    except BaseException:
        if made:
            _remove_if_empty(home)
        raise
    return home.series(name)


def _commit(
    state: State,
    declaration: Declaration,
    counted: pl.DataFrame,
    engine: str,
    salt: bytes,
    report: Callable[[str], None],
    *,
    who: str | None,
    rng: np.random.Generator,
) -> None:
    series_id = secrets.token_hex(8)
    if int(counted["count"].max() or 0) > LARGEST_COUNT:  # type: ignore[arg-type]
        raise DataError(
            f"a key has more than {LARGEST_COUNT} units: beyond that a count and its noise do not fit into one "
            "double; the count column is not a number of units, or has to be scaled"
        )
    report("writing")
    directory = state.new_series_directory(series_id)
    files = write_series_files(directory, counted, salt=salt, durable=state.durable, rng=rng)
    files += write_catalogues(directory, declaration.domain, durable=state.durable)
    stored = {
        **declaration.as_json(),
        "engine": engine,
        "key_dtypes": [str(dtype) for dtype in declaration.domain.dtypes],
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    integer = declaration.family.integer
    state.commit_series(NewSeries(series_id, declaration.name, stored, salt, files, integer, who))


def _reused(store: Store, record: SeriesRecord, declaration: Declaration, if_exists: str) -> Series:
    known = declaration_of(record)
    if known != declaration:
        stored, asked = known.as_json(), declaration.as_json()
        differing = [
            f"{field}={stored[field]!r}" for field in stored if stored[field] != asked[field] and field != "source"
        ]
        raise NameTakenError(
            f"{store!r} has a series {known.name!r} already, declared with {', '.join(differing)}: use another name"
        )
    if if_exists == "error":
        raise NameTakenError(f"{store!r} has a series {known.name!r} already; if_exists='reuse' gives it back")
    return Series(store, record.series_id, known)


def _remove_if_empty(store: Store) -> None:
    """Take back a store made for a series that could not be created, unless somebody else uses it by now."""
    path = store.path
    discarded = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        with store._hold() as state:
            if state.all_series() or state.ledger().height:
                return
            path.rename(discarded)
    except (StoreError, OSError):
        return
    shutil.rmtree(discarded, ignore_errors=True)
    path.with_name(path.name + ".generation").unlink(missing_ok=True)
