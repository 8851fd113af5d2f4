"""The `Store` class: series, ledger and events of one directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name, checked_text
from sparsehist.html import in_notebook, table_of_dicts
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, EVENTS, SCHEMA, for_people, ledger_rows
from sparsehist.privacy import Level
from sparsehist.release import periods
from sparsehist.release.home import Home
from sparsehist.release.limits import declare_disjoint, set_budget
from sparsehist.release.metadata import declaration_rows
from sparsehist.release.pipeline import published
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.series.series import PeriodicSeries, RunningSeries, Series
from sparsehist.store import backup, ensure_store

if TYPE_CHECKING:
    from sparsehist.sqlfront.results import SqlResult

_OF_SERIES = ("unit", "key", "max_keys", "domain", "noise", "cap", "population")
_OF_LEDGER = ("scope", "population", "series", "path", "level", "epsilon")
"""Columns that `Store.ledger` returns unless `full` is set, before limit and remaining."""


class Store(Home):
    """A directory of series: their counts, their releases, and the costs of the releases.

    No file stays open between calls, so several threads and processes may use a store, including after a fork. If the
    store is in use, a call waits for up to `wait` seconds and then fails. `sparsehist.open` returns a `Store`.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
        >>> with sh.open(":memory:") as store:
        ...     _ = sh.create(store, log, name="visits", unit="user", key="url", max_keys=1,
        ...                   domain=sh.Strings(max_bytes=8))
        ...     store.series_names()
        ['visits']
    """

    def _repr_html_(self) -> str:
        """Return the series and their costs as HTML tables, for notebooks."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        with self.hold() as state:
            spent = ledger_rows(Ledger.of(state))
            rows = [
                {"series": record.name, **_shown(declaration_of(record)), "releases": len(published(state, record))}
                for record in state.all_series()
            ]
        yield table_of_dicts(repr(self), rows, 1)
        yield table_of_dicts("Ledger: what was spent, and what remains", for_people(spent))

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def series(self, name: str) -> Series | RunningSeries | PeriodicSeries:
        """Return the series with this name: a `Series`, `RunningSeries` or `PeriodicSeries`.

        Raises:
            NotFoundError: If there is no series with this name.
        """
        checked_name("series", name)
        with self.hold() as state:
            if state.series(name) is None and name in Ledger.of(state).limits.periods:
                return PeriodicSeries(self, periods.declared_periods(state, name))
            record = self.find(state, name)
        declaration = declaration_of(record)
        kind = Series if declaration.steps is None else RunningSeries
        return kind(self, declaration, record.series_id)

    def sql(
        self, script: str, *, parameters: Mapping[str, Any] | None = None, tables: Mapping[str, object] | None = None
    ) -> SqlResult:
        """Run SQL on this store; see `sparsehist.sql`."""
        from sparsehist.sqlfront.session import run_sql

        return run_sql(script, self, parameters=parameters, tables=tables)

    def drop(self, name: str, *, reason: str | None = None) -> None:
        """Erase a series: its counts, keys and noise. Its costs remain in the ledger.

        A periodic series can be dropped only if it has no periods and no period was ever released. Otherwise, only
        its periods can be dropped, one by one. If `most_periods` is set, dropping a released period means that no
        more periods can be appended, because the record of the units in the dropped period is lost. `reason` is
        recorded in the ledger.

        Raises:
            NotFoundError: If there is no such series.
            RefusedError: If it is a periodic series with periods, or with released periods that were dropped.
        """
        checked_text("reason", reason)
        with self.hold() as state:
            periods.drop(self, state, checked_name("series", name), reason=reason)

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Make a consistent copy of the store. To use the copy after this store is lost, adopt it first."""
        backup(self.path, Path(destination), wait=self.wait)

    def ledger(
        self,
        *,
        delta: float = DEFAULT_DELTA,
        series: str | None = None,
        short: bool = False,
        full: bool = False,
    ) -> pl.DataFrame:
        """Return costs and budgets: one row per noise path, series and population, and one for all populations.

        Args:
            delta: The delta for which epsilon is shown.
            series: Return only rows of this series and its population; for a periodic series, rows of all periods.
            short: Return only the rows of populations and the row with scope "everybody".
            full: Return all columns, including noise, cost, delta_infinity, numerical_slack, times and source;
                docs/ledger.md describes them.

        Returns:
            One row per noise path (its finest level), per series (the sum over its paths), per population (the sum
            over its series, also dropped series), and one for everybody (the sum over populations, or the largest of
            disjoint ones). Columns scope, population, series, path, level, epsilon (at delta), limit and remaining.

        Raises:
            DeclarationError: If delta is not from 0 up to 1.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
            >>> store = sh.open(":memory:")
            >>> visits = sh.create(store, log, name="visits", unit="user", key="url", max_keys=1,
            ...                    domain=sh.Strings(max_bytes=8))
            >>> for level in (0.1, 0.5, 0.2):
            ...     _ = visits.release(f"at_{10 * level:.0f}", level=level)
            >>> store.ledger().filter(pl.col("scope") == "everybody")["level"].item()
            '0.5'
        """
        with self.hold() as state:
            rows = ledger_rows(Ledger.of(state), delta, series=series, short=short)
        table = pl.DataFrame(rows, schema=SCHEMA)
        if full:
            return table
        return table.select(*_OF_LEDGER, limit=pl.coalesce("budget", "cap"), remaining="remaining")

    def events(self) -> pl.DataFrame:
        """Return all events, such as releases and refusals. Events are never changed or removed.

        There is one row per event, with the columns number, generation, happened (UTC), who, what, series, series_id,
        path_id, level, population, release, reason, details (JSON).
        """
        with self.hold() as state:
            return pl.DataFrame(state.events(), schema=EVENTS)

    def set_budget(
        self,
        *,
        epsilon: Level | None = None,
        delta: Level | None = None,
        rho: Level | None = None,
        route: str | None = None,
        open_share: Level | None = None,
        population: str = "default",
        reason: str | None = None,
    ) -> str:
        """Set the largest allowed total cost of a population's series; releases beyond this budget are refused.

        A budget is a filter: it holds even if every level, series and workload is chosen after looking at all earlier
        releases (`sparsehist.privacy.filters`). A budget that is set before the first release holds ex ante; a budget
        that is set, raised or changed later holds only ex post. Raising or changing a budget needs a reason.

        Args:
            epsilon: Limit on epsilon at `delta`; pure differential privacy if delta is 0.
            delta: The delta for `epsilon`; with `rho`, the delta that open domains may spend.
            rho: Instead of epsilon: limit on the sum in zCDP. Gaussian noise adds its level, pure noise adds the rho
                of its cap.
            route: "gaussian" (exact, Gaussian noise only; the default with a delta), "pure" (Laplace and discrete
                Laplace), "renyi" (everything but Poisson, at one order), "poisson" (Poisson only).
            open_share: Share of delta for open domains, below 1. By default half if the population has an open
                domain; else 0, which becomes half when an open domain is declared before the first release.
            population: The population; its series may be created later.
            reason: Reason for the ledger.

        Raises:
            DeclarationError: If it is neither rho nor (epsilon, delta), allows no release, is changed without a
                reason, or has a route that cannot charge an existing series; the message names a possible route.

        Example:
            >>> import sparsehist as sh
            >>> store = sh.open(":memory:", who="privacy office")
            >>> store.set_budget(rho=1)
            'rho 1 (rho up to 1)'
            >>> store.events()["what"].to_list()
            ['create store', 'set budget']
        """
        return set_budget(
            self, rho=rho, epsilon=epsilon, delta=delta, route=route, open_share=open_share,
            population=population, reason=reason,
        )  # fmt: skip

    def declare_disjoint(self, populations: Sequence[str], *, reason: str) -> None:
        """Declare that no person belongs to two of these populations, so that their costs do not add up.

        The package cannot check that the populations are disjoint, so the ledger records the caller and the reason.

        Raises:
            DeclarationError: If there are fewer than two different names, or no reason.

        Example:
            >>> import sparsehist as sh
            >>> store = sh.open(":memory:")
            >>> store.declare_disjoint(["north", "south"], reason="by country of residence")
        """
        declare_disjoint(self, populations, reason=reason)

    def report(self, *, delta: float = DEFAULT_DELTA) -> str:
        """Return a report, as one self-contained HTML page, for the person who is responsible for the releases.

        The report follows the questions of NIST SP 800-226. It contains only public parameters and published rows:
        guarantees, protected units, remaining budgets, every release with its error, the largest keys, and what is
        not guaranteed. The page makes no network requests and runs no scripts. Epsilon is shown at `delta`.

        Raises:
            NotFoundError: If altair is not installed.
            DeclarationError: If delta is not from 0 up to 1.
        """
        from sparsehist.report.store_report import store_report

        return store_report(self, delta=delta)


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = False,
    wait: float = 0.0,
    seed: int | None = None,
    who: str | None = None,
) -> Store:
    """Open a store, and return it as a `Store`.

    Args:
        path: Directory of the store, or ":memory:" for experiments.
        create: Create an empty store if there is none.
        wait: Seconds that each call waits, if the store is in use, before it fails.
        seed: Seed that makes a ":memory:" store reproducible.
        who: Name of the caller for the ledger; by default the user of the operating system.

    Raises:
        NotFoundError: If there is no store at `path`.
        StoreError: If it is damaged, of another version, a copy, or older than a release published from it.
    """
    store = Store(path, wait=wait, seed=seed, who=who)
    if create:
        ensure_store(store.path)
    with store.hold():
        return store


def sql(
    script: str,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    tables: Mapping[str, object] | None = None,
    wait: float = 0.0,
    who: str | None = None,
) -> SqlResult:
    """Run an SQL script of DuckDB and sparsehist statements (CREATE SERIES, APPEND, RELEASE, PLAN, SHOW and DROP).

    The whole script is checked before any statement runs. Execution stops at the first error; earlier statements
    remain committed. Each call is a separate session: tables and views that it creates are gone when the call
    returns. Releases can be read as tables `series.release`.

    Args:
        script: Statements, separated by semicolons.
        store: Directory of a store, which the first CREATE SERIES may create, or a `Store`. Without a store, only
            DuckDB's statements run.
        parameters: Values for $name; levels may be text, int, Decimal or Fraction.
        tables: Tables by name: frames, Arrow tables, paths and URLs of files, or `Files` (read completely).
            Statements do not see variables of your program.
        wait: Seconds to wait for a store in use, if `store` is a directory.
        who: Name of the caller for the ledger, if `store` is a directory; by default the system's user.

    Returns:
        The result; `.frame` has the rows of the last statement, `.release` its release.

    Raises:
        StatementError: If statements are wrong; the message shows each with its line, and nothing has run.
        SparsehistError: If a statement fails when it runs; the message shows its line.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> with sh.open(":memory:", seed=1) as store:
        ...     made = sh.sql('''
        ...         CREATE SERIES visits
        ...           WITH (unit = user_id, key = url, max_keys = 1, domain = 'strings(max_bytes=8)')
        ...           AS SELECT user_id, url FROM log;
        ...         RELEASE public FROM visits AT LEVEL 0.5 EXPECTING 1 FALSE KEYS;
        ...         SELECT url FROM visits.public ORDER BY noisy_count DESC LIMIT 1;
        ...     ''', store=store, tables={"log": pl.DataFrame({"user_id": range(500), "url": ["/home"] * 500})})
        >>> made.frame["url"].to_list()
        ['/home']
    """
    from sparsehist.sqlfront.session import run_sql

    home = store if isinstance(store, Store) else None if store is None else Home(store, wait=wait, who=who)
    return run_sql(script, home, parameters=parameters, tables=tables)


def _shown(declaration: Declaration) -> dict[str, str | None]:
    """Return those parameters of a series that are shown in the table of all series."""
    shown = dict(declaration_rows(declaration))
    return {name: shown.get(name) for name in _OF_SERIES}
