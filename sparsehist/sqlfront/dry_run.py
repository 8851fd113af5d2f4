"""What a script would spend, statement by statement, without running it: a fold over the ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sparsehist.declaration import Declaration
from sparsehist.errors import NotFoundError
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, PathName
from sparsehist.privacy import level_text
from sparsehist.release import any_kind, running_round, workload_round
from sparsehist.release.cell_parameters import cell_metadata
from sparsehist.release.home import Home
from sparsehist.release.key_discovery import charged, planned_rounds
from sparsehist.release.metadata import CellMetadata, RunningMetadata
from sparsehist.release.pipeline import AUTO
from sparsehist.release.spending import prepared
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.checking import asked_of
from sparsehist.sqlfront.declaring import wanted_by
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.results import Outcome
from sparsehist.store import is_store
from sparsehist.workload import strategy_named

_LIMITS = "not run; what follows is compared with the limits as they are"
_NOT_FORESEEN = {
    "": "not run",
    **dict.fromkeys(("plan", "report store"), "spends nothing"),
    **dict.fromkeys(("set budget", "set cap", "declare disjoint"), _LIMITS),
}


@dataclass
class _Series:
    """A series as it would stand: names of releases, and what was spent by path.

    That is levels with thresholds, for running counts steps, levels and thresholds.
    """

    series_id: str
    declaration: Declaration
    names: set[str] = field(default_factory=set)
    past: dict[PathName, list[Any]] = field(default_factory=dict)


class DryRun:
    """The ledger of a store, carried on over statements that are not run; empty where there is no store."""

    def __init__(self, store: Home | None) -> None:
        self._ledger = Ledger()
        self._series: dict[str, _Series] = {}
        if store is None or not is_store(store.path):
            return
        with store.hold() as state:
            self._ledger = Ledger.of(state)
            for record in state.all_series():
                names = {made.name for made in state.series_releases(record)}
                series = _Series(record.series_id, declaration_of(record), names)
                read = state.past if series.declaration.steps is None else state.past_points
                for path in record.paths:
                    series.past[path.kind, path.workload, path.strategy] = list(read(path.path_id))
                self._series[record.name] = series

    def foreseen(self, statement: Statement) -> Outcome:
        """What a statement would do; refuses what would be refused."""
        run, piece = getattr(self, f"_{statement.kind.replace(' ', '_')}", None), statement.piece
        said = _NOT_FORESEEN.get(statement.kind, "") if run is None else run(statement)
        return Outcome(piece.number, piece.line, statement.kind or "duckdb", said=said)

    def _drop_series(self, statement: Statement) -> str:
        ended = self._ledger.ended_by_dropping(statement.name)
        dropped = self._series.pop(statement.name, None)
        if dropped is not None:
            self._ledger = self._ledger.with_dropped(dropped.series_id, datetime.now(UTC))
        return f"{ended}erases the series; what it has cost stays in the ledger"

    def _create_series(self, statement: Statement) -> str:
        name, declaration = statement.name, wanted_by(statement).declaration
        if name in self._series:
            return f"keeps the series {name}; spends nothing"
        self._ledger.check_series(declaration)
        if declaration.every is not None:
            return f"declares the series {name} of periods; spends nothing"
        if declaration.domain.is_open:
            self._ledger = self._ledger.with_open_series(declaration.population)
        series_id = f"new {len(self._series)} {name} {len(self._ledger.accounts)}"
        self._series[name] = _Series(series_id, declaration)
        self._ledger = self._ledger.with_series(Account(series_id, declaration))
        if not statement.query:
            return f"declares the running series {name}; spends nothing"
        return f"counts the log into the series {name}; spends nothing"

    def _append(self, statement: Statement) -> str:
        name, asked, steps = statement.name, statement.asked, wanted_by(statement).declaration.steps
        if steps is None:
            return f"appends the period {asked['period']} to the series {name}; spends nothing"
        steps.step_of(asked["step"])
        return f"appends step {asked['step']} to the series {name}; spends nothing"

    def _choose_keys(self, statement: Statement) -> str:
        rounds = planned_rounds(**wanted_by(statement).further)
        rounds = [each for each in rounds if each.declared.name not in self._series]
        if not rounds:
            return "was made before; spends nothing"
        before, self._ledger = self._ledger, charged(self._ledger, rounds)
        for each in rounds:
            self._series[each.declared.name] = _Series(each.declared.name, each.declared, {"keys"})
        return self._spending(rounds[0].declared.population, before)

    def _release(self, statement: Statement) -> str:
        asked = statement.asked
        series = self._series.get(asked["series"])
        if series is None:
            raise NotFoundError(f"there is no series {asked['series']}")
        if statement.name in series.names:
            return "was made before; spends nothing"
        if "levels" not in asked:
            raise NotFoundError(f"the series {asked['series']} has no release {statement.name}: AT LEVEL makes one")
        declaration = series.declaration
        request: Any = any_kind.request_of(declaration, statement.name, **asked_of(statement))[0]
        if request.kind == "workload":
            path, public = self._workload(series, request)
        elif declaration.steps is None:
            path, public = CELLS, partial(cell_metadata, declaration, past=series.past.get(CELLS, []))
        elif request.step is None:
            raise NotFoundError(f"{declaration.name} is a running series: a release says AT STEP and AT LEVEL")
        else:
            path = request.totals.path
            public = partial(running_round.running_metadata, declaration, past=series.past.get(path, []))
        _, made, spends = prepared(self._ledger, series.series_id, declaration, path, request, public)
        self._ledger.check(*spends)
        before, self._ledger = self._ledger, self._ledger.with_release(*spends)
        series.names.add(statement.name)
        threshold = getattr(made, "effective_threshold", -math.inf) * declaration.unit_of_counts
        row = (request.totals.row(made.step),) if isinstance(made, RunningMetadata) else ()
        series.past.setdefault(path, []).append((*row, spends[0].level, threshold))
        said = self._spending(declaration.population, before)
        if isinstance(made, CellMetadata) and declaration.domain.is_open:
            spent, left = made.delta_infinity, made.delta_remaining
            said += f"; of the series' delta {spent:.3g} are spent then and {left:.3g} left"
        return said

    def _workload(self, series: _Series, request: Any) -> tuple[PathName, partial[Any]]:
        """The path of a workload, which keeps to the strategy that was taken before, and what makes its metadata."""
        declaration, workload, name = series.declaration, request.workload, request.strategy
        if workload is None:
            raise NotFoundError("a release of a workload names it")
        if name == AUTO:
            paths = self._ledger.accounts[series.series_id].paths
            name = next((str(path[2]) for path in paths if path[1] == str(workload)), None)
        if name is None:
            strategy = workload_round.chosen_strategy(declaration, workload)
        else:
            strategy = strategy_named(name, workload)
        path, price = workload_round.path_name(strategy), workload_round.price_of(declaration, strategy)
        past = [level for level, _ in series.past.get(path, ())]
        return path, partial(workload_round.workload_metadata, declaration, strategy, price=price, past=past)

    def _spending(self, population: str, before: Ledger) -> str:
        spent = [_spent(ledger, population) for ledger in (before, self._ledger)]
        return f"population {population}: {spent[0]} before, {spent[1]} after"


def _spent(ledger: Ledger, population: str) -> str:
    cost = ledger.cost_of(ledger.of_population(population))
    if cost.amount is not None:
        return f"{cost.currency} {level_text(cost.amount)}" if cost.amount else "nothing"
    return "no sum" if cost.rho is None or math.isinf(cost.rho) else f"rho ≈ {cost.rho:.6g}"
