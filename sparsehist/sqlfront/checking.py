"""Check a whole script before any statement runs. In a dry run, predict what each statement would spend.

If an earlier statement of the script may create tables that the query of a series reads, only the syntax of the query
is checked here, and the rest when the query runs. A dry run predicts the ledger with the code of real releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import needed, sql_words
from sparsehist.errors import NotFoundError, SparsehistError, StatementError
from sparsehist.ledger.budgets import budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, PathName
from sparsehist.privacy import level_text
from sparsehist.release import any_kind
from sparsehist.release.cell_parameters import cell_metadata
from sparsehist.release.key_discovery import charged, planned_rounds
from sparsehist.release.limits import budget_event
from sparsehist.release.periods import declared_periods, names_of_period
from sparsehist.release.pipeline import AUTO, prepared
from sparsehist.release.release_files import ENDINGS, check_target
from sparsehist.release.running_round import running_metadata
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.engine_words import first_line
from sparsehist.sqlfront.reading import NO_VALUE, Statement, read_statement
from sparsehist.sqlfront.results import TAKEN_NAMES, Outcome, failed
from sparsehist.sqlfront.script import Piece
from sparsehist.store import SeriesRecord, State, is_store

if TYPE_CHECKING:
    from sparsehist.sqlfront.session import Session

_MAKES_NOTHING = frozenset({"SELECT", "EXPLAIN", "LOAD"})
_PUBLIC = "public_tables"
_HOW_TO_COUNT = ("memory_limit", "threads")
_OF_DISCOVERY = ("unit", "key", "most_keys", "delta", "rounds", "kind", "population", "on_null")
_ENDINGS = {"release": ENDINGS, "choose keys": (".parquet",), "report store": (".html",)}
_WORDS = sql_words(Declaration)
NEEDED = ("unit", *(word for word in _WORDS if word in needed(Declaration)))
OPTIONS = (*NEEDED, *sorted({*_WORDS, _PUBLIC, *_HOW_TO_COUNT} - set(NEEDED)))
"""Options of CREATE SERIES, required ones first."""


class LogQuery(NamedTuple):
    """How to count the log that a statement's query returns: the series to which the log belongs, and settings."""

    declaration: Declaration  # declaration of the series to which the log belongs
    public_tables: frozenset[str]  # names of tables that are declared public
    counting: Mapping[str, Any] = {}  # memory_limit and threads, if they are set
    adds: Declaration | None = None  # declaration of the series that the statement creates, if any
    discovery: Mapping[str, Any] = {}  # parameters of `discover_keys`


def release_parameters(statement: Statement) -> dict[str, Any]:
    """Convert the clauses of RELEASE or PLAN to arguments of a release. Of several levels, use only the first."""
    values = {name: value for name, value in statement.values.items() if name not in ("name", "series", "target")}
    return values | ({"level": values["level"][0]} if "level" in values else {})


@dataclass
class _Series:
    """The predicted state of a series before a statement of the script."""

    declaration: Declaration
    series_id: str = ""  # id of the series in the predicted ledger
    releases: set[str] = field(default_factory=set)  # names of the releases of the series
    # Earlier releases of cells: (level, threshold). For running series: (step, level, threshold), with steps from 0.
    past: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, state: State, record: SeriesRecord) -> _Series:
        """Return the current state of a series in a store."""
        declaration, releases = declaration_of(record), {one.name for one in state.releases(record)}
        read = state.past if declaration.steps is None else state.past_points
        past = [one for path in record.paths if path.name == CELLS for one in read(path.path_id)]
        return cls(declaration, record.series_id, releases, past)


