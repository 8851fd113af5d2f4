"""What a script would spend, statement by statement, without running it: a fold over the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from typing import Any

from sparsehist.declaration import Declaration
from sparsehist.errors import NotFoundError, SparsehistError, present
from sparsehist.ledger.ledger import CELLS, Ledger, PathName, Spending
from sparsehist.privacy import level_text
from sparsehist.release import workload_round
from sparsehist.release.cell_parameters import cell_metadata
from sparsehist.release.home import Home
from sparsehist.release.metadata import CellMetadata, RunningMetadata
from sparsehist.release.pipeline import AUTO
from sparsehist.release.spending import cells_of, prepared
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.release.workload_round import chosen_strategy
from sparsehist.sqlfront.declaring import declared
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.release_tables import request_of
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.script import pointed
from sparsehist.store import is_store
from sparsehist.workload import strategy_named

_LIMITS = "not run; what follows is compared with the limits as they are"
_NOT_FORESEEN = {
    "": "not run",
    "plan": "spends nothing",
    "choose keys": "would spend its level, which is not added to what follows",
    **dict.fromkeys(("set budget", "set cap", "declare disjoint"), _LIMITS),
}


@dataclass
class _Series:
    """A series as it would stand."""

    series_id: str
    declaration: Declaration
    names: set[str] = field(default_factory=set)
    cells: list[tuple[Fraction, float]] = field(default_factory=list)
    points: dict[str, list[tuple[int, Fraction, float]]] = field(default_factory=dict)
    levels: dict[PathName, set[Fraction]] = field(default_factory=dict)
    """Of its workloads, by path."""


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
                declaration, names = declaration_of(record), {made.name for made in state.series_releases(record)}
                series = _Series(record.series_id, declaration, names)
                if declaration.steps is None:
                    series.cells = state.past(record.path_id)
                else:
                    cells = (path for path in record.paths if path.kind == CELLS[0])
                    series.points = {path.workload or "": state.past_points(path.path_id) for path in cells}
                for path in record.paths:
                    if path.kind == "workload":
                        name: PathName = (path.kind, path.workload, path.strategy)
                        series.levels[name] = {level for level, _ in state.past(path.path_id)}
                self._series[record.name] = series

    def outcome(self, statement: Statement) -> Outcome:
        """What a statement would do."""
        runs = {
            "create series": self._create, "append": self._append, "drop series": self._drop,
            "release": self._release,
        }  # fmt: skip
        piece, error, said = statement.piece, None, _NOT_FORESEEN.get(statement.kind, "")
        try:
            if statement.kind in runs:
                said = runs[statement.kind](statement)
        except SparsehistError as problem:
            problem.args = (pointed(str(problem), piece.script, piece.place),)
            said, error = "would be refused", problem
        return Outcome(piece.number, piece.line, statement.kind or "duckdb", said=said, error=error)

    def _drop(self, statement: Statement) -> str:
        ended = self._ledger.ended_by_dropping(statement.name)
        dropped = self._series.pop(statement.name, None)
        if dropped is not None:
            self._ledger = self._ledger.with_dropped(dropped.series_id, datetime.now(UTC))
        return f"{ended}erases the series; what it has cost stays in the ledger"

    def _create(self, statement: Statement) -> str:
        name = statement.name
        if name in self._series:
            return f"keeps the series {name}; spends nothing"
        declaration = declared(statement).declaration
        self._ledger.check_series(
            name, declaration.population, declaration.noise, is_open=declaration.domain.is_open
        )  # fmt: skip
        if declaration.every is not None:
            return f"declares the series {name} of periods; spends nothing"
        if declaration.domain.is_open:
            self._ledger = self._ledger.with_open_series(declaration.population)
        series_id = f"new {len(self._series)} {name} {len(self._ledger.paths)}"
        self._series[name] = _Series(series_id, declaration)
        self._ledger = self._ledger.with_series(cells_of(series_id, declaration))
        if not statement.query:
            return f"declares the running series {name}; spends nothing"
        return f"counts the log into the series {name}; spends nothing"

    def _append(self, statement: Statement) -> str:
        name, asked = statement.name, statement.asked
        if "period" in asked:
            return f"appends the period {asked['period']} to the series {name}; spends nothing"
        series = self._series.get(name)
        if series is None or series.declaration.steps is None:
            raise NotFoundError(f"there is no running series {name}")
        series.declaration.steps.step_of(asked["step"])
        return f"appends step {asked['step']} to the series {name}; spends nothing"

    def _release(self, statement: Statement) -> str:
        asked = statement.asked
        series = self._series.get(asked["series"])
        if series is None:
            raise NotFoundError(f"there is no series {asked['series']}")
        if statement.name in series.names:
            return "was made before; spends nothing"
        if "levels" not in asked:
            raise NotFoundError(f"the series {asked['series']} has no release {statement.name}: AT LEVEL makes one")
        made: CellMetadata | None = None
        if "workload" not in asked:
            made, spends = self._of_cells(series, statement)
        else:
            spends = self._of_workload(series, statement)
        self._ledger.check(*spends)
        before, release = self._spent(series.declaration.population), spends[0]
        self._ledger = self._ledger.with_release(*spends)
        series.names.add(statement.name)
        if "workload" in asked:
            series.levels.setdefault(release.path, set()).add(release.level)
        after = self._spent(series.declaration.population)
        said = f"population {series.declaration.population}: {before} before, {after} after"
        if made is not None:
            bound = made.effective_threshold * series.declaration.unit_of_counts
            if isinstance(made, RunningMetadata):
                from sparsehist.release.totals import RUNNING, Totals

                row = Totals(asked.get("what", RUNNING), made.steps).row(made.step)
                series.points.setdefault(release.path[1] or "", []).append((row, release.level, bound))
            else:
                series.cells.append((release.level, bound))
            if series.declaration.domain.is_open:
                spent, left = made.delta_infinity, made.delta_remaining
                said += f"; of the series' delta {spent:.3g} are spent then and {left:.3g} left"
        return said

    def _of_cells(self, series: _Series, statement: Statement) -> tuple[CellMetadata, tuple[Spending, ...]]:
        """The release as it would stand in the store, but for what only drawing tells."""
        declaration = series.declaration
        request: Any = request_of(declaration, statement)
        if declaration.steps is None:
            metadata = partial(cell_metadata, declaration, past=series.cells)
            return self._prepared(series, CELLS, request, metadata)
        from sparsehist.release import running_round
        from sparsehist.release.totals import RUNNING, Totals

        if "step" not in statement.asked:
            raise NotFoundError(f"{declaration.name} is a running series: a release says AT STEP and AT LEVEL")
        totals = request.what or Totals(RUNNING, present(declaration.n_steps))
        past = series.points.get(totals.workload or "", [])
        public = partial(running_round.running_metadata, declaration, past=past)
        return self._prepared(series, totals.path, replace(request, what=totals), public)

    def _prepared(
        self, series: _Series, path: PathName, request: Any, metadata: Callable[[Any], Any]
    ) -> tuple[Any, tuple[Spending, ...]]:
        return prepared(self._ledger, series.series_id, series.declaration, path, request, metadata)[1:]

    def _of_workload(self, series: _Series, statement: Statement) -> tuple[Spending, ...]:
        request: Any = request_of(series.declaration, statement)
        workload = request.workload
        if workload is None:
            raise NotFoundError("a release of a workload names it")
        if request.strategy == AUTO:  # keeps to the one that was taken before
            taken = (path.path for path in self._ledger.of_series(series.series_id) if path.path[1] == str(workload))
            name = next((str(path[2]) for path in taken), None)
            strategy = (
                chosen_strategy(series.declaration, workload) if name is None else strategy_named(name, workload)
            )
        else:
            strategy = strategy_named(request.strategy, workload)
        path = workload_round.path_name(strategy)
        public = partial(
            workload_round.workload_metadata,
            series.declaration,
            strategy,
            price=workload_round.price_of(series.declaration, strategy),
            past=list(series.levels.get(path, ())),
        )
        return self._prepared(series, path, request, public)[1]

    def _spent(self, population: str) -> str:
        cost = self._ledger.cost_of(self._ledger.of_population(population))
        if cost.amount is not None:
            return f"{cost.currency} {level_text(cost.amount)}" if cost.amount else "nothing"
        return "no sum" if cost.rho is None or math.isinf(cost.rho) else f"rho ≈ {cost.rho:.6g}"
