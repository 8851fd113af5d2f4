"""`create`: create a series with the counts of a log, or declare a running or periodic series."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

from sparsehist.counting.contract import Choice, Counts
from sparsehist.counting.progress import Counting
from sparsehist.declaration import Declaration, Every, Keep, Measure, Share, Steps
from sparsehist.declaration.checks import checked_choice
from sparsehist.declaration.declaration import NoiseChoice
from sparsehist.declaration.parameters import parameters
from sparsehist.domain import Domain
from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import Level
from sparsehist.release.creation import counted_into, declared_into, with_source
from sparsehist.release.periods import declare_periods
from sparsehist.series.series import PeriodicSeries, RunningSeries, Series
from sparsehist.series.store import Store


@overload
def create(
    store: str | os.PathLike[str] | Store, log: object, *, steps: None = None, every: None = None, **declared: Any
) -> Series: ...


@overload
def create(store: str | os.PathLike[str] | Store, *, steps: int | str | Steps, **declared: Any) -> RunningSeries: ...


@overload
def create(store: str | os.PathLike[str] | Store, *, every: str | int | Every, **declared: Any) -> PeriodicSeries: ...


def create(  # type: ignore[misc] # the overloads abbreviate most parameters as **declared
    store: str | os.PathLike[str] | Store,
    log: object = None,
    *,
    name: str,
    unit: str | Sequence[str] | None = None,
    key: str | Sequence[str] | None = None,
    max_keys: int,
    domain: Domain | str | None = None,
    bounding: str | Keep | Share = "keep",
    noise: NoiseChoice = "gaussian",
    cap: Level | None = None,
    population: str = "default",
    measures: Measure | str | Sequence[Measure | str] = (),
    steps: int | str | Steps | None = None,
    every: str | int | Every | None = None,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    if_exists: str = "error",
    counting: Counting | None = None,
) -> Series | RunningSeries | PeriodicSeries:
    """Create a series with the counts of a log, or declare a running or periodic series.

    The log is read once, and nothing is published. If an error occurs, no series is created. If a unit has more than
    `max_keys` distinct keys, it counts by default towards only `max_keys` of them, chosen at random and independently
    of the rows of other units.

    Args:
        store: Directory of the store, created if missing; ":memory:"; or a `Store`.
        log: Path, glob or list of paths (Parquet, CSV, JSON lines); `sh.Files`; Polars frame, DuckDB relation, Arrow
            stream or Spark frame; `sh.Query` for SQL; `sh.Counts` for existing counts. None with steps or every.
        name: Name of the series: a-z, 0-9 and _, beginning with a letter.
        unit: Column of the privacy unit (who is protected), or several columns. None with `sh.Counts`.
        key: Column or columns of the key, as many as the domain has. If None, all units count in one cell.
        max_keys: Largest number of distinct keys that a unit counts towards; in a running series over all steps, in a
            periodic series per period.
        domain: All possible keys, such as `sh.Strings(max_bytes=32)`; never derived from the log. None without key.
        bounding: "keep": a unit with more keys counts towards max_keys of them. "share": it counts towards all of
            them, with smaller weights and the same noise. See `sh.Keep` and `sh.Share`.
        noise: Family: "gaussian" (level is ρ of zCDP), "laplace" or "discrete_laplace" (ε), "skellam", "poisson".
        cap: Largest cost that the series may reach, exact; releases beyond it are refused.
        population: The people behind the units. Costs of all series of a population add up.
        measures: Sums by key that releases may publish besides counts: `sh.Measure("price", clip=100, step=0.01)`.
        steps: Declare a running series with this number of steps, or `sh.Steps`. Needs Gaussian noise.
        every: Declare a periodic series: "day", "week", "month" or `sh.Every`. Needs Gaussian noise.
        on_null: "error" or "drop", for rows without unit or key.
        on_outside: "error" or "drop", for rows whose key is outside the domain.
        if_exists: "error", or "reuse": return an existing series with the same name, declaration and log.
        counting: Settings of counting: memory, threads, progress.

    Raises:
        DeclarationError: If a parameter is wrong.
        DataError: If the log breaks a rule; the message never quotes a key or a unit.
        NameTakenError: If the store already has a series with this name.
        SeriesDiffersError: With "reuse", if declaration, query or log differ; the message names what differs.
        BudgetExceededError: If the budget of the population cannot charge this noise.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user_id": range(1000), "url": ["/home"] * 1000})
        >>> series = sh.create(":memory:", log, name="visits", unit="user_id", key="url", max_keys=5,
        ...                    domain=sh.Strings(max_bytes=16), cap=1)
        >>> 980 < series.release("public", level=0.1).frame["noisy_count"].item() < 1020
        True
    """
    arguments = locals()
    checked_choice("if_exists", if_exists, ("error", "reuse"))
    if counting is not None and not isinstance(counting, Counting):
        raise DeclarationError(f"counting must be sh.Counting(…), got {shown(counting)}", parameter="counting")
    declaration = Declaration(**{word: arguments[word] for word in parameters(Declaration) if word in arguments})
    store = store if isinstance(store, Store) else Store(store)
    if declaration.steps is not None or declaration.every is not None:
        if log is not None:
            raise DeclarationError(
                "with steps= or every=, leave out the log, and append logs to the series afterwards", parameter="log"
            )
        if declaration.steps is not None:
            return RunningSeries(store, declaration, declared_into(store, declaration, if_exists).series_id)
        return PeriodicSeries(store, declare_periods(store, declaration, if_exists))
    if log is None:
        raise DeclarationError("pass a log, or declare a series with steps= or every=")
    if isinstance(log, Counts) and log.counted_by is not None:
        log.counted_by.check(declaration)
    record = counted_into(store, log, declaration, counting, if_exists=if_exists)
    return Series(store, with_source(declaration, log), record.series_id)
