"""A curator's session: one DuckDB connection in memory beside a store, and statements that run on both."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
from sparsehist.release.limits import declare_disjoint, set_budget
from sparsehist.release.periods import append_period, declare_periods, declared_periods, drop
from sparsehist.release.pipeline import find
from sparsehist.release.releases import AnyRelease, check_target
from sparsehist.release.steps import append_step
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront import release_tables
from sparsehist.sqlfront.checking import Known, Problem, check_counted, check_plain, checked
from sparsehist.sqlfront.declaring import Declared, checked_query
from sparsehist.sqlfront.engine_words import told
from sparsehist.sqlfront.heads import (
    AppendStep,
    Counted,
    CreateSeries,
    DeclareDisjoint,
    DropSeries,
    MakeRelease,
    SetBudget,
    Show,
    Statement,
)
from sparsehist.sqlfront.reading import bindable, meant
from sparsehist.sqlfront.release_tables import asked_of, explained, made_before, shown
from sparsehist.sqlfront.results import Outcome, rows_of
from sparsehist.sqlfront.script import Piece, Place, asked_for, plain, pointed
from sparsehist.store import ensure_store, is_store
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement as statement_named

if TYPE_CHECKING:
    import polars as pl

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
        runs: dict[type, Callable[[Statement], Outcome]] = {
            CreateSeries: self._create,
            AppendStep: self._append,
            MakeRelease: self._release,
            DropSeries: self._drop,
            Show: self._show,
            SetBudget: self._set_budget,
            DeclareDisjoint: self._declare_disjoint,
        }
        run = runs.get(type(statement.head), self._plain)
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
            return Known(None, self._check_query)
        declared: dict[str, Declaration | None] = {}
        if is_store(self.store.path):
            with self.store.hold() as state:
                declared = {
                    record.name: declaration_of(record) if record.declaration.get("steps") else None
                    for record in state.all_series()
                } | {name: declared_periods(self.store, state, name) for name in Ledger.of(state).limits.periods}
        return Known(
            set(declared), self._check_query, self.store.path, check_name=self._check_name, declared=declared
        )

    def _check_name(self, head: MakeRelease) -> None:
        store = self._existing()
        if is_store(store.path):
            with store.hold() as state:
                record = state.series(head.series)
                if record is not None:
                    find(state, record, release_tables.request_of(declaration_of(record), head))

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
        head, piece, store = of_kind(statement.head, CreateSeries), statement.piece, self._existing()
        self._bring_releases(statement)
        existed = self._has_series(head.name)
        kept = existed and head.reuse
        wanted = present(check_counted(piece, head, None, self.connection))
        if_exists = "reuse" if head.reuse else "error"
        if wanted.declaration.every is not None:
            declare_periods(store, wanted.declaration, if_exists)
            what = f"declared the series {head.name}, whose periods are appended"
            return Outcome(piece.number, piece.line, "create series", said=what)
        if head.steps is None:
            query = self._source(statement, head, wanted, runs=not kept)
            asked = NewLog(query, with_source(wanted.declaration, query), if_exists)
            counted_into(store, asked, Counting(**wanted.counting))
        else:
            first = self._source(statement, head, wanted, runs=True) if head.query else None
            made = declared_into(store, wanted.declaration, if_exists)
            try:
                if first is not None:
                    append_step(store, wanted.declaration, made.series_id, first, 1)
            except BaseException:
                if not existed:  # both, or neither
                    with store.hold() as state:
                        state.drop_series(head.name, who=store.who, reason="its first step could not be appended")
                raise
        steps = "" if head.steps is None else ", with step 1" if head.query else ", without a step yet"
        said = f"{'kept' if kept else 'created'} the series {head.name}{steps}"
        return Outcome(piece.number, piece.line, "create series", said=said)

    def _append(self, statement: Statement) -> Outcome:
        head, piece, store = of_kind(statement.head, AppendStep), statement.piece, self._existing()
        self._bring_releases(statement)
        if head.period is not None:
            with store.hold() as state:
                if head.name not in Ledger.of(state).limits.periods:
                    raise NotFoundError(f"there is no series {head.name} of periods")
                periodic = declared_periods(store, state, head.name)
            wanted = present(check_counted(piece, head, periodic, self.connection))
            query = self._source(statement, head, wanted, runs=True)
            made = append_period(store, periodic, query, head.period)
            said = f"appended the period {head.period} of {head.name}: its series is {made.name}"
            return Outcome(piece.number, piece.line, "append", said=said)
        declaration, series_id = release_tables.declared(store, head.name)
        wanted = present(check_counted(piece, head, declaration, self.connection))
        query = self._source(statement, head, wanted, runs=True)
        appended = append_step(
            store, declaration, series_id, query, present(declaration.steps).step_of(present(head.step))
        )
        said = f"appended step {head.step} of {declaration.n_steps} to the series {head.name}"
        if not appended:
            said = f"step {head.step} of the series {head.name} was appended with this log before; nothing changed"
        return Outcome(piece.number, piece.line, "append", said=said)

    def _source(self, statement: Statement, head: Counted, wanted: Declared, *, runs: bool) -> object:
        """Return the log of a statement: its query in a closed world, or rows that nobody checks if it says so.

        A query that is not run after all may read what is not there any more.
        """
        if wanted.declaration.unverified:
            try:
                return self.connection.sql(head.query, params=self._parameters_of(head.query) or None)
            except duckdb.Error as problem:
                piece = statement.piece
                self._failed(piece.script, head.query_place, self._parameters_of(head.query), problem)
        try:
            return present(self._check_query(statement.piece, head, wanted, settled=True))
        except SparsehistError:
            if runs:
                raise
            return Query(head.query, parameters=self._parameters_of(head.query))

    def _check_query(self, piece: Piece, head: Counted, wanted: Declared, settled: bool) -> ClosedQuery | None:  # noqa: FBT001
        public = {folded(name): name for name in wanted.public_tables}
        unverified = wanted.declaration.unverified
        query = Query(
            head.query, public={name: name for name in wanted.public_tables},
            parameters=self._parameters_of(head.query), unverified=unverified,
        )  # fmt: skip
        if settled and not unverified:
            self._check_settings(piece, head)
        return checked_query(
            piece,
            head,
            wanted,
            query,
            lambda path: self._source_named(path, public),
            settled=settled and not unverified,
        )

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

    def _check_settings(self, piece: Piece, head: Counted) -> None:
        """Refuse settings of the session that change what a query means: it is run without them."""
        asked = statement_named("guarantee_settings")
        with duckdb.connect(":memory:") as fresh:
            usual = dict(fresh.execute(asked).fetchall())
        for name, value in self.connection.execute(asked).fetchall():
            if value != usual.get(name):
                raise piece.error(f"the query of a series runs with DuckDB's own {name}: reset it", head.query_place)

    def _parameters_of(self, query: str) -> dict[str, Any]:
        return {name: bindable(value) for name, value in asked_for(query, self.parameters).items()}

    def _release(self, statement: Statement) -> Outcome:
        head, piece = of_kind(statement.head, MakeRelease), statement.piece
        declaration, series_id = release_tables.declared(self._existing(), head.series)
        if head.only_plan:
            planned = self._planned(declaration, series_id, head)
            return Outcome(piece.number, piece.line, "plan", planned, said="planned; nothing is spent")
        target = None if head.target is None else Path(str(head.target))
        if target is not None:
            check_target("TO", target, self._existing().path)
        release = any_kind.release(
            self._existing(), declaration, series_id, str(head.name), target=target, **asked_of(head)
        )
        written = ""
        if head.target is not None:
            try:
                release.write(head.target)
            except SparsehistError as problem:
                problem.args = (
                    f"{problem}. The release is committed to the store: repeat the statement to write it",
                )
                raise
            written = f", written to {head.target}"
        release_tables.put(self.connection, head.series, release)
        counts = release.metadata.get("counts", "units")
        written += "" if counts == "units" else f". It counts {counts}"
        before = ", released before: nothing is spent" if release.repeated else ""
        said = f"release {head.name} of {head.series}: {len(release):,} rows{before}{written}"
        return Outcome(piece.number, piece.line, "release", release.frame, said=said, release=release)

    def _drop(self, statement: Statement) -> Outcome:
        head, piece = of_kind(statement.head, DropSeries), statement.piece
        store = self._existing()
        if head.if_exists and not is_store(store.path):
            return Outcome(piece.number, piece.line, "drop series", said=f"there was no series {head.name}")
        with store.hold() as state:
            ledger = Ledger.of(state)
            if head.if_exists and state.series(head.name) is None and head.name not in ledger.limits.periods:
                return Outcome(piece.number, piece.line, "drop series", said=f"there was no series {head.name}")
            ended = ledger.ended_by_dropping(head.name)
            drop(store, state, head.name)
        release_tables.remove(self.connection, head.name)
        said = f"{ended}erased the series {head.name}; what it has cost stays in the ledger"
        return Outcome(piece.number, piece.line, "drop series", said=said)

    def _set_budget(self, statement: Statement) -> Outcome:
        head, piece, store = of_kind(statement.head, SetBudget), statement.piece, self._existing()
        ensure_store(store.path)
        said = (
            f"the budget of population {head.asked.get('population', 'default')} is {set_budget(store, **head.asked)}"
        )
        return Outcome(piece.number, piece.line, "set budget", said=said)

    def _declare_disjoint(self, statement: Statement) -> Outcome:
        head, piece, store = of_kind(statement.head, DeclareDisjoint), statement.piece, self._existing()
        ensure_store(store.path)
        declare_disjoint(store, head.populations, reason=head.reason)
        said = f"declared that nobody is in two of {', '.join(head.populations)}"
        return Outcome(piece.number, piece.line, "declare disjoint", said=said)

    def _show(self, statement: Statement) -> Outcome:
        head, piece = of_kind(statement.head, Show), statement.piece
        return Outcome(piece.number, piece.line, "show", shown(self._existing(), head), said=explained(head))

    def _has_series(self, name: str) -> bool:
        store = self._existing()
        return is_store(store.path) and name in store.series_names()

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

    def _planned(self, declaration: Declaration, series_id: str, head: MakeRelease) -> pl.DataFrame:
        asked = {name: value for name, value in asked_of(head).items() if name != "level"}
        if head.workload is None:
            return any_kind.plan(self._existing(), declaration, series_id, list(head.levels), **asked).levels
        from sparsehist.release.workload_round import WorkloadRequest, planned_strategies

        request, _ = any_kind.request_of(declaration, "plan", **asked)
        planned = planned_strategies(
            self._existing(),
            declaration,
            series_id,
            present(of_kind(request, WorkloadRequest).workload),
            list(head.levels),
        )
        return planned if head.strategy is None else planned.filter(strategy=head.strategy)


def _leaves_transaction(piece: Piece) -> bool:
    return plain(piece.tokens[0], piece.script).upper() in ("COMMIT", "END", "ROLLBACK", "ABORT")


def _shows_place(problem: SparsehistError) -> bool:
    return str(problem).startswith("line ") and "\n" in str(problem)
