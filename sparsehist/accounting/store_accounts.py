"""What a store knows of what was spent, and the limits declared on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sparsehist.accounting.ledger import DEFAULT_DELTA, ledger_frame
from sparsehist.accounting.limits import Limits, budget, checked_text
from sparsehist.errors import DeclarationError
from sparsehist.privacy import Level
from sparsehist.series.declaration import checked_name

if TYPE_CHECKING:
    from sparsehist.store import State


class StoreAccounts:
    """The ledger of a `Store`, its limits and its events."""

    def state(self, wait: float | None = None) -> AbstractContextManager[State]:
        """Hold the store; for the package's own use."""
        raise NotImplementedError

    def ledger(self, *, delta: float = DEFAULT_DELTA) -> pl.DataFrame:
        """What has been spent, by path, by series, by population, and at most by anybody.

        Args:
            delta: At which epsilon is shown.

        Returns:
            One row a noise path (its finest level), one a series (the sum over its paths), one a population
            (the sum over its series) and one for everybody (the sum over populations, of disjoint ones the
            largest). `level` is exact text in its `currency`, `cost` is rho, and `epsilon` at `delta` holds whatever
            the noise. Dropped series stay. `sparsehist.accounting.export.COLUMNS` says what each column means.

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
        with self.state() as state:
            return ledger_frame(state.ledger(), state.events(), delta)

    def events(self) -> pl.DataFrame:
        """Who did or asked for what, when, and why; only ever appended to.

        Returns:
            number, generation, happened (UTC), who, what, series, series_id, path_id, level, population, release,
            reason, details (JSON); one row an event, refusals included.
        """
        with self.state() as state:
            return state.events()

    def set_budget(
        self,
        population: str,
        *,
        rho: Level | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        who: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Limit what the series of a population may spend together; releases beyond it are refused.

        A budget set before the first release holds ex ante; one set or raised later holds ex post only, needs a
        reason, and the ledger shows which of the two it is.

        Args:
            population: Its name; its series may come later.
            rho: Limit on the sum, in zCDP.
            epsilon: Instead: limit on epsilon at `delta`, whatever the noise.
            delta: At which epsilon holds; or, beside rho, what open domains may spend.
            who: Asks for it; the user of the operating system by default.
            reason: Kept in the ledger.

        Raises:
            DeclarationError: If it is neither rho nor (epsilon, delta), or is raised without a reason.

        Example:
            >>> import sparsehist as sh
            >>> store = sh.open(":memory:")
            >>> store.set_budget("default", epsilon=4, delta=1e-6, who="privacy office")
            >>> store.events()["what"].to_list()
            ['create store', 'set budget']
        """
        asked = budget(rho=rho, epsilon=epsilon, delta=delta)
        checked_name("population", population)
        checked_text("who", who)
        checked_text("reason", reason)
        with self.state() as state:
            before = Limits(state.events()).budget(population, None).now
            if before is not None and not asked.is_within(before) and reason is None:
                raise DeclarationError(
                    f"the budget of population {population!r} is {before}: to raise it to {asked}, give reason="
                )
            state.declare("set budget", who=who, population=population, reason=reason, details=asked.as_json())

    def declare_disjoint(self, populations: Sequence[str], *, reason: str, who: str | None = None) -> None:
        """Declare that nobody is in two of these populations: their costs no longer add up for anybody.

        Nothing here can check it; whoever declares it answers for it, which is why the ledger keeps who and why.

        Args:
            populations: Two names or more.
            reason: Why it is so, such as "separated by country of residence".
            who: Declares it; the user of the operating system by default.

        Raises:
            DeclarationError: If they are not two different names or more, or there is no reason.

        Example:
            >>> import sparsehist as sh
            >>> store = sh.open(":memory:")
            >>> store.declare_disjoint(["north", "south"], reason="by country of residence")
        """
        named = [] if isinstance(populations, str) else [checked_name("population", name) for name in populations]
        if len(named) < 2 or len(set(named)) < len(named):
            raise DeclarationError(f"disjoint are two populations or more, each named once, got {populations!r}")
        checked_text("reason", reason, needed=True)
        checked_text("who", who)
        with self.state() as state:
            state.declare("declare disjoint", who=who, reason=reason, details={"populations": sorted(named)})

    def export_ledger(self, path: str | os.PathLike[str], *, delta: float = DEFAULT_DELTA) -> None:
        """Write the ledger and all events for whoever signs them: JSON or Parquet, by the file's suffix.

        Nothing secret is in it. `sparsehist.accounting.export` describes the schema, which the file carries too.

        Args:
            path: Ends in .json or .parquet; a file there is replaced only if it is such an export.
            delta: At which epsilon is shown.

        Raises:
            InputError: If the suffix is another, or something else stands there.
            StoreError: If it cannot be written.
        """
        from sparsehist.accounting.export import checked_target, write_ledger

        target = checked_target(Path(path))
        with self.state() as state:
            frame, events = ledger_frame(state.ledger(), state.events(), delta), state.events()
            write_ledger(target, frame, events, store_id=state.store_id, generation=state.generation, delta=delta)
