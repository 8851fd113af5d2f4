"""A whole script, read and checked before any of it runs; in a dry run, with what each statement would spend.

The query of a series is checked in full unless a statement above it may make what it reads; then its words are
checked, and the rest when it runs. A dry run adds up a ledger by the functions that releases and limits use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import needed, sql_words
from sparsehist.errors import NotFoundError, SparsehistError, present
from sparsehist.ledger.budgets import budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, PathName
from sparsehist.privacy import level_text
from sparsehist.release import any_kind
from sparsehist.release.calendar import span_of
from sparsehist.release.cell_parameters import cell_metadata
from sparsehist.release.key_discovery import charged, planned_rounds
from sparsehist.release.limits import budget_event, cap_event, disjoint_event
from sparsehist.release.metadata import CellMetadata, RunningMetadata
from sparsehist.release.periods import declared_periods
from sparsehist.release.pipeline import AUTO
from sparsehist.release.release_files import ENDINGS, check_target
from sparsehist.release.running_round import running_metadata
from sparsehist.release.spending import prepared
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.engine_words import parser_failure
from sparsehist.sqlfront.reading import NO_VALUE, Statement, read_statement
from sparsehist.sqlfront.results import TAKEN_NAMES, Outcome
from sparsehist.sqlfront.script import Piece, Place, pointed
from sparsehist.store import SeriesRecord, State, is_store

if TYPE_CHECKING:
    from sparsehist.sqlfront.session import Session

_BEGUN = re.compile(r'create\s+(?:running\s+)?series\s+(?:if\s+not\s+exists\s+)?"?(\w+)', re.IGNORECASE)
_MAKES_NOTHING = frozenset({"SELECT", "EXPLAIN", "LOAD"})
_MADE_BEFORE = "was made before; spends nothing"
_PUBLIC = "public_tables"
_HOW_TO_COUNT = ("memory_limit", "threads")
_OF_DISCOVERY = ("unit", "key", "most_keys", "delta", "rounds", "kind", "population", "on_null")
_WORDS = sql_words(Declaration)
NEEDED = ("unit", *(word for word in _WORDS if word in needed(Declaration)))
OPTIONS = (*NEEDED, *sorted({*_WORDS, _PUBLIC, *_HOW_TO_COUNT} - set(NEEDED)))
"""Options of CREATE SERIES, those that are needed first."""
_ENDINGS = {"release": ENDINGS, "choose keys": (".parquet",), "report store": (".html",)}
_OF_RELEASE = {
    **{name: name for name in ("threshold", "false_keys", "workload", "strategy", "step", "measures")},
    "level": "levels",
    "open_delta": "delta",
}
"""Parameters of a release, and the fields of the statement that say them."""


class LogQuery(NamedTuple):
    """The query of a statement with its reading options, and the series that the statement adds."""

    declaration: Declaration
    public_tables: frozenset[str]
    further: Mapping[str, Any] = {}  # parameters of `Counting`, or of `discover_keys`
    adds: Declaration | None = None


def release_asked(statement: Statement) -> dict[str, Any]:
    """Return the arguments of RELEASE or PLAN for `any_kind.release`; the first if there are several levels."""
    asked = {name: statement.asked[field] for name, field in _OF_RELEASE.items() if field in statement.asked}
    return asked | ({"level": asked["level"][0]} if "level" in asked else {})


@dataclass
class _Series:
    """The predicted state of a series at a statement of the script.

    Attributes:
        declaration: Its declaration.
        releases: Names of its releases.
        past: By noise path, levels with thresholds; for a running series, steps with levels and thresholds.
    """

    declaration: Declaration
    releases: set[str] = field(default_factory=set)
    past: dict[PathName, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State, record: SeriesRecord) -> _Series:
        """Read a series from a store."""
        made = cls(declaration_of(record), {one.name for one in state.releases(record)})
        read = state.past if made.declaration.steps is None else state.past_points
        made.past = {path.name: list(read(path.path_id)) for path in record.paths}
        return made


class ScriptCheck:
    """The predicted state of the store after each statement, without counts; no statement is run.

    Attributes:
        series: The series by name; None if its declaration is wrong.
        settled: False after a statement that may make tables, files or settings which a later query reads.
        ledger: What was spent; only a `dry` run adds to it.
    """

    def __init__(self, session: Session, *, dry: bool = False) -> None:
        """Begin with the current store of a session."""
        self.session, self.dry, self.settled = session, dry, True
        self.ledger, self.series = Ledger(), dict[str, _Series | None]()
        store = session.store
        if store is not None and is_store(store.path):
            with store.hold() as state:
                self.ledger = Ledger.of(state)
                self.series |= {record.name: _Series.of(state, record) for record in state.all_series()}
                for name in self.ledger.limits.periods:
                    self.series[name] = _Series(declared_periods(state, name))

    def checked(self, piece: Piece) -> Statement | Outcome:
        """Read and check a statement; return an outcome if the statement is wrong, and always in a dry run."""
        try:
            statement = read_statement(piece, self.session.parameters)
            if statement.kind:
                statement = replace(statement, log=self._check(statement))
            else:
                self.settled &= check_plain(piece, self.session)[0] in _MAKES_NOTHING
        except SparsehistError as problem:
            if begun := _BEGUN.match(piece.text):  # report each mistake once
                self.series.setdefault(begun[1].lower(), None)
            return Outcome(piece.number, piece.line, "not run", error=problem)
        if not self.dry:
            return statement
        try:
            return statement.outcome(self._foreseen(statement))
        except SparsehistError as problem:
            return statement.failed(problem, "would be refused")

    def _check(self, statement: Statement) -> LogQuery | None:
        """Check one of our statements, and return its query with reading options; errors show the place."""
        kind, name, asked = statement.kind, statement.name, statement.asked
        if kind in ("append", "set cap") or (kind == "drop series" and "flag" not in asked):
            self._check_series(statement, "name")
        if "series" in asked:
            self._check_series(statement, "series")
        if kind in ("release", "plan"):
            self._check_release(statement)
        if "target" in asked:
            store = None if self.session.store is None else self.session.store.path
            with statement.errors_at("target"):
                check_target("TO", Path(str(asked["target"])), store, _ENDINGS[kind])
        if kind == "drop series":
            self.series.pop(name, None)
        return self._check_log(statement)

    def _check_log(self, statement: Statement) -> LogQuery | None:
        """Check a statement that declares a series, appends to it or chooses keys, with its query."""
        kind, kept = statement.kind, False
        if kind == "create series":
            log = self._declared(statement)
            kept = log.adds is None
        elif kind == "choose keys":
            log = _discovery(statement)
        elif kind == "append" and (known := self.series.get(statement.name)) is not None:
            log = self._appended(statement, known.declaration)
        else:
            return None
        if statement.query:
            (found,) = parsed(statement.piece, statement.places["query"], self.session.connection)
            if found.type != duckdb.StatementType.SELECT:
                raise statement.error("expected one query after AS", "query")
            self.session.check_query(statement, log, settled=self.settled and not kept)
        return log

    def _check_series(self, statement: Statement, field: str) -> None:
        name = str(statement.asked[field])
        if self.session.store is not None and name not in self.series:
            told = f"there is no series {name}; there are: {', '.join(sorted(self.series)) or 'none'}"
            raise NotFoundError(pointed(told, statement.piece.script, statement.places[field]))

    def _check_release(self, statement: Statement) -> None:
        series, levels = self.series.get(statement.asked["series"]), statement.asked.get("levels", ())
        self.settled &= statement.kind == "plan"
        if statement.kind == "release" and len(levels) > 1:
            raise statement.error("a release has one level; a plan may have several", "levels")
        if series is not None:
            with statement.errors_at("workload" if "workload" in statement.asked else "levels", **_OF_RELEASE):
                for level in levels or (None,):
                    asked = release_asked(statement) | {"level": level}
                    any_kind.request_of(series.declaration, statement.name or "plan", **asked)

    def _declared(self, statement: Statement) -> LogQuery:
        """Check the options of a series."""
        name, known = statement.name, self.series.get(statement.name)
        if name in self.series and "flag" not in statement.asked:
            raise statement.error(f"there is a series {name} already: IF NOT EXISTS keeps it", "name")
        if name in TAKEN_NAMES:
            raise statement.error(f"{name} cannot name a series in SQL: {name}.public would be DuckDB's own", "name")
        values, public = _options(statement, OPTIONS, NEEDED)
        counting = {word: values.pop(word) for word in _HOW_TO_COUNT if word in values}
        values |= {"steps": statement.asked["steps"]} if "steps" in statement.asked else {}
        with statement.errors_at("name"):
            declaration = Declaration(name=name, **values)
        if not statement.query and declaration.steps is None and declaration.every is None:
            raise statement.error("expected AS and a query: it reads the log", "name")
        if statement.query and declaration.every is not None:
            raise statement.error("a series of periods has no query: APPEND TO it", "query")
        self.series[name] = known or _Series(declaration)
        return LogQuery(declaration, public, counting, None if known else declaration)

    def _appended(self, statement: Statement, declaration: Declaration) -> LogQuery:
        """Check a step or period, and return what its query must satisfy."""
        _, public = _options(statement, (_PUBLIC,))
        by_step = "step" in statement.asked
        if by_step == ("period" in statement.asked):
            raise statement.error("expected STEP or PERIOD", "query")
        if (declaration.steps if by_step else declaration.every) is None:
            kind = "running series, which has steps" if by_step else "series of periods"
            raise statement.error(f"{statement.name} is not a {kind}", "name")
        if by_step:
            return LogQuery(declaration, public)
        with statement.errors_at("period"):
            span = span_of(present(declaration.every).period, statement.asked["period"])
        added = replace(declaration, name=f"{statement.name}_{span.name}", every=None, period=span.label)
        known = self.series.setdefault(added.name, _Series(added))
        return LogQuery(declaration, public, adds=added if known and not known.releases else None)

    def _foreseen(self, statement: Statement) -> str:
        """Return the cost of a statement and add it to the ledger; refuse the statement if a run would refuse it."""
        asked, log = statement.asked, statement.log
        match statement.kind:
            case "":
                return "not run"
            case "release":
                return self._release(statement)
            case "choose keys":
                rounds = [one for one in planned_rounds(**log.further) if one.declared.name not in self.series]
                before, self.ledger = self.ledger, charged(self.ledger, rounds)
                self.series |= {one.declared.name: _Series(one.declared, {"keys"}) for one in rounds}
                return self._spending(rounds[0].declared.population, before) if rounds else _MADE_BEFORE
            case "drop series":
                ended = self.ledger.ended_by_dropping(statement.name)
                if series_id := self._series_id(statement.name):
                    self.ledger = self.ledger.with_dropped(series_id, datetime.now(UTC))
                return f"{ended}erases the series; what it has cost stays in the ledger"
            case "set budget":
                event, said = budget_event(self.ledger, **asked)
                self.ledger = self.ledger.with_event(**event)
                return f"sets the budget to {said}; spends nothing"
            case "set cap":
                event = cap_event(
                    self.ledger, self._series_id(statement.name), asked["level"], reason=asked["reason"]
                )
                self.ledger = self.ledger.with_event(**event)
            case "declare disjoint":
                self.ledger = self.ledger.with_event(**disjoint_event(asked["populations"], reason=asked["reason"]))
            case _ if log is not None and log.adds is not None:
                self._add(log.adds)
        return "spends nothing"

    def _series_id(self, name: str) -> str:
        """Return the id of a series in the ledger; empty if there is none."""
        held = (known for known in self.ledger.accounts.values() if known.dropped is None)
        return next((known.series_id for known in held if known.name == name), "")

    def _add(self, declaration: Declaration) -> None:
        """Add a series to the ledger; a periodic one is a declaration and perhaps a budget."""
        self.ledger.check_series(declaration)
        if (every := declaration.every) is not None:
            events = {"declare periods": declaration.as_json()}
            if every.budget is not None:
                limit = budget_within(every.budget, opens=declaration.domain.is_open)
                events["set budget"] = limit.as_json()
            for what, details in events.items():
                self.ledger = self.ledger.with_event(what=what, population=declaration.name, details=details)
            return
        if declaration.domain.is_open:
            self.ledger = self.ledger.with_open_series(declaration.population)
        account = Account(f"{declaration.name} {len(self.ledger.accounts)}", declaration)
        self.ledger = self.ledger.with_series(account)

    def _release(self, statement: Statement) -> str:
        asked, series = statement.asked, self.series.get(statement.asked["series"])
        series_id = self._series_id(asked["series"])
        if series is None or not series_id:
            raise NotFoundError(f"there is no series {asked['series']}")
        if statement.name in series.releases:
            return _MADE_BEFORE
        declaration = series.declaration
        request: Any = any_kind.request_of(declaration, statement.name, **release_asked(statement))[0]
        if request.missing:
            raise NotFoundError(f"the series {asked['series']} has no release {statement.name}: AT LEVEL makes one")
        path, public = self._path(series, series_id, request)
        _, made, spends = prepared(self.ledger, series_id, declaration, path, request, public)
        self.ledger.check(*spends)
        before, self.ledger = self.ledger, self.ledger.with_release(*spends)
        series.releases.add(statement.name)
        threshold = getattr(made, "effective_threshold", -math.inf) * declaration.unit_of_counts
        row = (made.step - 1,) if isinstance(made, RunningMetadata) else ()
        series.past.setdefault(path, []).append((*row, spends[0].level, threshold))
        said = self._spending(declaration.population, before)
        if isinstance(made, CellMetadata) and declaration.domain.is_open:
            spent, left = made.delta_infinity, made.delta_remaining
            said += f"; of the series' delta {spent:.3g} are spent then and {left:.3g} left"
        return said

    def _path(self, series: _Series, series_id: str, request: Any) -> tuple[PathName, partial[Any]]:
        """Return the noise path of a release, and the function that makes its metadata."""
        declaration = series.declaration
        if request.kind != "workload":
            metadata: Any = cell_metadata if declaration.steps is None else running_metadata
            return CELLS, partial(metadata, declaration, past=series.past.get(CELLS, []))
        from sparsehist.release import workload_round  # and scipy's linear algebra
        from sparsehist.workload import strategy_named

        workload, name = request.workload, request.strategy
        if name == AUTO:  # a workload keeps to the strategy that was taken before
            paths = self.ledger.accounts[series_id].paths
            name = next((path[2] for path in paths if path[1] == str(workload)), AUTO)
        chosen = name == AUTO
        strategy = workload_round.chosen_strategy(declaration, workload) if chosen else strategy_named(name, workload)
        path, price = workload_round.path_name(strategy), workload_round.price_of(declaration, strategy)
        past = [level for level, _ in series.past.get(path, ())]
        return path, partial(workload_round.workload_metadata, declaration, strategy, price=price, past=past)

    def _spending(self, population: str, before: Ledger) -> str:
        spent = [_spent(ledger, population) for ledger in (before, self.ledger)]
        return f"population {population}: {spent[0]} before, {spent[1]} after"


def _spent(ledger: Ledger, population: str) -> str:
    cost = ledger.cost_of(ledger.of_population(population))
    if cost.amount is not None:
        return f"{cost.currency} {level_text(cost.amount)}" if cost.amount else "nothing"
    return "no sum" if cost.rho is None or math.isinf(cost.rho) else f"rho ≈ {cost.rho:.6g}"


def _options(
    statement: Statement, known: Iterable[str], needs: Iterable[str] = ()
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the options of a statement, and the names of public tables."""
    found = dict(statement.asked.get("options", {}))
    for name in found:
        if name not in known:
            raise statement.error(f"there is no option {name}; options are {', '.join(known)}", name)
    if missing := [name for name in needs if name not in found]:
        raise statement.error(f"WITH has no {' and no '.join(missing)}", "name")
    public = found.pop(_PUBLIC, ())
    return found, frozenset((public,) if isinstance(public, str) else public)


