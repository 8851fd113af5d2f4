"""A curator's session: one DuckDB connection in memory beside a store, and statements that run on both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Self

import duckdb
import polars as pl

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.progress import Counting
from sparsehist.counting.queries import as_table
from sparsehist.counting.queries import checked as checked_query
from sparsehist.errors import (
    GuaranteeError,
    InputError,
    NotFoundError,
    SparsehistError,
    StatementError,
    present,
    raise_alone,
)
from sparsehist.guarantee.extensions import INSTALL_NOTHING, draw_no_progress
from sparsehist.guarantee.files import reader_of
from sparsehist.guarantee.statement import Source, check_words, folded, quoted
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA
from sparsehist.release import any_kind
from sparsehist.release.creation import NewLog, counted_into, declared_into, with_source
from sparsehist.release.home import Home
from sparsehist.release.key_discovery import discover_keys
from sparsehist.release.limits import declare_disjoint, raise_cap, set_budget
from sparsehist.release.periods import append_period, declare_periods, declared_periods, drop
from sparsehist.release.steps import append_step
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront import release_tables
from sparsehist.sqlfront.checking import ScriptCheck, asked_of, check_plain
from sparsehist.sqlfront.declaring import Declared, wanted_by
from sparsehist.sqlfront.engine_words import told
from sparsehist.sqlfront.parameters import asked_for, bindable
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.release_tables import TAKEN_NAMES, made_before
from sparsehist.sqlfront.results import Outcome, rows_of, stoppable
from sparsehist.sqlfront.script import Piece, Place, has_place, plain, pointed
from sparsehist.store import ensure_store, is_store, write_file
from sparsehist.store.layout import spill_directory
from sparsehist.store.private_files import PUBLIC
from sparsehist.store.statements import statement as statement_named

_SHOW = re.compile(r"show\s+", re.IGNORECASE)


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

    def check(self, script: str) -> list[Statement | Outcome]:
        """Read a script and check all of it, running nothing; an outcome stands for a statement that is wrong."""
        known = ScriptCheck(self)
        if self.store is not None and is_store(self.store.path):
            with self.store.hold() as state:
                known.series |= {record.name: declaration_of(record) for record in state.all_series()}
                for name in Ledger.of(state).limits.periods:
                    known.series[name] = declared_periods(self.store, state, name)
        return known.checked(script)

    def execute(self, statement: Statement) -> Outcome:
        """Run a statement that was checked; what was committed before stays."""
        piece = statement.piece
        if not _leaves_transaction(piece) and release_tables.is_aborted(self.connection):
            raise StatementError("an error has ended the transaction, and what it did is gone: ROLLBACK leaves it")
        if not statement.kind.startswith("show"):
            self._bring_releases(piece)
        kind = "show" if statement.kind.startswith("show") else statement.kind or "plain"
        outcome: Outcome = getattr(self, f"_{kind.replace(' ', '_')}")(statement)
        return outcome

    def _existing(self) -> Home:
        if self.store is None:
            raise NotFoundError("this statement needs a store: name one (store=, on the command line --store)")
        return self.store

    def _plain(self, statement: Statement) -> Outcome:
        piece = statement.piece
        _, names = check_plain(piece, self)
        bound = self._bound(names)
        try:
            frame, more = stoppable(
                self.connection, lambda: rows_of(self.connection.sql(piece.text, params=bound or None), self._rows)
            )
        except duckdb.Error as problem:
            self._failed(piece.script, piece.place, bound, problem)
        return Outcome(piece.number, piece.line, "duckdb", frame, more)

    def _create_series(self, statement: Statement) -> Outcome:
        name, store, wanted = statement.name, self._existing(), wanted_by(statement)
        declaration, existed, reuse = wanted.declaration, self._has_series(name), "flag" in statement.asked
        made, if_exists = "kept" if existed and reuse else "created", "reuse" if reuse else "error"
        if declaration.every is not None:
            declare_periods(store, declaration, if_exists)
            return _outcome(statement, f"declared the series {name}, whose periods are appended")
        source = self._source(statement, runs=made == "created") if statement.query else None
        if declaration.steps is None:
            asked = NewLog(source, with_source(declaration, source), if_exists)
            counted_into(store, asked, Counting(**wanted.further))
            return _outcome(statement, f"{made} the series {name}")
        record = declared_into(store, declaration, if_exists)
        try:
            if source is not None:
                append_step(store, declaration, record.series_id, source, 1)
        except BaseException:
            if not existed:  # both, or neither
                with store.hold() as state:
                    state.drop_series(name, who=store.who, reason="its first step could not be appended")
            raise
        steps = "without a step yet" if source is None else "with step 1"
        return _outcome(statement, f"{made} the series {name}, {steps}")

    def _append(self, statement: Statement) -> Outcome:
        name, store, period = statement.name, self._existing(), statement.asked.get("period")
        declaration, query = wanted_by(statement).declaration, self._source(statement)
        if period is not None:
            made = append_period(store, declaration, query, period)
            return _outcome(statement, f"appended the period {period} of {name}: its series is {made.name}")
        with store.hold() as state:
            series_id = store.find(state, name).series_id
        step = statement.asked["step"]
        if append_step(store, declaration, series_id, query, present(declaration.steps).step_of(step)):
            return _outcome(statement, f"appended step {step} of {declaration.n_steps} to the series {name}")
        said = f"step {step} of the series {name} was appended with this log before; nothing changed"
        return _outcome(statement, said)

    def _source(self, statement: Statement, *, runs: bool = True) -> object:
        """Return the log of a statement: its query in a closed world, or rows that nobody checks if it says so.

        A query that is not run after all may read what is not there any more.
        """
        wanted, bound = wanted_by(statement), self._bound(asked_for(statement.query, self.parameters))
        if wanted.declaration.unverified:
            try:
                return self.connection.sql(statement.query, params=bound or None)
            except duckdb.Error as problem:
                self._failed(statement.piece.script, statement.places["query"], bound, problem)
        try:
            return self.check_query(statement, wanted, settled=True)
        except SparsehistError:
            if runs:
                raise
            return Query(statement.query, parameters=bound)

    def check_query(self, statement: Statement, wanted: Declared, *, settled: bool) -> ClosedQuery | None:
        """Return the query of a log as it is to be run, or refuse it; errors show the place.

        Args:
            statement: The statement.
            wanted: What the query must satisfy.
            settled: Whether all that it reads is there; if not, its words alone are checked, and None is returned.
        """
        place, script, declaration = statement.places["query"], statement.piece.script, wanted.declaration
        bound = self._bound(asked_for(statement.query, self.parameters))
        public = {folded(name): name for name in wanted.public_tables}
        try:
            if declaration.unverified:
                return None
            if not settled:
                check_words(statement.query, bound)
                return None
            self._check_settings(statement)
            query = Query(statement.query, public={name: name for name in wanted.public_tables}, parameters=bound)
            lookup = lambda path: self._source_named(path, public)  # noqa: E731  one argument of the call below
            return checked_query(query, declaration.unit or (), declaration.key, lookup)
        except GuaranteeError as problem:
            where = Place(place.start + problem.start, place.start + problem.end)
            message = pointed(problem.reason, script, where)
            raise_alone(GuaranteeError(message, reason=problem.reason, start=where.start, end=where.end))
        except SparsehistError as problem:
            raise_alone(problem if has_place(problem) else type(problem)(pointed(str(problem), script, place)))

    def _source_named(self, path: tuple[str, ...], public: Mapping[str, str]) -> Source | None:
        """Return what a name in the query of a series stands for: a table handed over, a release, or one of here."""
        name = ".".join(path)
        table, number = self._tables.get(name, (None, []))
        if table is not None and number == self._number_of(name):
            return Source(name, public=name in public, opens=lambda: as_table(table), origin=table)
        of_release = len(path) == 2 or path[:-2] == ("memory",)
        if of_release and self.store is not None and is_store(self.store.path):
            release = made_before(self.store, *path[-2:])
            if release is not None:
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

    def _release(self, statement: Statement) -> Outcome:
        store, name, series = self._existing(), statement.name, statement.asked["series"]
        target = Path(statement.asked["target"]) if "target" in statement.asked else None
        release = any_kind.release(store, series, None, name, target=target, **asked_of(statement))
        if target is not None:
            try:
                release.write(target)
            except SparsehistError as problem:
                told = "The release is committed to the store: repeat the statement to write it"
                problem.args = (f"{problem}. {told}",)
                raise
        if series not in TAKEN_NAMES:
            release_tables.put(self.connection, release.frame, series, release.name)
        counts = release.metadata.get("counts", "units")
        before = ", released before: nothing is spent" if release.repeated else ""
        written = "" if target is None else f", written to {target}"
        written += "" if counts == "units" else f". It counts {counts}"
        said = f"release {name} of {series}: {len(release):,} rows{before}{written}"
        return _outcome(statement, said, release.frame, release=release)

    def _plan(self, statement: Statement) -> Outcome:
        store, levels = self._existing(), list(statement.asked["levels"])
        with store.hold() as state:
            record = store.find(state, statement.asked["series"])
        declaration, asked = declaration_of(record), asked_of(statement)
        del asked["level"]
        if "workload" not in asked:
            planned = any_kind.plan(store, declaration, record.series_id, levels, **asked).levels
        else:
            from sparsehist.release.workload_round import planned_strategies

            planned = planned_strategies(store, declaration, record.series_id, asked["workload"], levels)
            if "strategy" in asked:
                planned = planned.filter(strategy=asked["strategy"])
        return _outcome(statement, "planned; nothing is spent", planned)

    def _choose_keys(self, statement: Statement) -> Outcome:
        store, target = self._existing(), statement.asked.get("target")
        found = discover_keys(store, self._source(statement), **wanted_by(statement).further)
        if target is not None:
            found.write_parquet(Path(target))
        written = "" if target is None else f", written to {target}: the domain is catalogue(file={target!r})"
        said = f"found {found.size:,} keys at level {statement.asked['level']}{written}"
        return _outcome(statement, said, found.values.alias("value").to_frame())

    def _drop_series(self, statement: Statement) -> Outcome:
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

    def _report_store(self, statement: Statement) -> Outcome:
        from sparsehist.report.store_report import store_report  # and jinja2, an extra

        target, delta = Path(statement.asked["target"]), statement.asked.get("delta", DEFAULT_DELTA)
        write_file(target, store_report(self._existing(), delta=delta).encode(), durable=False, mode=PUBLIC)
        return _outcome(statement, f"the report is in {target}: public parameters and published rows only")

    def _show(self, statement: Statement) -> Outcome:
        delta = statement.asked.get("delta", DEFAULT_DELTA)
        said = f"epsilon holds at delta {delta:g}, whatever the noise, for what did happen"
        frame = release_tables.shown(self._existing(), statement)
        return _outcome(statement, said if statement.kind == "show ledger" else "", frame, kind="show")

    def _has_series(self, name: str) -> bool:
        store = self._existing()
        if not is_store(store.path):
            return False
        with store.hold() as state:
            return state.series(name) is not None or name in Ledger.of(state).limits.periods

    def _bring_releases(self, piece: Piece) -> None:
        """Make tables of the releases a statement names and the session does not have yet."""
        store = self.store
        if store is None or not is_store(store.path):
            return
        named = set(release_tables.dotted_names(piece))
        wanted = {pair for pair in named if not release_tables.has_table(self.connection, *pair)}
        known = set(store.series_names()) - TAKEN_NAMES if wanted else set()
        for series, name in sorted(pair for pair in wanted if pair[0] in known):
            if (release := made_before(store, series, name)) is not None:
                release_tables.put(self.connection, release.frame, series, name)

    def _bound(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: bindable(self.parameters[name.lower()]) for name in names}

    def _failed(self, script: str, place: Place, bound: Mapping[str, Any], problem: duckdb.Error) -> NoReturn:
        if isinstance(problem, duckdb.InterruptException):
            raise KeyboardInterrupt from None
        text, variables = script[place.start : place.end], release_tables.has_variables(self.connection)
        message, at = told(self.connection, text, bound, problem, variables=variables)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        shown = _SHOW.match(script, place.start)
        if shown is not None:  # DuckDB counts in a SELECT of its own
            where = Place(shown.end(), place.end)
        raise_alone(StatementError(pointed(message, script, where)))


def _outcome(
    statement: Statement, said: str, frame: pl.DataFrame | None = None, *, kind: str = "", **more: Any
) -> Outcome:
    piece = statement.piece
    return Outcome(piece.number, piece.line, kind or statement.kind, frame, said=said, **more)


def _leaves_transaction(piece: Piece) -> bool:
    return plain(piece.tokens[0], piece.script).upper() in ("COMMIT", "END", "ROLLBACK", "ABORT")