class ScriptCheck:
    """Check a script without running it: predict the state of the store after each statement.

    Attributes:
        series: The predicted series by name.
        settled: False after a statement that may change tables, files or settings which a later query uses.
        ledger: The predicted ledger; only a dry run adds costs to it.
    """

    def __init__(self, session: Session, *, dry: bool = False) -> None:
        """Begin with the current state of the session's store."""
        self.session, self.dry, self.settled = session, dry, True
        self.ledger, self.series = Ledger(), dict[str, _Series]()
        store = session.store
        if store is not None and is_store(store.path):
            with store.hold() as state:
                self.ledger = Ledger.of(state)
                self.series |= {record.name: _Series.of(state, record) for record in state.all_series()}
                for name in self.ledger.limits.periods:
                    self.series[name] = _Series(declared_periods(state, name))

    def checked(self, piece: Piece) -> Statement | Outcome:
        """Return a checked statement, or an outcome with the error. In a dry run, return the predicted outcome."""
        try:
            statement = read_statement(piece, self.session.parameters)
            if statement.kind:
                statement = replace(statement, log=self._check(statement))
            else:
                self.settled &= check_plain(piece, self.session)[0] in _MAKES_NOTHING
        except SparsehistError as problem:
            return failed(piece, problem, "not run")
        try:
            return statement.outcome(self._foreseen(statement)) if self.dry else statement
        except SparsehistError as problem:
            return failed(piece, problem, message="would be refused")
        finally:
            if statement.kind == "drop series":
                self.series.pop(statement.name, None)

    def _check(self, statement: Statement) -> LogQuery | None:
        """Check a statement of the package. If it contains a query of a log, return the `LogQuery` of this query."""
        kind, values, store = statement.kind, statement.values, self.session.store
        if store is None:
            raise NotFoundError("this statement needs a store: name one with store= or, in a shell, with --store")
        name = values.get("series", statement.name)
        named = "series" in values or kind in ("append to", "drop series")
        if named and name not in self.series and "flag" not in values:
            names = ", ".join(sorted(self.series)) or "none"
            raise NotFoundError(f"there is no series {name}; there are: {names}")
        if kind in ("release", "plan"):
            self._check_release(statement, self.series[name].declaration)
        if "target" in values:
            check_target("TO", Path(str(values["target"])), store.path, _ENDINGS[kind])
        match kind:
            case "create series":
                log = self._declared(statement)
            case "append to":
                log = self._appended(statement, self.series[name].declaration)
            case "choose keys":
                log = _discovery(statement)
            case _:
                return None
        if statement.query:
            if parsed(statement.query, self.session).type != duckdb.StatementType.SELECT:
                raise StatementError("expected one query after AS")
            kept = kind == "create series" and log.adds is None
            self.session.check_query(statement, log, settled=self.settled and not kept)
        return log

    def _check_release(self, statement: Statement, declaration: Declaration) -> None:
        levels = statement.values.get("level", (None,))
        self.settled &= statement.kind == "plan"
        if statement.kind == "release" and len(levels) > 1:
            raise StatementError("a release has one level; a plan may have several")
        for level in levels:
            parameters = release_parameters(statement) | {"level": level}
            any_kind.request_of(declaration, statement.name or "plan", **parameters)

    def _declared(self, statement: Statement) -> LogQuery:
        """Check the options of CREATE SERIES, and return the `LogQuery` of its query."""
        name = statement.name
        if name in self.series and "flag" not in statement.values:
            raise StatementError(f"there is already a series {name}: to keep it, use IF NOT EXISTS")
        if name in TAKEN_NAMES:
            raise StatementError(f"a series cannot have the name {name} in SQL, because DuckDB reserves {name}")
        values, public = _options(statement, OPTIONS, NEEDED)
        counting = {word: values.pop(word) for word in _HOW_TO_COUNT if word in values}
        declaration = Declaration(name=name, **values)
        appended = declaration.steps is not None or declaration.every is not None
        if appended and statement.query:
            raise StatementError("if 'steps' or 'every' is set, CREATE SERIES takes no query: write it in APPEND TO")
        if not appended and not statement.query:
            raise StatementError("expected AS and a query of the log, as in AS SELECT user_id, query FROM …")
        existing = self.series.get(name)
        self.series[name] = existing or _Series(declaration)
        return LogQuery(declaration, public, counting, None if existing else declaration)

    def _appended(self, statement: Statement, declaration: Declaration) -> LogQuery:
        """Check APPEND TO, and return the `LogQuery` of its query."""
        _, public = _options(statement, (_PUBLIC,))
        if (declaration.steps is None or "step" not in statement.values) and (
            declaration.every is None or "period" not in statement.values
        ):
            raise StatementError("APPEND TO takes STEP for a running series, and PERIOD for a periodic series")
        if declaration.every is None:
            return LogQuery(declaration, public)
        label, name = names_of_period(declaration, statement.values["period"])
        added = replace(declaration, name=name, every=None, period=label)
        series = self.series.setdefault(added.name, _Series(added))
        return LogQuery(declaration, public, adds=None if series.series_id else added)

    def _foreseen(self, statement: Statement) -> str:
        """Charge a statement to the predicted ledger and describe its cost. Raise an error if it would be refused."""
        values, log = statement.values, statement.log
        match statement.kind:
            case "":
                return "not run"
            case "release":
                return self._release(statement)
            case "choose keys":
                rounds = [one for one in planned_rounds(**log.discovery) if one.declared.name not in self.series]
                before, self.ledger = self.ledger, charged(self.ledger, rounds)
                self.series |= {one.declared.name: _Series(one.declared, releases={"keys"}) for one in rounds}
                return self._spending(str(values["options"].get("population", "default")), before)
            case "drop series":
                ended, series = self.ledger.ended_by_dropping(statement.name), self.series.get(statement.name)
                if series is not None and series.series_id:
                    account = replace(self.ledger.accounts[series.series_id], dropped=datetime.now(UTC))
                    # After the drop, the costs stay in the ledger, and a released period cannot be counted again.
                    self.ledger = self.ledger.with_series(account)
                return f"{ended}erases the series; what it has cost stays in the ledger"
            case "set budget":
                event, budget = budget_event(self.ledger, **values)
                self.ledger = self.ledger.with_event(**event)
                return f"sets the budget to {budget}; spends nothing"
            case _ if log is not None and log.adds is not None:
                self._add(log.adds)
        return "spends nothing"

    def _add(self, declaration: Declaration) -> None:
        """Add a series to the predicted ledger; for a periodic series, add its declaration and its budget, if any."""
        self.ledger.check_series(declaration)
        if (every := declaration.every) is not None:
            events = {"declare periods": declaration.as_json()}
            if every.budget is not None:
                events["set budget"] = budget_within(every.budget, opens=declaration.domain.is_open).as_json()
            for what, details in events.items():
                self.ledger = self.ledger.with_event(what=what, population=declaration.name, details=details)
            return
        series = self.series[declaration.name]
        series.series_id = f"{declaration.name} {len(self.ledger.accounts)}"
        self.ledger = self.ledger.with_series(Account(series.series_id, declaration))

    def _release(self, statement: Statement) -> str:
        series = self.series[statement.values["series"]]
        if not series.series_id:
            raise NotFoundError(f"there is no series {statement.values['series']} with counts")
        if statement.name in series.releases:
            return "was made before; spends nothing"
        declaration = series.declaration
        request: Any = any_kind.request_of(declaration, statement.name, **release_parameters(statement))[0]
        if request.missing:
            raise NotFoundError(f"there is no release {statement.name}; add AT LEVEL and a level to make a new one")
        path, metadata = self._path(series, request)
        request, public, spends = prepared(self.ledger, series.series_id, declaration, path, request, metadata)
        self.ledger.check(*spends)
        before, self.ledger = self.ledger, self.ledger.with_release(*spends)
        series.releases.add(statement.name)
        if path == CELLS:
            step = () if declaration.steps is None else (request.step - 1,)
            threshold = public.effective_threshold * declaration.unit_of_counts
            series.past.append((*step, spends[0].level, threshold))
        return self._spending(declaration.population, before)

    def _path(self, series: _Series, request: Any) -> tuple[PathName, partial[Any]]:
        """Return the noise path that a release would use, and a function that returns the metadata of the release."""
        declaration = series.declaration
        if request.kind != "workload":
            metadata: Any = cell_metadata if declaration.steps is None else running_metadata
            return CELLS, partial(metadata, declaration, past=series.past)
        from sparsehist.release import workload_round  # imported here because only workloads need it

        workload, name = request.workload, request.strategy
        if name == AUTO:  # a workload keeps the strategy of its first release
            paths = self.ledger.accounts[series.series_id].paths
            name = next((path[2] for path in paths if path[1] == str(workload)), AUTO)
        strategy = workload_round.chosen_strategy(declaration, workload, str(name))
        price = workload_round.price_of(declaration, strategy)
        return workload_round.path_name(strategy), partial(
            workload_round.workload_metadata, declaration, strategy, price=price, past=()
        )

    def _spending(self, population: str, before: Ledger) -> str:
        spent = [_spent(ledger, population) for ledger in (before, self.ledger)]
        return f"population {population}: {spent[0]} before, {spent[1]} after"