def _discovery(statement: Statement) -> LogQuery:
    """Check the options of CHOOSE KEYS; the further parameters are those of `discover_keys`."""
    asked, public = _options(statement, (*_OF_DISCOVERY, _PUBLIC), _OF_DISCOVERY[:4])
    asked |= {"name": statement.name, "level": statement.asked["level"], "delta": str(asked["delta"])}
    with statement.errors_at("name"):
        (first, *_) = planned_rounds(**asked)
    return LogQuery(first.declared, public, asked)


def check_plain(piece: Piece, session: Session) -> tuple[str, set[str]]:
    """Check that DuckDB reads one statement whose parameters all have values; return its kind and their names."""
    (statement,) = parsed(piece, piece.place, session.connection)
    names = set(statement.named_parameters)
    for name in sorted(names):
        if name.isdecimal():
            raise piece.error("a parameter is given by its name: $name", _place_of(piece, "?"))
        if name.lower() not in session.parameters:
            raise piece.error(NO_VALUE.format(name), _place_of(piece, f"${name}"))
    return statement.type.name, names


def _place_of(piece: Piece, text: str) -> Place | None:
    """Return the position of a symbol that is followed by this text."""
    symbols = (word.place.start for word in piece.words if word.kind == "symbol")
    start = next((at for at in symbols if piece.script[at:].lower().startswith(text.lower())), None)
    return None if start is None else Place(start, start + len(text))


def parsed(piece: Piece, place: Place, connection: duckdb.DuckDBPyConnection) -> list[Any]:
    """Let DuckDB parse a part of a script that is one statement."""
    text = piece.script[slice(*place)]
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        message, at = parser_failure(text, problem)
        where = place if at is None else Place(place.start + at, place.start + at + 1)
        raise piece.error(message, where) from None
    if len(found) != 1:
        raise piece.error(f"DuckDB takes this for {len(found)} statements", place)
    return list(found)
