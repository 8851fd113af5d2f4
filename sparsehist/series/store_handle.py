"""A store: the directory that series stand in, what they cost together, and who asked."""

from __future__ import annotations

import builtins
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from sparsehist import entropy, series
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name, checked_text, checked_wait
from sparsehist.errors import DeclarationError, NotFoundError, StoreError
from sparsehist.ledger.budgets import budget
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.public_ledger import check_signing
from sparsehist.ledger.table import DEFAULT_DELTA, EVENTS, SCHEMA, ledger_rows
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.releases import StoreOnDisk, refuse_to_replace
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.series.series_handle import Series
from sparsehist.store import SeriesRecord, State, backup, create_store, ensure_store, open_state

if TYPE_CHECKING:
    from sparsehist.sqlfront.results import SqlResult

_MEMORY = ":memory:"
Progress = bool | Callable[[str], None] | None
"""Of long work: a function of your own; True for phases on stderr, False for silence, None for a terminal only. In a
notebook True and None show them in its output."""


class Store:
    """A directory that holds series: their counts, what was released from them, and at what cost.

    Nothing is held open between calls, so a store survives forks and may be used from several threads and
    processes; a call that finds it in use waits `wait` seconds and then says so.

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

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 0.0, seed: int | None = None) -> None:
        """Use `open` or `create` instead."""
        self.wait = checked_wait(wait)
        if not isinstance(path, str | os.PathLike):
            raise DeclarationError(f'a store is a directory\'s path or ":memory:", got {path!r}')
        self._memory = os.fspath(path) == _MEMORY
        if seed is not None and not self._memory:
            raise DeclarationError('seed is for ":memory:" stores only: a store on disk never repeats its noise')
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise DeclarationError(f"seed must be a whole number from 0 up, got {seed!r}")
        self._seeded = None if seed is None else entropy.seeded(seed)
        # A declaration never changes, so what was read once need not be read again.
        self._known: dict[str, SeriesRecord] = {}
        self.path = _directory_in_memory(self) if self._memory else Path(path).absolute()

    def __repr__(self) -> str:
        """Where it is."""
        return f"Store({_MEMORY if self._memory else str(self.path)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its series and what they cost."""
        return series.in_notebook(self)

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Forget a store in memory; one on disk holds nothing open."""
        if self._memory:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def series(self, name: str) -> Series:
        """Return a series by name.

        Raises:
            NotFoundError: If there is none.
        """
        declaration = self.declared(name)
        if declaration.steps is not None:
            raise NotFoundError(f"{name!r} is a running series: sparsehist.open_running gives it")
        return Series(self, self._known[name].series_id, declaration)

    def declared(self, name: str) -> Declaration:
        """What a series of any kind was declared with.

        Raises:
            NotFoundError: If there is none of that name.
        """
        if checked_name("series", name) not in self._known:
            with self._hold() as state:
                self._remember(state)
                if name not in self._known:
                    raise NotFoundError(f"{self!r} holds no series {name!r}; {_listed(state, name)}")
        return declaration_of(self._known[name])

    def series_names(self) -> list[str]:
        """Names of the series, sorted."""
        with self._hold() as state:
            self._remember(state)
        return sorted(self._known)

    def sql(
        self,
        script: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> SqlResult:
        """Run SQL on this store; see `sparsehist.sql`."""
        return series.sql(script, store=self, parameters=parameters, tables=tables)

    def drop(self, name: str, *, who: str | None = None, reason: str | None = None) -> None:
        """Erase a series: its counts, keys and noise. What it has cost stays in the ledger.

        Of a log in periods with `most_periods`, nothing more can be added once a period that was released is dropped:
        who counted in it is known no more.

        Args:
            name: Of the series.
            who: Asks for it; the user of the operating system by default.
            reason: Kept in the ledger.

        Raises:
            NotFoundError: If there is no such series.
        """
        said = {"who": checked_text("who", who), "reason": checked_text("reason", reason)}
        with self._hold() as state:
            if state.series(checked_name("series", name)) is None:
                raise NotFoundError(f"{self!r} holds no series {name!r}; {_listed(state, name)}")
            state.drop_series(name, **said)
            self._remember(state)

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Copy the store, consistently. A copy must be adopted before use, and must not run beside this one."""
        backup(self.path, Path(destination), wait=self.wait)

    def _remember(self, state: State) -> None:
        """Note which series there are."""
        self._known = {record.name: record for record in state.all_series()}

    @contextmanager
    def _hold(self, wait: float | None = None) -> Iterator[State]:
        """Hold the store: lock, check, connect."""
        _refuse_in_broken_child()
        with open_state(
            self.path, wait=self.wait if wait is None else checked_wait(wait), durable=not self._memory
        ) as state:
            yield state

    def _check_file(self, target: Path, series: str, name: str, *, signed: bool) -> None:
        """Refuse to write a release where something else stands, or unlike others beside it, before it is drawn."""
        with self._hold() as state:
            record = state.series(series)
            made = None if record is None else state.release_named(record, name)
            wanted = {"store": state.store_id, "series": series, "name": name, "generation": made and made.generation}
        refuse_to_replace(target, wanted)
        check_signing(target, wanted, signed=signed)

    @property
    def _reproducible(self) -> bool:
        """Whether a seed was given."""
        return self._seeded is not None

    def _generator(self) -> np.random.Generator:
        """A generator for one piece of work."""
        return entropy.generator() if self._seeded is None else self._seeded

    def _origin(self, state: State) -> StoreOnDisk | None:
        """What a release remembers of this store; nothing if it is in memory."""
        return None if self._memory else StoreOnDisk(self.path, state.publications, self.wait)

    def ledger(
        self,
        *,
        delta: float = DEFAULT_DELTA,
        series: str | None = None,
        since: str | date | None = None,
        short: bool = False,
    ) -> pl.DataFrame:
        """What has been spent, by path, by series, by population, and at most by anybody, and what remains.

        Args:
            delta: At which epsilon is shown.
            series: Only rows of that series and of its population; of a log in periods, all of them.
            since: Only what was released since that time (UTC), such as "2026-01-31", and its populations.
            short: Populations and everybody only.

        Returns:
            One row per noise path (its finest level), per series (the sum over its paths), per population (the sum
            over its series; one row for all periods of a log) and for everybody (the sum over populations, of
            disjoint ones the largest). Dropped series stay. `sparsehist.ledger.export.COLUMNS` says what each column
            means.

        Raises:
            DeclarationError: If delta is not from 0 up to 1, or since is no time.

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
        with self._hold() as state:
            rows = ledger_rows(Ledger.of(state), delta, series=series, since=since, short=short)
        return pl.DataFrame(rows, schema=SCHEMA)

    def events(self) -> pl.DataFrame:
        """Who did or asked for what, when, and why; only ever appended to.

        Returns:
            number, generation, happened (UTC), who, what, series, series_id, path_id, level, population, release,
            reason, details (JSON); one row per event, refusals included.
        """
        with self._hold() as state:
            return pl.DataFrame(state.events(), schema=EVENTS)

    def set_budget(
        self,
        population: str,
        *,
        rho: Level | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        route: str | None = None,
        order: int | None = None,
        open_share: Level | None = None,
        poisson: EpsilonDelta | None = None,
        who: str | None = None,
        reason: str | None = None,
    ) -> str:
        """Limit what the series of a population may spend together; releases beyond it are refused.

        A budget is a filter: it stays valid when every level, series and workload is chosen by looking at all earlier
        releases. Its route and its split of delta are fixed now (`sparsehist.privacy.filters`). One set before the
        first release holds ex ante; one set or raised later, or with another route or split, holds ex post only,
        needs a reason, and the ledger shows which of the two it is.

        Args:
            population: Its name; its series may come later.
            rho: Limit on the sum, in zCDP: Gaussian noise at its level, pure noise at that of its cap.
            epsilon: Instead: limit on epsilon at `delta`; at a delta of 0 it is pure.
            delta: At which epsilon holds; or, beside rho, what open domains may spend.
            route: "gaussian" (exact, Gaussian noise only; the default beside a delta), "pure" (Laplace and discrete
                Laplace), "renyi" (everything but Poisson, at one order), "poisson" (Poisson only).
            order: Of the Rényi route; by default the one that leaves most room for Gaussian noise.
            open_share: Share of delta for open domains, below 1; by default half where the population has one, else
                nothing. Give it where the first open series comes after the budget.
            poisson: An (epsilon, delta) apart for Poisson noise, taken off both.
            who: Asks for it; the user of the operating system by default.
            reason: Kept in the ledger.

        Returns:
            The budget in words: its route, the largest sum on it, and the split of delta.

        Raises:
            DeclarationError: If it is neither rho nor (epsilon, delta), leaves room for nothing, or is raised or
                changed without a reason, or its route cannot charge a series that is there; names one that could.

        Example:
            >>> import sparsehist as sh
            >>> store = sh.open(":memory:")
            >>> store.set_budget("default", rho=1, who="privacy office")
            'rho 1 (rho up to 1)'
            >>> store.events()["what"].to_list()
            ['create store', 'set budget']
        """
        checked_name("population", population)
        checked_text("who", who)
        checked_text("reason", reason)
        with self._hold() as state:
            domains = (declaration_of(known).domain for known in state.all_series() if known.population == population)
            asked = budget(
                rho=rho, epsilon=epsilon, delta=delta, route=route, order=order, open_share=open_share,
                poisson=poisson, opens=any(domain.is_open for domain in domains),
            )  # fmt: skip
            ledger = Ledger.of(state)
            before = ledger.budget(population).now
            if before is not None and not asked.is_within(before) and reason is None:
                raise DeclarationError(
                    f"the budget of population {population!r} is {before.describe()}: to raise or change it to "
                    f"{asked.describe()}, give reason="
                )
            ledger.check_budget(population, asked)
            state.declare("set budget", who=who, population=population, reason=reason, details=asked.as_json())
        return asked.describe()

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
            raise DeclarationError(f"give two or more populations, each named once; got {populations!r}")
        checked_text("reason", reason, needed=True)
        checked_text("who", who)
        with self._hold() as state:
            state.declare("declare disjoint", who=who, reason=reason, details={"populations": sorted(named)})

    def report(self, *, delta: float = DEFAULT_DELTA, curator: bool = False) -> str:
        """Write the report for whoever answers for what was released: one self-contained HTML page.

        It follows the questions of NIST SP 800-226 and holds public parameters and published rows only: what was
        promised to whom, what remains, every release with its error, the largest keys, what is not promised. Needs
        the extra `report`.

        Args:
            delta: The delta at which epsilon is shown.
            curator: Write a page for the curator only, which says so: exact numbers of each series are added.

        Returns:
            The page. It makes no network requests and runs no scripts.

        Raises:
            NotFoundError: If jinja2 is not installed.
            DeclarationError: If delta is not from 0 up to 1.
        """
        return series.store_report(self, delta=delta, curator=curator)

    def export_ledger(self, path: str | os.PathLike[str], *, delta: float = DEFAULT_DELTA) -> None:
        """Write the ledger and all events for whoever signs them: JSON or Parquet, by the file's suffix.

        Nothing secret is in it. `sparsehist.ledger.export` describes the schema, which the file carries too.

        Args:
            path: Ends in .json or .parquet; a file there is replaced only if it is such an export.
            delta: At which epsilon is shown.

        Raises:
            InputError: If the suffix is another, or something else stands there.
            StoreError: If it cannot be written.
        """
        from sparsehist.ledger.export import checked_target, write_ledger

        target = checked_target(Path(path))
        with self._hold() as state:
            spent = pl.DataFrame(ledger_rows(Ledger.of(state), delta, every_period=True), schema=SCHEMA)
            events = pl.DataFrame(state.events(), schema=EVENTS)
            write_ledger(target, spent, events, store_id=state.store_id, generation=state.generation, delta=delta)


def open(
    path: str | os.PathLike[str],
    *,
    create: bool = False,
    wait: float = 0.0,
    seed: int | None = None,
) -> Store:
    """Open a store.

    Args:
        path: Its directory, or ":memory:" for experiments.
        create: Make an empty store if there is none.
        wait: Seconds every call waits for a store in use before it gives up.
        seed: Makes a ":memory:" store reproducible.

    Returns:
        The store; a context manager.

    Raises:
        NotFoundError: If there is no store at `path`.
        StoreError: If it is damaged, of another version, a copy, or older than what was published from it.
    """
    store = Store(path, wait=wait, seed=seed)
    if create:
        ensure_store(store.path)
    with store._hold() as state:
        store._remember(state)
        return store


def _directory_in_memory(owner: object) -> Path:
    """Make a private store, in memory where the system has such a place; it goes when its owner goes."""
    shared = Path("/dev/shm")  # noqa: S108 - the directory made in it is private
    parent = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="sparsehist-", dir=parent))
    path = directory / "store"
    create_store(path, durable=False)
    weakref.finalize(owner, shutil.rmtree, directory, ignore_errors=True)
    return path


def _listed(state: State, name: str) -> str:
    """What a store holds, for somebody who asks for another name."""
    held = ", ".join(sorted(record.name for record in state.all_series())) or "none"
    if name in Ledger.of(state).limits.periods:
        return f"{name!r} is a log in periods, and each period a series: {held}"
    return f"it holds {held}"


# A store survives forks: no connection, lock or generator outlives a call. But a child forked after Polars has begun
# to work hangs in the first parallel operation, perhaps with the store locked; so it is refused before that.
_THREADS = Path("/proc/self/task")
_lost = False
_running = False


def _polars_runs() -> bool:
    """Whether Polars has started its threads; where the system does not say, it is taken to have."""
    try:
        names = [(thread / "comm").read_text().strip() for thread in _THREADS.iterdir()]
    except OSError:
        return True
    return any(name.removeprefix("polars-").isdigit() for name in names)


def _before() -> None:
    global _running  # noqa: PLW0603 - threads belong to the process, and so does what is known of them
    _running = _polars_runs()


def _in_child() -> None:
    global _lost  # noqa: PLW0603
    _lost = _lost or _running


os.register_at_fork(before=_before, after_in_child=_in_child)


def _refuse_in_broken_child() -> None:
    """Refuse to work in a process that was forked while Polars was running."""
    if _lost:
        raise StoreError(
            "this process was forked after Polars had started its threads, which a fork does not carry over; "
            "start workers by multiprocessing's 'spawn' or 'forkserver', or fork before the first release"
        )


@contextmanager
def reporting(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Give a function that is told the name of each phase as it begins; `progress` is that of `create`."""
    if callable(progress):
        yield progress
    elif progress in (True, None) and hasattr(getattr(builtins, "get_ipython", lambda: None)(), "kernel"):
        with _in_notebook() as tell:
            yield tell
    elif progress or (progress is None and sys.stderr.isatty()):
        with _on_terminal() as tell:
            yield tell
    else:
        yield lambda _: None


