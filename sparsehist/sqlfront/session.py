"""A curator's session: a DuckDB connection in memory and a store, and scripts that run on both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, Self

import duckdb
import polars as pl

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.progress import Counting
from sparsehist.counting.queries import as_table
from sparsehist.counting.queries import checked as checked_query
from sparsehist.errors import (
    DeclarationError,
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
from sparsehist.ledger.table import DEFAULT_DELTA, SCHEMA, ledger_rows
from sparsehist.release import any_kind
from sparsehist.release.creation import NewLog, counted_into, declared_into, with_source
from sparsehist.release.home import Home
from sparsehist.release.key_discovery import discover_keys
from sparsehist.release.limits import declare_disjoint, raise_cap, set_budget
from sparsehist.release.periods import append_period, declare_periods, drop
from sparsehist.release.pipeline import RELEASES, rows_of_releases
from sparsehist.release.releases import AnyRelease
from sparsehist.release.steps import append_step
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.checking import LogQuery, ScriptCheck, check_plain, release_asked
from sparsehist.sqlfront.engine_words import told
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.results import TAKEN_NAMES, Outcome, SqlResult, put, rows_of, stoppable
from sparsehist.sqlfront.script import Piece, Place, has_place, pieces, pointed
from sparsehist.store import SeriesRecord, State, ensure_store, is_store, write_file
from sparsehist.store.layout import spill_directory
from sparsehist.store.private_files import PUBLIC
from sparsehist.store.statements import statement as statement_named

_SHOW = re.compile(r"show\s+", re.IGNORECASE)
_DOTTED = re.compile(r'(?=\b(\w+)"?\s*\.\s*"?(\w+))')  # two names with a dot between them, overlapping
_LEAVES_TRANSACTION = ("COMMIT", "END", "ROLLBACK", "ABORT")
_COUNTED = ("max_keys", "steps", "releases")
_SERIES = {
    name: pl.Int64 if name in _COUNTED else pl.Boolean if name == "unverified" else pl.String
    for name in "name unit key max_keys domain noise cap population unverified source steps releases".split()
}


class Session:
    """A session that runs scripts; a context manager.

    Args:
        store: The store of the series; None for a session that only has DuckDB.
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
            except SparsehistError:
                self.close()
                raise
            except duckdb.Error:
                self.close()
                raise_alone(InputError(f"tables= takes frames and Arrow tables, got {type(table).__name__}"))
            self._tables[folded(name)] = (table, self._number_of(name))

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    def close(self) -> None:
        """Discard tables, views and temporary files; commits to the store remain."""
        self.connection.close()
        self._spill.close()

    def execute(self, statement: Statement) -> Outcome:
        """Run a checked statement; return its outcome or its error."""
        try:
            return self._executed(statement)
        except SparsehistError as problem:
            return statement.failed(problem)

    def _executed(self, statement: Statement) -> Outcome:
        if statement.piece.words[0].text.upper() not in _LEAVES_TRANSACTION and self._is_aborted():
            raise StatementError("an error has ended the transaction, and what it did is gone: ROLLBACK leaves it")
        self._bring_releases(statement.piece)
        if not statement.kind:
            return self._plain(statement)
        if self.store is None:
            raise NotFoundError("this statement needs a store: name one (store=, on the command line --store)")
        kind = "show" if statement.kind.startswith("show") else statement.kind
        outcome: Outcome = getattr(self, f"_{kind.replace(' ', '_')}")(statement, self.store)
        return outcome

    def _plain(self, statement: Statement) -> Outcome:
        piece = statement.piece
        bound = self._bound(check_plain(piece, self)[1])
        try:
            frame, more = stoppable(
                self.connection, lambda: rows_of(self.connection.sql(piece.text, params=bound or None), self._rows)
            )
        except duckdb.Error as problem:
            self._failed(piece, piece.place, bound, problem)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise_alone(StatementError("a column is of a type that Polars does not have: cast it, as in x::varchar"))
        return statement.outcome(frame=frame, more=more)

    def _create_series(self, statement: Statement, store: Home) -> Outcome:
        name, log = statement.name, statement.log
        declaration, if_exists = log.declaration, "reuse" if "flag" in statement.asked else "error"
        made = "created" if log.adds else "kept"
        if declaration.every is not None:
            declare_periods(store, declaration, if_exists)
            return statement.outcome(f"declared the series {name}, whose periods are appended")
        source = self._source(statement) if statement.query else None
        counting = Counting(**log.further)
        if declaration.steps is None:
            counted_into(store, NewLog(source, with_source(declaration, source), if_exists), counting)
            return statement.outcome(f"{made} the series {name}")
        record = declared_into(store, declaration, if_exists)
        try:
            if source is not None:
                append_step(store, declaration, record.series_id, source, 1, counting)
        except BaseException:
            if log.adds:  # both, or neither
                with store.hold() as state:
                    state.drop_series(name, who=store.who, reason="its first step could not be appended")
            raise
        steps = "without a step yet" if source is None else "with step 1"
        return statement.outcome(f"{made} the series {name}, {steps}")

    def _append(self, statement: Statement, store: Home) -> Outcome:
        name, asked = statement.name, statement.asked
        if statement.log is None:
            raise NotFoundError(f"{name} is neither a running series nor one of periods")
        declaration, query = statement.log.declaration, self._source(statement)
        if "period" in asked:
            made = append_period(store, declaration, query, asked["period"])
            return statement.outcome(f"appended the period {asked['period']} of {name}: its series is {made.name}")
        with store.hold() as state:
            series_id = store.find(state, name).series_id
        step = asked["step"]
        if append_step(store, declaration, series_id, query, present(declaration.steps).step_of(step)):
            return statement.outcome(f"appended step {step} of {declaration.n_steps} to the series {name}")
        said = f"step {step} of the series {name} was appended with this log before; nothing changed"
        return statement.outcome(said)

    def _source(self, statement: Statement) -> object:
        """Return the log of a statement: its query in a closed world, or unchecked rows if it says so.

        The query of an existing series may read tables that do not exist any more.
        """
        log, piece, place = statement.log, statement.piece, statement.places["query"]
        bound = self._bound(asked_for(statement.query, self.parameters))
        if log.declaration.unverified:
            try:
                return self.connection.sql(statement.query, params=bound or None)
            except duckdb.Error as problem:
                self._failed(piece, place, bound, problem)
        try:
            return self.check_query(statement, log, settled=True)
        except SparsehistError:
            if statement.kind != "create series" or log.adds:
                raise
            return Query(statement.query, parameters=bound)

    def check_query(self, statement: Statement, log: LogQuery, *, settled: bool) -> ClosedQuery | None:
        """Check the query of a log and return its executable form; errors show the position in the script.

        If `settled` is False, its tables may still change: only its syntax is checked, and None is returned.
        """
        place, script, declaration = statement.places["query"], statement.piece.script, log.declaration
        bound = self._bound(asked_for(statement.query, self.parameters))
        public = {folded(name): name for name in log.public_tables}
        try:
            if declaration.unverified:
                return None
            if not settled:
                check_words(statement.query, bound)
                return None
            self._check_settings(statement)
            query = Query(statement.query, public={name: name for name in log.public_tables}, parameters=bound)
            lookup = lambda path: self._source_named(path, public)  # noqa: E731  one argument of the call below
            return checked_query(query, declaration.unit or (), declaration.key, lookup)
        except GuaranteeError as problem:
            where = Place(place.start + problem.start, place.start + problem.end)
            message = pointed(problem.reason, script, where)
            raise_alone(GuaranteeError(message, reason=problem.reason, start=where.start, end=where.end))
        except SparsehistError as problem:
            raise_alone(problem if has_place(problem) else type(problem)(pointed(str(problem), script, place)))

    def _source_named(self, path: tuple[str, ...], public: Mapping[str, str]) -> Source | None:
        """Return the source of a name in a series' query: a given table, a release, or a table of this session."""
        name = ".".join(path)
        table, number = self._tables.get(name, (None, []))
        if table is not None and number == self._number_of(name):
            return Source(name, public=name in public, opens=lambda: as_table(table), origin=table)
        if len(path) == 2 or path[:-2] == ("memory",):
            release = self._made_before(*path[-2:])
            if release is not None:
                return Source(name, public=True, opens=lambda: release.frame)
        if reader_of(name):  # a file, which DuckDB would guess how to read
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
        """Return DuckDB's id of a given table; it changes if another table takes its name."""
        return self.connection.execute(statement_named("session_view"), {"name": folded(name)}).fetchall()

    def _check_settings(self, statement: Statement) -> None:
        """Refuse settings of the session that would change the meaning of a query, which is run without them."""
        asked = statement_named("guarantee_settings")
        with duckdb.connect(":memory:") as fresh:
            usual = dict(fresh.execute(asked).fetchall())
        for name, value in self.connection.execute(asked).fetchall():
            if value != usual.get(name):
                raise statement.error(f"the query of a series runs with DuckDB's own {name}: reset it", "query")

    def _release(self, statement: Statement, store: Home) -> Outcome:
        name, series = statement.name, statement.asked["series"]
        target = Path(statement.asked["target"]) if "target" in statement.asked else None
        release = any_kind.release(store, series, None, name, target=target, **release_asked(statement))
        if target is not None:
            try:
                release.write(target)
            except SparsehistError as problem:
                problem.args = (f"{problem}. The release is committed: repeat the statement to write it",)
                raise
        if series not in TAKEN_NAMES:
            put(self.connection, release.frame, series, name)
        said = f"release {name} of {series}: {len(release):,} rows"
        said += ", released before: nothing is spent" if release.repeated else ""
        said += "" if target is None else f", written to {target}"
        return statement.outcome(said, release.frame, release=release)

    def _plan(self, statement: Statement, store: Home) -> Outcome:
        levels, asked = list(statement.asked["levels"]), release_asked(statement)
        with store.hold() as state:
            record = store.find(state, statement.asked["series"])
        declaration = declaration_of(record)
        del asked["level"]
        if "workload" not in asked:
            planned = any_kind.plan(store, declaration, record.series_id, levels, **asked).levels
        else:
            from sparsehist.release.workload_round import planned_strategies

            planned = planned_strategies(store, declaration, record.series_id, asked["workload"], levels)
            if "strategy" in asked:
                planned = planned.filter(strategy=asked["strategy"])
        return statement.outcome("planned; nothing is spent", planned)

    def _choose_keys(self, statement: Statement, store: Home) -> Outcome:
        target = statement.asked.get("target")
        found = discover_keys(store, self._source(statement), **statement.log.further)
        if target is not None:
            found.write_parquet(Path(target))
        written = "" if target is None else f", written to {target}: the domain is catalogue(file={target!r})"
        said = f"found {found.size:,} keys at level {statement.asked['level']}{written}"
        return statement.outcome(said, found.values.alias("value").to_frame())

    def _drop_series(self, statement: Statement, store: Home) -> Outcome:
        name = statement.name
        ensure_store(store.path)
        with store.hold() as state:
            ledger = Ledger.of(state)
            if "flag" in statement.asked and state.series(name) is None and name not in ledger.limits.periods:
                return statement.outcome(f"there was no series {name}")
            drop(store, state, name)
        if name not in TAKEN_NAMES:
            self.connection.execute(f"drop schema if exists memory.{quoted(name)} cascade")
        ended = ledger.ended_by_dropping(name)
        return statement.outcome(f"{ended}erased the series {name}; what it has cost stays in the ledger")

    def _set_budget(self, statement: Statement, store: Home) -> Outcome:
        ensure_store(store.path)
        population = statement.asked.get("population", "default")
        return statement.outcome(f"the budget of population {population} is {set_budget(store, **statement.asked)}")

    def _set_cap(self, statement: Statement, store: Home) -> Outcome:
        level, reason = statement.asked["level"], statement.asked["reason"]
        raise_cap(store, statement.name, level, reason=reason)
        return statement.outcome(f"the cap of the series {statement.name} is {level} from now on")

    def _declare_disjoint(self, statement: Statement, store: Home) -> Outcome:
        ensure_store(store.path)
        declare_disjoint(store, **statement.asked)
        return statement.outcome(f"declared that nobody is in two of {', '.join(statement.asked['populations'])}")

    def _report_store(self, statement: Statement, store: Home) -> Outcome:
        from sparsehist.report.store_report import store_report  # imports jinja2, an extra

        target, delta = Path(statement.asked["target"]), statement.asked.get("delta", DEFAULT_DELTA)
        write_file(target, store_report(store, delta=delta).encode(), durable=False, mode=PUBLIC)
        return statement.outcome(f"the report is in {target}: public parameters and published rows only")

    def _show(self, statement: Statement, store: Home) -> Outcome:
        asked, said = {"delta": DEFAULT_DELTA, **statement.asked}, ""
        with store.hold() as state:
            records = [store.find(state, asked["series"])] if "series" in asked else state.all_series()
            records.sort(key=lambda record: record.name)
            if statement.kind == "show ledger":
                delta = asked.pop("delta")
                said = f"epsilon holds at delta {delta:g}, whatever the noise, for what did happen"
                frame = pl.DataFrame(ledger_rows(Ledger.of(state), delta, **asked), schema=SCHEMA)
            elif statement.kind == "show series":
                frame = pl.DataFrame([_row(state, record) for record in records], schema=_SERIES)
            else:
                made = [{"series": each.name, **row} for each in records for row in rows_of_releases(state, each)]
                frame = pl.DataFrame(made, schema={"series": str, **RELEASES})
        return Outcome(statement.piece.number, statement.piece.line, "show", frame, said=said)

    def _bring_releases(self, piece: Piece) -> None:
        """Make tables for the releases that a statement names, if the session does not have them yet."""
        if self.store is None or not is_store(self.store.path):
            return
        named = sorted(set(_DOTTED.findall(piece.text.lower())))
        known = set(self.store.series_names()) - TAKEN_NAMES if named else set()
        has_table = statement_named("session_has_table")
        for series, name in (pair for pair in named if pair[0] in known):
            there = self.connection.execute(has_table, {"schema": series, "name": name}).fetchall()
            if not there and (release := self._made_before(series, name)) is not None:
                put(self.connection, release.frame, series, name)

    def _made_before(self, series: str, name: str) -> AnyRelease | None:
        """Return an existing release of any kind; None if there is none of this name."""
        if self.store is None or not is_store(self.store.path):
            return None
        try:
            return any_kind.release(self.store, series, None, name)
        except (DeclarationError, NotFoundError):  # not a valid name, or no such release
            return None

    def _is_aborted(self) -> bool:
        """Return whether an error has ended the transaction, so that only ROLLBACK is possible."""
        try:
            self.connection.execute("select 1").fetchall()
        except duckdb.TransactionException:
            return True
        return False

    def _bound(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of parameters as DuckDB binds them; fractions become floats."""
        values = {name: self.parameters[name.lower()] for name in names}
        return {name: float(value) if isinstance(value, Fraction) else value for name, value in values.items()}

    def _failed(self, piece: Piece, place: Place, bound: Mapping[str, Any], problem: duckdb.Error) -> NoReturn:
        if isinstance(problem, duckdb.InterruptException):
            raise KeyboardInterrupt from None
        message, at = told(self.connection, piece.script[slice(*place)], bound, problem)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        shown = _SHOW.match(piece.script, place.start)
        if shown is not None:  # DuckDB's place refers to its own SELECT
            where = Place(shown.end(), place.end)
        raise_alone(piece.error(message, where))


def _row(state: State, record: SeriesRecord) -> dict[str, Any]:
    declaration = declaration_of(record)
    stored = declaration.as_json()
    return {name: stored.get(name) for name in _SERIES} | {
        "steps": declaration.n_steps,
        "unit": declaration.unit_text,
        "source": declaration.source or None,
        "key": ", ".join(declaration.key),
        "domain": declaration.domain.describe(),
        "releases": len(rows_of_releases(state, record)),
    }


def asked_for(query: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a query names; DuckDB refuses others."""
    named = {name.lower() for name in re.findall(r"\$(\w+)", query)}
    return {name: value for name, value in parameters.items() if name.lower() in named}


def run_script(session: Session, script: str, *, keep_going: bool = False, dry_run: bool = False) -> list[Outcome]:
    """Check a script, then run it; return the outcome of each statement in order, failed ones included.

    Unless `keep_going`, nothing runs if any statement is wrong, and nothing after the first that fails; a dry run
    says what each statement would spend.
    """
    check = ScriptCheck(session, dry=dry_run)
    try:
        steps = [check.checked(piece) for piece in pieces(script)]
    except StatementError as problem:
        return [Outcome(0, 1, "not run", error=problem)]
    wrong = [step for step in steps if isinstance(step, Outcome) and step.kind == "not run"]
    if wrong and not keep_going:
        return wrong
    outcomes: list[Outcome] = []
    for step in steps:
        outcomes.append(session.execute(step) if isinstance(step, Statement) else step)
        if outcomes[-1].error is not None and not keep_going:
            break
    return outcomes


def run_sql(
    script: str,
    home: Home | None,
    *,
    parameters: Mapping[str, Any] | None = None,
    tables: Mapping[str, object] | None = None,
) -> SqlResult:
    """Run SQL in a session of its own; see `sparsehist.sql`."""
    with Session(home, tables=tables, parameters=parameters) as session:
        outcomes = run_script(session, script)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(errors) > 1:
        raise StatementError("\n".join([f"{len(errors)} statements are wrong; nothing was run", *map(str, errors)]))
    if errors:
        raise errors[0]
    return SqlResult(tuple(outcomes))
