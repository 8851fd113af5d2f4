"""What a script would spend, statement by statement, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sparsehist.accounting.ledger import cost_of_paths
from sparsehist.accounting.limits import Budget, Limits
from sparsehist.accounting.spending import check_budget
from sparsehist.errors import CapExceededError, NotFoundError, SparsehistError
from sparsehist.privacy import as_level, level_text
from sparsehist.series.declaration import Declaration, declaration_of
from sparsehist.series.metadata import read_metadata
from sparsehist.series.store_handle import Store
from sparsehist.sqlfront.declaring import declared
from sparsehist.sqlfront.heads import CreateSeries, DropSeries, MakeRelease, Statement
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.script import pointed
from sparsehist.store import ReleaseRecord, is_store

Path = dict[str, Any]


class Foreseen:
    """The ledger of a store, carried on over statements that are not run.

    Args:
        store: Where they would run; None or a place without a store for an empty ledger.
    """

    def __init__(self, store: Store | None) -> None:
        self._paths: list[Path] = []
        self._declared: dict[str, Declaration] = {}
        self._caps: dict[str, Fraction | None] = {}
        self._ids: dict[str, str] = {}
        self._made: dict[str, set[str]] = {}
        self._rounds: dict[str, list[ReleaseRecord]] = {}
        self._limits: Limits | None = None
        if store is None or not is_store(store.path):
            return
        with store._hold() as state:
            self._paths = state.ledger().to_dicts()
            self._limits = limits = Limits(state.events())
            for record in state.all_series():
                declaration = declaration_of(record)
                self._add(declaration, record.series_id)
                cap = None if declaration.cap is None else level_text(declaration.cap)
                self._caps[record.name] = limits.cap(record.series_id, cap, None).now
                self._made[record.name] = {release.name for release in state.series_releases(record)}
                self._rounds[record.name] = list(state.releases(record.path_id))

    def outcome(self, statement: Statement) -> Outcome:
        """What a statement would do."""
        piece, head = statement.piece, statement.head
        kind, said = "duckdb", "not run"
        error: SparsehistError | None = None
        if isinstance(head, CreateSeries):
            kind, said = "create series", self._create(piece.script, head)
        elif isinstance(head, DropSeries):
            kind, said = "drop series", "erases the series; what it has cost stays in the ledger"
            self._declared.pop(head.name, None)
        elif isinstance(head, MakeRelease) and head.only_plan:
            kind, said = "plan", "spends nothing"
        elif isinstance(head, MakeRelease):
            kind = "release"
            try:
                said = self._release(head)
            except SparsehistError as problem:
                problem.args = (pointed(str(problem), piece.script, piece.place),)
                said, error = "would be refused", problem
        elif head is not None:
            kind = "show"
        return Outcome(piece.number, piece.line, kind, said=said, error=error)

    def _add(self, declaration: Declaration, series_id: str) -> None:
        self._declared[declaration.name] = declaration
        self._caps[declaration.name] = declaration.cap
        self._ids[declaration.name] = series_id
        self._made[declaration.name] = set()
        self._rounds[declaration.name] = []

    def _create(self, script: str, head: CreateSeries) -> str:
        if head.name in self._declared:
            return f"keeps the series {head.name}; spends nothing"
        self._add(declared(script, head).declaration, f"new {head.name}")
        return f"counts the log into the series {head.name}; spends nothing"

    def _release(self, head: MakeRelease) -> str:
        declaration = self._declared.get(head.series)
        if declaration is None:
            raise NotFoundError(f"there is no series {head.series}")
        if head.name in self._made[head.series]:
            return "was made before; spends nothing"
        if not head.levels:
            raise NotFoundError(f"the series {head.series} has no release {head.name}: AT LEVEL makes one")
        level, of_cells = as_level(head.levels[0]), head.workload is None
        round_made = _round(head, declaration, self._rounds[head.series]) if of_cells else None
        before, paths_before = self._of_population(declaration), [dict(path) for path in self._paths]
        path = self._path(declaration, head)
        was = dict(path)
        path["level"] = level_text(max(level, as_level(was["level"])) if was["level"] else level)
        if round_made is not None:
            committed = read_metadata(round_made.metadata)
            path["delta_infinity"] = committed.delta_spent
            path["numerical_slack"] += committed.numerical_slack
        try:
            self._check_cap(declaration)
            check_budget(self._budget(declaration.population), paths_before, self._paths, declaration.population)
        except SparsehistError:
            path |= was
            raise
        self._made[head.series].add(str(head.name))
        after = self._of_population(declaration)
        said = f"population {declaration.population}: {before} before, {after} after"
        if round_made is not None:
            self._rounds[head.series].append(round_made)
            if declaration.domain.is_open:
                said += _of_delta(round_made)
        return said

    def _path(self, declaration: Declaration, head: MakeRelease) -> Path:
        """The noise path of a release, opened if it is new."""
        name = {"kind": "cells", "workload": None} if head.workload is None else _workload(head, declaration)
        series_id = self._ids[declaration.name]
        for path in self._paths:
            if path["series_id"] == series_id and all(path[field] == value for field, value in name.items()):
                return path
        new = (
            {"strategy": None}
            | name
            | {
                "series_id": series_id,
                "population": declaration.population,
                "family": declaration.noise,
                "level": None,
                "max_keys": declaration.max_keys,
                "delta_infinity": 0.0,
                "numerical_slack": 0.0,
            }
        )
        self._paths.append(new)
        return new

    def _check_cap(self, declaration: Declaration) -> None:
        cap = self._caps[declaration.name]
        series_id = self._ids[declaration.name]
        cost = cost_of_paths([path for path in self._paths if path["series_id"] == series_id])
        if cap is not None and cost.amount is not None and cost.amount > cap:
            raise CapExceededError(
                f"the series would have spent {level_text(cost.amount)}, its cap is {level_text(cap)}, "
                f"difference {level_text(cost.amount - cap)}"
            )

    def _budget(self, population: str) -> Budget | None:
        return None if self._limits is None else self._limits.budget(population, None).now

    def _of_population(self, declaration: Declaration) -> str:
        cost = cost_of_paths([path for path in self._paths if path["population"] == declaration.population])
        if cost.amount is not None:
            return f"{cost.currency} {level_text(cost.amount)}" if cost.amount else "nothing"
        return "no sum" if cost.rho is None else f"rho ≈ {cost.rho:.6g}"


def _round(head: MakeRelease, declaration: Declaration, made: Sequence[ReleaseRecord]) -> ReleaseRecord:
    """The release as it would stand in the store, but for what only drawing tells."""
    from sparsehist.series.cell_parameters import cell_metadata
    from sparsehist.series.request import requested

    request = requested(
        str(head.name),
        level=head.levels[0],
        threshold=head.threshold,
        false_keys=head.false_keys,
        delta=head.delta,
    )
    metadata = cell_metadata(declaration, request, made)
    return ReleaseRecord(
        path_id=0,
        name=request.name,
        level=as_level(head.levels[0]),
        threshold=metadata.effective_threshold,
        request=request.as_json(),
        metadata=metadata.as_dict(),
        generation=0,
        released=datetime.now(UTC),
        n_tracked=0,
    )


def _of_delta(made: ReleaseRecord) -> str:
    spent, left = made.metadata["delta_infinity"], made.metadata["delta_remaining"]
    return f"; of the series' delta {spent:.3g} are spent then and {left:.3g} left"


def _workload(head: MakeRelease, declaration: Declaration) -> Path:
    """What names a workload's path in the ledger; a strategy that is not given is the one that was taken before."""
    from sparsehist.series.workload_round import requested
    from sparsehist.workload import strategy_named

    asked = requested(
        declaration,
        str(head.name),
        head.workload,
        level=None,
        strategy=head.strategy or "auto",
        post_processing=None,
    ).workload
    assert asked is not None
    strategy = {} if head.strategy in (None, "auto") else {"strategy": strategy_named(str(head.strategy), asked).name}
    return {"kind": "workload", "workload": str(asked), **strategy}