@contextmanager
def _in_notebook() -> Iterator[Callable[[str], None]]:
    """Phases in one output of a cell, written anew as they end.

    By their names alone: times and needs of memory tell how many rows there are, and outputs are saved and shared.
    """
    from IPython.display import display

    show: Any = display  # without types, where it is installed at all
    done: list[str] = []
    begun: list[str] = []
    output = show({"text/plain": "starting"}, raw=True, display_id=True)

    def tell(phase: str | None) -> None:
        name = (phase or "").partition(":")[0]
        if begun != [name]:
            done.extend(f"✓ {before}" for before in begun)
            begun[:] = [name] if name else []
        output.update({"text/plain": "\n".join([*done, *begun])}, raw=True)

    yield tell
    tell(None)


@contextmanager
def _on_terminal() -> Iterator[Callable[[str], None]]:
    from rich.console import Console

    console = Console(stderr=True)
    begun: list[tuple[str, float]] = []

    def finish() -> None:
        if begun:
            phase, since = begun.pop()
            console.print(f"  [green]✓[/] {phase} [dim]{time.perf_counter() - since:.1f} s[/]")

    with console.status("starting") as status:

        def tell(phase: str) -> None:
            finish()
            begun.append((phase, time.perf_counter()))
            status.update(phase)

        yield tell
        finish()