def _spent(ledger: Ledger, population: str) -> str:
    cost = ledger.cost_of(ledger.of_population(population))
    if cost.amount is not None:
        return f"{cost.currency} {level_text(cost.amount)}" if cost.amount else "nothing"
    return "no sum" if cost.rho is None or math.isinf(cost.rho) else f"rho ≈ {cost.rho:.6g}"


def _options(
    statement: Statement, allowed: Iterable[str], needs: Iterable[str] = ()
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the options of a statement, and separately the names in the option `public_tables`."""
    options = dict(statement.values.get("options", {}))
    if unknown := [name for name in options if name not in allowed]:
        raise StatementError(f"there is no option {unknown[0]}; options are {', '.join(allowed)}")
    if missing := [name for name in needs if name not in options]:
        raise StatementError(f"WITH has no {' and no '.join(missing)}")
    public = options.pop(_PUBLIC, ())
    return options, frozenset((public,) if isinstance(public, str) else public)


def _discovery(statement: Statement) -> LogQuery:
    """Check the options of CHOOSE KEYS, which are the parameters of `discover_keys`."""
    values, public = _options(statement, (*_OF_DISCOVERY, _PUBLIC), _OF_DISCOVERY[:4])
    values |= {"name": statement.name, "level": statement.values["level"][0], "delta": str(values["delta"])}
    return LogQuery(planned_rounds(**values)[0].declared, public, discovery=values)


def check_plain(piece: Piece, session: Session) -> tuple[str, set[str]]:
    """Parse a statement with DuckDB, and return its kind and parameter names. Refuse parameters without a value."""
    statement = parsed(piece.text, session)
    names = set(statement.named_parameters)
    if unknown := [name for name in sorted(names) if name.lower() not in session.parameters]:
        raise StatementError(NO_VALUE.format(unknown[0]))
    return statement.type.name, names


def parsed(text: str, session: Session) -> Any:
    """Return DuckDB's parsed form of one statement."""
    try:
        statements = session.connection.extract_statements(text)
    except duckdb.Error as problem:
        raise StatementError(first_line(problem)) from None  # safe to show: parser errors quote only the script
    if len(statements) != 1:
        raise StatementError(f"DuckDB reads this as {len(statements)} statements")
    return statements[0]
