"""A curator's session: one DuckDB connection in memory beside a store, and statements that run on both."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import duckdb

from sparsehist.counting.contract import Query
from sparsehist.counting.progress import Counting
from sparsehist.counting.queries import as_table
from sparsehist.declaration import Declaration
from sparsehist.errors import (
    InputError,
    NotFoundError,
    SparsehistError,
    StatementError,
    of_kind,
    present,
    raise_alone,
)
from sparsehist.guarantee.extensions import INSTALL_NOTHING, draw_no_progress
from sparsehist.guarantee.files import reader_of
from sparsehist.guarantee.statement import Source, folded, quoted
from sparsehist.ledger.ledger import Ledger
from sparsehist.release import any_kind
from sparsehist.release.creation import NewLog, counted_into, declared_into, with_source
from sparsehist.release.home import Home
from sparsehist.release.key_discovery import discover_keys
from sparsehist.release.limits import declare_disjoint, raise_cap, set_budget
from sparsehist.release.periods import append_period, declare_periods, declared_periods, drop
from sparsehist.release.releases import AnyRelease, check_target
from sparsehist.release.steps import append_step
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront import release_tables
from sparsehist.sqlfront.checking import Known, Problem, check_log, check_plain, checked
from sparsehist.sqlfront.declaring import Declared, checked_query, declared_discovery
from sparsehist.sqlfront.engine_words import told
from sparsehist.sqlfront.reading import Statement, bindable, meant
from sparsehist.sqlfront.release_tables import asked_of, explained, made_before, shown
from sparsehist.sqlfront.results import Outcome, rows_of
from sparsehist.sqlfront.script import Piece, Place, asked_for, plain, pointed
from sparsehist.store import ensure_store, is_store
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement as statement_named

if TYPE_CHECKING:
    from sparsehist.counting.contract import ClosedQuery

_SHOW = re.compile(r"show\s+", re.IGNORECASE)
_MISSING_TABLE = re.compile(r'Table with name "?(\w+)(?:"?\."?(\w+))?')


class Session:
    """Runs statements one by one; a context manager.

    Args:
        store: Where series live; None for a session that only has DuckDB.
        tables: As for `sql`.
        parameters: As for `sql`.
        rows: At most this many rows of a query are kept; all if None.
    """

    def __init__(
        self,
        store: Home | None = None,
        *,
        tables: Mapping[str, object] | None = None,
        parameters: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> None:
        self.store = store
        self.parameters = {name.lower(): value for name, value in (parameters or {}).items()}
        self._rows = rows
        self._aborted = False
        self._in_transaction = False
        self._tables: dict[str, tuple[object, object]] = {}
        self._spill = ExitStack()
        spill = self._spill.enter_context(spill_directory())
        self.connection = duckdb.connect(":memory:", config=INSTALL_NOTHING)
        self.connection.execute("set python_enable_replacements = false")
        self.connection.execute("set errors_as_json = true")
        draw_no_progress(self.connection)
        self.connection.execute("set temp_directory = $directory", {"directory": str(spill)})
        for name, table in (tables or {}).items():
            try:
                self.connection.register(name, as_table(table))
                self._tables[folded(name)] = (table, self._number_of(name))
            except SparsehistError:
                self.close()
                raise
            except duckdb.Error:
                self.close()
                raise_alone(InputError(f"tables= takes frames and Arrow tables, got {type(table).__name__}"))

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    def close(self) -> None:
        """Forget tables, views and spill; what was committed to the store stays."""
        self.connection.close()
        self._spill.close()

    def check(self, script: str) -> tuple[list[Statement], list[Problem]]:
        """Read a script and check all of it, running nothing."""
        return checked(script, self.parameters, self._known(), self.connection)

    def execute(self, statement: Statement) -> Outcome:
        """Run a statement that was checked. Errors show the place; what was committed before stays."""
        runs: dict[str, Callable[[Statement], Outcome]] = {
            "": self._plain,
            "create series": self._create,
            "append": self._append,
            "release": self._release,
            "plan": self._plan,
            "choose keys": self._choose_keys,
            "drop series": self._drop,
            "set budget": self._set_budget,
            "set cap": self._set_cap,
            "declare disjoint": self._declare_disjoint,
        }
        run = runs.get(statement.kind, self._show)
        try:
            self._check_transaction(statement)
            return run(statement)
        except SparsehistError as problem:
            if not _shows_place(problem):
                problem.args = (pointed(str(problem), statement.piece.script, statement.piece.place),)
            raise
        finally:
            self._note_aborted()

    def _note_aborted(self) -> None:
        """Note that an error has ended a transaction: COMMIT then takes all back and says nothing of it."""
        if self._in_transaction and release_tables.is_aborted(self.connection):
            self._aborted = True

    def _check_transaction(self, statement: Statement) -> None:
        """Refuse what can only fail, before it spends or writes anything."""
        self._note_aborted()
        self._aborted = self._aborted and release_tables.is_aborted(self.connection)
        if self._aborted and not _leaves_transaction(statement.piece):
            raise StatementError("an error has ended the transaction, and what it did is gone: ROLLBACK leaves it")

    def _known(self) -> Known:
        if self.store is None:
            return Known(self._check_query, complete=False)
        declared: dict[str, Declaration | None] = {}
        if is_store(self.store.path):
            with self.store.hold() as state:
                declared = {
                    record.name: declaration_of(record) if record.declaration.get("steps") else None
                    for record in state.all_series()
                } | {name: declared_periods(self.store, state, name) for name in Ledger.of(state).limits.periods}
        return Known(self._check_query, declared, store=self.store.path)

    def _existing(self) -> Home:
        if self.store is None:
            raise NotFoundError("this statement needs a store: name one (store=, on the command line --store)")
        return self.store

    def _plain(self, statement: Statement) -> Outcome:
        piece = statement.piece
        names = check_plain(piece, self.parameters, self.connection)
        self._bring_releases(statement)
        try:
            relation = self._run(piece, names)
            frame, more = rows_of(relation, self._rows)
        except RuntimeError:  # how DuckDB tells that Ctrl-C stopped it
            raise_alone(KeyboardInterrupt())
        except duckdb.Error as problem:
            self._failed(piece.script, piece.place, self._bound(names), problem, hint=meant(piece))
        return Outcome(piece.number, piece.line, "duckdb", frame, more)

    def _run(self, piece: Piece, names: set[str]) -> duckdb.DuckDBPyRelation | None:
        """Run a statement of DuckDB."""
        bound = self._bound(names)
        begins = plain(piece.tokens[0], piece.script).upper() in ("BEGIN", "START")
        self._in_transaction = (self._in_transaction or begins) and not _leaves_transaction(piece)
        return self.connection.sql(piece.text, params=bound or None)

    def _create(self, statement: Statement) -> Outcome:
        name, store, query = statement.name, self._existing(), statement.query
        self._bring_releases(statement)
        existed, reuse = self._has_series(name), "flag" in statement.asked
        kept = existed and reuse
        wanted = present(check_log(statement, None, self.connection))
        if_exists = "reuse" if reuse else "error"
        if wanted.declaration.every is not None:
            declare_periods(store, wanted.declaration, if_exists)
            return _outcome(statement, f"declared the series {name}, whose periods are appended")
        source = self._source(statement, wanted, runs=not kept) if query else None
        if wanted.declaration.steps is None:
            asked = NewLog(source, with_source(wanted.declaration, source), if_exists)
            counted_into(store, asked, Counting(**wanted.counting))
            return _outcome(statement, f"{'kept' if kept else 'created'} the series {name}")
        made = declared_into(store, wanted.declaration, if_exists)
        try:
            if source is not None:
                append_step(store, wanted.declaration, made.series_id, source, 1)
        except BaseException:
            if not existed:  # both, or neither
                with store.hold() as state:
                    state.drop_series(name, who=store.who, reason="its first step could not be appended")
            raise
        steps = "with step 1" if query else "without a step yet"
        return _outcome(statement, f"{'kept' if kept else 'created'} the series {name}, {steps}")

    def _append(self, statement: Statement) -> Outcome:
        name, store, period = statement.name, self._existing(), statement.asked.get("period")
        self._bring_releases(statement)
        if period is not None:
            with store.hold() as state:
                if name not in Ledger.of(state).limits.periods:
                    raise NotFoundError(f"there is no series {name} of periods")
                declaration, series_id = declared_periods(store, state, name), ""
        else:
            declaration, series_id = release_tables.declared(store, name)
        wanted = present(check_log(statement, declaration, self.connection))
        query = self._source(statement, wanted, runs=True)
        if period is not None:
            made = append_period(store, declaration, query, period)
            return _outcome(statement, f"appended the period {period} of {name}: its series is {made.name}")
        step = statement.asked["step"]
        if append_step(store, declaration, series_id, query, present(declaration.steps).step_of(step)):
            return _outcome(statement, f"appended step {step} of {declaration.n_steps} to the series {name}")
        told = f"step {step} of the series {name} was appended with this log before; nothing changed"
        return _outcome(statement, told)

    def _source(self, statement: Statement, wanted: Declared, *, runs: bool) -> object:
        """Return the log of a statement: its query in a closed world, or rows that nobody checks if it says so.

        A query that is not run after all may read what is not there any more.
        """
        bound = self._parameters_of(statement.query)
        if wanted.declaration.unverified:
            try:
                return self.connection.sql(statement.query, params=bound or None)
            except duckdb.Error as problem:
                self._failed(statement.piece.script, statement.place("query"), bound, problem)
        try:
            return present(self._check_query(statement, wanted, settled=True))
        except SparsehistError:
            if runs:
                raise
            return Query(statement.query, parameters=bound)

    def _check_query(self, statement: Statement, wanted: Declared, settled: bool) -> ClosedQuery | None:  # noqa: FBT001
        public = {folded(name): name for name in wanted.public_tables}
        unverified = wanted.declaration.unverified
        query = Query(
            statement.query, public={name: name for name in wanted.public_tables},
            parameters=self._parameters_of(statement.query), unverified=unverified,
        )  # fmt: skip
        settled = settled and not unverified
        if settled:
            self._check_settings(statement)
        return checked_query(statement, wanted, query, lambda path: self._source_named(path, public), settled=settled)

    def _source_named(self, path: tuple[str, ...], public: Mapping[str, str]) -> Source | None:
        """Return what a name in the query of a series stands for: a table handed over, a release, or one of here."""
        name = ".".join(path)
        table, number = self._tables.get(name, (None, []))
        if table is not None and number == self._number_of(name):
            return Source(name, public=name in public, opens=lambda: as_table(table), origin=table)
        if (release := self._release_named(path)) is not None:
            return Source(name, public=True, opens=lambda: release.frame)
        if reader_of(name):  # DuckDB would guess how to read it
            return None
        text = f"from {'.'.join(map(quoted, path))}"
        try:
            self.connection.sql(text)
        except duckdb.CatalogException:
            return None
        except duckdb.Error as problem:
            raise_alone(StatementError(f"{name} cannot be read ({type(problem).__name__.removesuffix('Exception')})"))
        declared = name in public
        return Source(name, public=declared, opens=lambda: self.connection.sql(text), checked=declared)

    def _release_named(self, path: tuple[str, ...]) -> AnyRelease | None:
        series, name = path[-2:] if len(path) == 2 or path[:-2] == ("memory",) else ("", "")
        if self.store is None or not is_store(self.store.path) or series not in self.store.series_names():
            return None
        return made_before(self.store, series, name)

    def _number_of(self, name: str) -> object:
        """Return DuckDB's number of a table that was handed over; None once another one has its name."""
        return self.connection.execute(statement_named("session_view"), {"name": folded(name)}).fetchall()

    def _check_settings(self, statement: Statement) -> None:
        """Refuse settings of the session that change what a query means: it is run without them."""
        asked = statement_named("guarantee_settings")
        with duckdb.connect(":memory:") as fresh:
            usual = dict(fresh.execute(asked).fetchall())
        for name, value in self.connection.execute(asked).fetchall():
            if value != usual.get(name):
                raise statement.error(f"the query of a series runs with DuckDB's own {name}: reset it", "query")

    def _parameters_of(self, query: str) -> dict[str, Any]:
        return {name: bindable(value) for name, value in asked_for(query, self.parameters).items()}

    def _release(self, statement: Statement) -> Outcome:
        store, name, series = self._existing(), statement.name, statement.asked["series"]
        target = Path(statement.asked["target"]) if "target" in statement.asked else None
        declaration, series_id = release_tables.declared(store, series)
        if target is not None:
            check_target("TO", target, store.path)
        release = any_kind.release(store, declaration, series_id, name, target=target, **asked_of(statement))
        if target is not None:
            try:
                release.write(target)
            except SparsehistError as problem:
                told = "The release is committed to the store: repeat the statement to write it"
                problem.args = (f"{problem}. {told}",)
                raise
        release_tables.put(self.connection, series, release)
        counts = release.metadata.get("counts", "units")
        before = ", released before: nothing is spent" if release.repeated else ""
        written = "" if target is None else f", written to {target}"
        written += "" if counts == "units" else f". It counts {counts}"
        said = f"release {name} of {series}: {len(release):,} rows{before}{written}"
        return replace(_outcome(statement, said), frame=release.frame, release=release)

    def _plan(self, statement: Statement) -> Outcome:
        store = self._existing()
        declaration, series_id = release_tables.declared(store, statement.asked["series"])
        levels = list(statement.asked["levels"])
        asked = {name: value for name, value in asked_of(statement).items() if name != "level"}
        if "workload" not in asked:
            planned = any_kind.plan(store, declaration, series_id, levels, **asked).levels
        else:
            from sparsehist.release.workload_round import WorkloadRequest, planned_strategies

            request, _ = any_kind.request_of(declaration, "plan", **asked)
            workload = present(of_kind(request, WorkloadRequest).workload)
            planned = planned_strategies(store, declaration, series_id, workload, levels)
            if "strategy" in asked:
                planned = planned.filter(strategy=asked["strategy"])
        return replace(_outcome(statement, "planned; nothing is spent"), frame=planned)

    def _choose_keys(self, statement: Statement) -> Outcome:
        store, target = self._existing(), statement.asked.get("target")
        self._bring_releases(statement)
        wanted, asked = declared_discovery(statement)
        source = self._source(statement, wanted, runs=True)
        found = discover_keys(store, source, name=statement.name, level=statement.asked["level"], **asked)
        if target is not None:
            found.write_parquet(Path(target))
        written = "" if target is None else f", written to {target}: the domain is catalogue(file={target!r})"
        outcome = _outcome(statement, f"found {found.size:,} keys at level {statement.asked['level']}{written}")
        return replace(outcome, frame=found.values.alias("value").to_frame())

    def _drop(self, statement: Statement) -> Outcome:
        name, store = statement.name, self._existing()
        if "flag" in statement.asked and not self._has_series(name):
            return _outcome(statement, f"there was no series {name}")
        with store.hold() as state:
            ended = Ledger.of(state).ended_by_dropping(name)
            drop(store, state, name)
        release_tables.remove(self.connection, name)
        return _outcome(statement, f"{ended}erased the series {name}; what it has cost stays in the ledger")

    def _set_budget(self, statement: Statement) -> Outcome:
        store = self._existing()
        ensure_store(store.path)
        population = statement.asked.get("population", "default")
        return _outcome(statement, f"the budget of population {population} is {set_budget(store, **statement.asked)}")

    def _set_cap(self, statement: Statement) -> Outcome:
        level, reason = statement.asked["level"], statement.asked["reason"]
        raise_cap(self._existing(), statement.name, level, reason=reason)
        return _outcome(statement, f"the cap of the series {statement.name} is {level} from now on")

    def _declare_disjoint(self, statement: Statement) -> Outcome:
        store, populations = self._existing(), statement.asked["populations"]
        ensure_store(store.path)
        declare_disjoint(store, populations, reason=statement.asked["reason"])
        return _outcome(statement, f"declared that nobody is in two of {', '.join(populations)}")

    def _show(self, statement: Statement) -> Outcome:
        outcome = _outcome(statement, explained(statement), "show")
        return replace(outcome, frame=shown(self._existing(), statement))

    def _has_series(self, name: str) -> bool:
        store = self._existing()
        if not is_store(store.path):
            return False
        with store.hold() as state:
            return state.series(name) is not None or name in Ledger.of(state).limits.periods

    def _bring_releases(self, statement: Statement) -> None:
        """Make tables of the releases a statement names and the session does not have yet."""
        store, piece = self.store, statement.piece
        if store is None or not is_store(store.path):
            return
        named = set(release_tables.dotted_names(piece.tokens, piece.script))
        wanted = {pair for pair in named if not release_tables.has_table(self.connection, *pair)}
        known = set(store.series_names()) if wanted else set()
        for series, name in sorted(pair for pair in wanted if pair[0] in known):
            release = made_before(store, series, name)
            if release is not None:
                release_tables.put(self.connection, series, release)

    def _bound(self, names: object) -> dict[str, Any]:
        return {name: bindable(self.parameters[name.lower()]) for name in names}  # type: ignore[attr-defined]

    def _failed(
        self, script: str, place: Place, bound: Mapping[str, Any], problem: duckdb.Error, *, hint: str = ""
    ) -> NoReturn:
        if isinstance(problem, duckdb.InterruptException):
            raise KeyboardInterrupt from None
        text, variables = script[place.start : place.end], release_tables.has_variables(self.connection)
        message, at = told(self.connection, text, bound, problem, variables=variables)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        shown = _SHOW.match(script, place.start)
        if shown is not None:  # DuckDB counts in a SELECT of its own
            where = Place(shown.end(), place.end)
        raise_alone(StatementError(pointed((self._releases_of_that(message) or message) + hint, script, where)))

    def _releases_of_that(self, message: str) -> str:
        """Where a table is missing that has the name of a series: the tables that there are."""
        found = _MISSING_TABLE.match(message)
        if found is None or self.store is None or not self._has_series(name := found[1].lower()):
            return ""
        made = ", ".join(f"{name}.{release}" for release in release_tables.releases(self.store, name)["name"])
        has = f"the releases {made}" if made else "no release yet"
        missing = name if found[2] is None else f"{name}.{found[2].lower()}"
        return f"there is no table {missing}: the series {name} has {has}"


def _outcome(statement: Statement, said: str, kind: str = "") -> Outcome:
    return Outcome(statement.piece.number, statement.piece.line, kind or statement.kind, said=said)


def _leaves_transaction(piece: Piece) -> bool:
    return plain(piece.tokens[0], piece.script).upper() in ("COMMIT", "END", "ROLLBACK", "ABORT")


def _shows_place(problem: SparsehistError) -> bool:
    return str(problem).startswith("line ") and "\n" in str(problem)
