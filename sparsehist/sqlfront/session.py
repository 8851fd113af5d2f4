"""Run the scripts of a curator in a session: a DuckDB connection in memory and a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import duckdb
import polars as pl

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.progress import Counting
from sparsehist.counting.sources import as_table, checked_query
from sparsehist.errors import (
    DeclarationError,
    InputError,
    NotFoundError,
    SparsehistError,
    StatementError,
    present,
    raise_alone,
)
from sparsehist.guarantee.closed import connected
from sparsehist.guarantee.language import reader_of
from sparsehist.guarantee.statement import Source, folded, quoted
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, SCHEMA, ledger_rows
from sparsehist.release import any_kind
from sparsehist.release.creation import counted_into, declared_into
from sparsehist.release.home import Home
from sparsehist.release.key_discovery import discover_keys
from sparsehist.release.limits import set_budget
from sparsehist.release.metadata import declaration_rows
from sparsehist.release.periods import append_period, declare_periods, drop
from sparsehist.release.pipeline import RELEASES, rows_of_releases
from sparsehist.release.planning import plan_releases
from sparsehist.release.releases import AnyRelease
from sparsehist.release.steps import append_step
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.checking import LogQuery, ScriptCheck, check_plain, release_parameters
from sparsehist.sqlfront.engine_words import public_message
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.results import TAKEN_NAMES, Outcome, SqlResult, failed, put, stoppable
from sparsehist.sqlfront.script import Piece, pieces
from sparsehist.store import ensure_store, is_store
from sparsehist.store.private_files import PUBLIC, write_file
from sparsehist.store.statements import statement as statement_named

_DOTTED = re.compile(r'(?=\b(\w+)"?\s*\.\s*"?(\w+))')  # finds names joined by a dot: a.b and b.c in a.b.c


class Session:
    """A context manager that runs scripts, with an in-memory DuckDB connection and a store.

    Args:
        store: The store of the series, or None for a session that only runs statements of DuckDB.
        tables: See `sparsehist.sql`.
        parameters: See `sparsehist.sql`.
        rows: The most rows of a query result that an outcome keeps; None keeps all.
    """

    def __init__(
        self,
        store: Home | None = None,
        *,
        tables: Mapping[str, object] | None = None,
        parameters: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> None:
        self.store, self._rows = store, rows
        self.parameters = {name.lower(): value for name, value in (parameters or {}).items()}
        self._tables: dict[str, tuple[object, object]] = {}
        self._spill = ExitStack()
        self.connection = connected(self._spill)
        try:
            for name, table in (tables or {}).items():
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
        """Discard tables, views and temporary files. What was committed to the store remains."""
        self.connection.close()
        self._spill.close()

    def execute(self, statement: Statement) -> Outcome:
        """Run a checked statement, and return its outcome, which contains the error if it failed."""
        piece = statement.piece
        try:
            return self._executed(statement)
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error as problem:
            message = public_message(self.connection, piece.text, problem)
        except SparsehistError as problem:
            return failed(piece, problem)
        return failed(piece, StatementError(message))

    def _executed(self, statement: Statement) -> Outcome:
        if not statement.kind:
            return self._plain(statement)
        # If an earlier error has aborted the transaction, let DuckDB raise its error now, before anything is spent.
        self.connection.execute("select 1").fetchall()
        kind = "show" if statement.kind.startswith("show") else statement.kind
        outcome: Outcome = getattr(self, f"_{kind.replace(' ', '_')}")(statement, present(self.store))
        return outcome

    def _plain(self, statement: Statement) -> Outcome:
        piece, limit = statement.piece, self._rows
        bound = self._bound(check_plain(piece, self)[1])
        self._bring_releases(piece)

        def rows() -> pl.DataFrame | None:
            relation = self.connection.sql(piece.text, params=bound or None)
            if relation is None:
                return None
            frame: pl.DataFrame = (relation if limit is None else relation.limit(limit + 1)).pl()
            return None if frame.columns in (["Success"], ["Count"]) and relation.type.startswith("MAT") else frame

        try:
            frame = stoppable(self.connection, rows)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise_alone(StatementError("a column is of a type that Polars does not have: cast it, as in x::varchar"))
        if frame is None or limit is None:
            return statement.outcome(frame=frame)
        return statement.outcome(frame=frame.head(limit), more=frame.height > limit)

    def _create_series(self, statement: Statement, store: Home) -> Outcome:
        log, if_exists = statement.log, "reuse" if "flag" in statement.values else "error"
        declaration = log.declaration
        if declaration.every is not None:
            declare_periods(store, declaration, if_exists)
        elif declaration.steps is not None:
            declared_into(store, declaration, if_exists)
        else:
            source, counting = self._source(statement), Counting(**log.counting)
            counted_into(store, source, declaration, counting, if_exists=if_exists)
        return statement.outcome(f"{'created' if log.adds else 'kept'} the series {statement.name}")

    def _append_to(self, statement: Statement, store: Home) -> Outcome:
        name, values, declaration = statement.name, statement.values, statement.log.declaration
        query = self._source(statement)
        if declaration.every is not None:
            added = append_period(store, declaration, query, values["period"])
            return statement.outcome(f"appended the period {values['period']} of {name}: its series is {added.name}")
        with store.hold() as state:
            series_id = store.find(state, name).series_id
        step = values["step"]
        if append_step(store, declaration, series_id, query, declaration.steps.step_of(step)):
            return statement.outcome(f"appended step {step} of {declaration.n_steps} to the series {name}")
        return statement.outcome(
            f"step {step} of the series {name} was appended with this log before; nothing changed"
        )

    def _source(self, statement: Statement) -> object:
        """Return the checked query of a statement. With the option `unverified`, return the query's rows instead.

        With IF NOT EXISTS, the query is not run if the series already exists. In this case, a query that fails its
        check, perhaps because its tables no longer exist, is returned unchecked.
        """
        log, bound = statement.log, self._bound(named_parameters(statement.query, self.parameters))
        if log.declaration.unverified:
            return self.connection.sql(statement.query, params=bound or None)
        try:
            return self.check_query(statement, log)
        except SparsehistError:
            if statement.kind != "create series" or log.adds:
                raise
            return Query(statement.query, parameters=bound)

    def check_query(self, statement: Statement, log: LogQuery, *, settled: bool = True) -> ClosedQuery | None:
        """Return the checked query of a log with its sources; None if it is unverified or cannot be checked yet."""
        bound = self._bound(named_parameters(statement.query, self.parameters))
        public = {folded(name) for name in log.public_tables}
        if log.declaration.unverified or not settled:
            return None
        self._check_settings()
        query = Query(statement.query, public={name: name for name in log.public_tables}, parameters=bound)
        lookup = lambda path: self._source_named(path, public)  # noqa: E731  one argument of the call below
        return checked_query(query, log.declaration.unit or (), log.declaration.key, lookup)

    def _source_named(self, path: tuple[str, ...], public: set[str]) -> Source | None:
        """Look up a table name in `tables=`, then among the releases, then among the tables of the session."""
        name = ".".join(path)
        table, number = self._tables.get(name, (None, []))
        if table is not None and number == self._number_of(name):
            return Source(name, public=name in public, opens=lambda: as_table(table), origin=table)
        if len(path) == 2 or path[:-2] == ("memory",):
            release = self._made_before(*path[-2:])
            if release is not None:
                return Source(name, public=True, opens=lambda: release.frame)
        # The check of the query opens files itself. If they were opened here, DuckDB would guess their column types.
        if reader_of(name):
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
        """Return DuckDB's id of a table passed in `tables=`. A new table with the same name has a different id."""
        return self.connection.execute(statement_named("session_view"), {"name": folded(name)}).fetchall()

    def _check_settings(self) -> None:
        """Raise an error if a setting that affects queries was changed: logs are counted with DuckDB's defaults."""
        settings = statement_named("guarantee_settings")
        with duckdb.connect(":memory:") as fresh:
            usual = dict(fresh.execute(settings).fetchall())
        for name, value in self.connection.execute(settings).fetchall():
            if value != usual.get(name):
                raise StatementError(f"the query of a series runs with DuckDB's default for {name}: reset it")

    def _release(self, statement: Statement, store: Home) -> Outcome:
        name, series = statement.name, statement.values["series"]
        target = Path(statement.values["target"]) if "target" in statement.values else None
        release = any_kind.release(store, series, None, name, target=target, **release_parameters(statement))
        if target is not None:
            try:
                release.write(target)
            except SparsehistError as problem:
                problem.args = (f"{problem}. The release is committed: repeat the statement to write it",)
                raise
        if series not in TAKEN_NAMES:
            put(self.connection, release.frame, series, name)
        message = f"release {name} of {series}: {len(release):,} rows"
        message += ", released before: nothing is spent" if release.repeated else ""
        message += "" if target is None else f", written to {target}"
        return statement.outcome(message, release.frame, release=release)

    def _plan(self, statement: Statement, store: Home) -> Outcome:
        values = {**release_parameters(statement), "level": statement.values["level"]}
        levels = list(values.pop("level"))
        with store.hold() as state:
            record = store.find(state, statement.values["series"])
        series = (store, declaration_of(record), record.series_id)
        if "workload" not in values:
            return statement.outcome("planned; nothing is spent", plan_releases(*series, levels, **values).levels)
        from sparsehist.release.workload_round import planned_strategies  # imported here, as only workloads need it

        planned = planned_strategies(*series, values["workload"], levels)
        strategy = {name: value for name, value in values.items() if name == "strategy"}
        return statement.outcome("planned; nothing is spent", planned.filter(**strategy))

    def _choose_keys(self, statement: Statement, store: Home) -> Outcome:
        catalogue = discover_keys(store, self._source(statement), **statement.log.discovery)
        message = f"found {catalogue.size:,} keys at level {statement.log.discovery['level']}"
        if target := statement.values.get("target"):
            catalogue.write_parquet(Path(target))
            message += f", written to {target}: the domain is catalogue(file={target!r})"
        return statement.outcome(message, catalogue.values.alias("value").to_frame())

    def _report_store(self, statement: Statement, store: Home) -> Outcome:
        from sparsehist.report.store_report import store_report  # imports jinja2

        target, delta = Path(statement.values["target"]), statement.values.get("delta", DEFAULT_DELTA)
        write_file(target, store_report(store, delta=delta).encode(), durable=False, mode=PUBLIC)
        return statement.outcome(f"the report is in {target}: public parameters and published rows only")

    def _drop_series(self, statement: Statement, store: Home) -> Outcome:
        name = statement.name
        ensure_store(store.path)
        with store.hold() as state:
            ledger = Ledger.of(state)
            if "flag" in statement.values and state.series(name) is None and name not in ledger.limits.periods:
                return statement.outcome(f"there was no series {name}")
            drop(store, state, name)
        if name not in TAKEN_NAMES:
            self.connection.execute(f"drop schema if exists memory.{quoted(name)} cascade")
        ended = ledger.ended_by_dropping(name)
        return statement.outcome(f"{ended}erased the series {name}; what it has cost stays in the ledger")

    def _set_budget(self, statement: Statement, store: Home) -> Outcome:
        ensure_store(store.path)
        population = statement.values.get("population", "default")
        return statement.outcome(f"the budget of population {population} is {set_budget(store, **statement.values)}")

    def _show(self, statement: Statement, store: Home) -> Outcome:
        values = {"delta": DEFAULT_DELTA, **statement.values}
        with store.hold() as state:
            if statement.kind == "show ledger":
                frame = pl.DataFrame(ledger_rows(Ledger.of(state), **values), schema=SCHEMA)
                message = f"epsilon holds at delta {values['delta']:g}, whatever the noise, for the releases so far"
                return statement.outcome(message, frame)
            records = [store.find(state, values["series"])] if "series" in values else state.all_series()
            records.sort(key=lambda record: record.name)
            if statement.kind == "show series":
                shown = [{"name": one.name, **dict(declaration_rows(declaration_of(one)))} for one in records]
                return statement.outcome(frame=pl.DataFrame(shown, infer_schema_length=None))
            rows = [{"series": one.name, **row} for one in records for row in rows_of_releases(state, one)]
        return statement.outcome(frame=pl.DataFrame(rows, schema={"series": str, **RELEASES}))

    def _bring_releases(self, piece: Piece) -> None:
        """Copy the releases that a statement names into DuckDB, unless the session already has them."""
        for series, name in sorted(set(_DOTTED.findall(piece.text.lower()))):
            if series not in TAKEN_NAMES and (release := self._made_before(series, name)) is not None:
                try:
                    self.connection.table(f"memory.{quoted(series)}.{quoted(name)}")
                except duckdb.CatalogException:
                    put(self.connection, release.frame, series, name)

    def _made_before(self, series: str, name: str) -> AnyRelease | None:
        """Return the existing release with this name, or None."""
        if self.store is None or not is_store(self.store.path):
            return None
        try:
            return any_kind.release(self.store, series, None, name)
        except (DeclarationError, NotFoundError):  # the name is not valid, or there is no such release
            return None

    def _bound(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of the parameters `names` for DuckDB; fractions become floats."""
        values = {name: self.parameters[name.lower()] for name in names}
        return {name: float(value) if isinstance(value, Fraction) else value for name, value in values.items()}


def named_parameters(query: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return only those parameters that a query names: DuckDB refuses values for any others."""
    named = {name.lower() for name in re.findall(r"\$(\w+)", query)}
    return {name: value for name, value in parameters.items() if name.lower() in named}


def run_script(session: Session, script: str, *, keep_going: bool = False, dry_run: bool = False) -> list[Outcome]:
    """Check a script, then run it. Return the outcomes of the statements in order, including failed ones.

    Without `keep_going`, nothing runs if a statement is wrong, and nothing more runs after a statement has failed. A
    dry run only says what each statement would spend.
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
    """Run a script in a new session; see `sparsehist.sql`."""
    with Session(home, tables=tables, parameters=parameters) as session:
        outcomes = run_script(session, script)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(errors) > 1:
        raise StatementError("\n".join([f"{len(errors)} statements are wrong; nothing was run", *map(str, errors)]))
    if errors:
        raise errors[0]
    return SqlResult(tuple(outcomes))
