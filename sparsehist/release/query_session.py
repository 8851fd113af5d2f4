"""A session of interactive queries that a store keeps: it goes on wherever it is opened again."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.errors import (
    BudgetExceededError,
    DeclarationError,
    InputError,
    of_kind,
    present,
    raise_alone,
)
from sparsehist.interactive.multiplicative_weights import (
    Weighing,
    WeightedAnswer,
    first_guess,
    updated,
    verdict,
)
from sparsehist.ledger.ledger import INTERACTIVE
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.levels import at_least_zero
from sparsehist.release import pipeline
from sparsehist.release.home import Home
from sparsehist.release.metadata import InteractiveMetadata, read_metadata
from sparsehist.release.pipeline import Held
from sparsehist.release.query_path import (
    QueryPath,
    QueryRequest,
    Update,
    bits,
    cell_counts,
    check_possible,
    next_update,
    opened,
    started_from,
    updates_of,
    weighing,
)
from sparsehist.store import PathRecord, SeriesRecord

_ASKED = "is this cell asked for"
_ANSWERS = {"update": pl.Int64, "value": pl.Int64}
_PLAN: dict[str, type[pl.DataType]] = {
    "level": pl.String,
    "accuracy": pl.String,
    "updates": pl.Int64,
    "error": pl.Float64,
    "std": pl.Float64,
    "failure": pl.Float64,
}


class QuerySession:
    """Predicates over the keys of a series, answered as they come to mind; `Series.interactive` opens it.

    The whole session was charged when it opened. Every answer that is measured, with the hypothesis that comes of it,
    is committed before it is returned: a process that dies loses nothing that left it, and a session that is opened
    again, here or elsewhere, goes on where it was. A predicate that was measured is answered alike ever after, free.

    The counts of all cells are kept in memory; nothing else of the store is held between calls.
    """

    def __init__(self, home: Home, declaration: Declaration, series_id: str, request: QueryRequest) -> None:
        """Use `Series.interactive` instead."""
        self._home, self._declaration, self._series_id, self._name = home, declaration, series_id, request.name
        self._lock = threading.Lock()
        self._seen = -1
        self._updates: dict[bytes, Update] = {}
        self._files: set[str] = set()
        self._unpaid: tuple[bytes, int, bool] | None = None
        domain = declaration.domain
        self._keys = domain.keys(np.arange(domain.size, dtype=np.int64))
        self._keys.columns = list(declaration.key)
        with self._holding() as before:
            self._counts = cell_counts(before.files, domain)
            made = pipeline.release(before, request, self._open_path)
            self._about = of_kind(read_metadata(made.metadata), InteractiveMetadata)
            held = self._again(before)
            own = self._own(held.record)
            self._threshold_noise, self._mass = opened(held, own, as_level(self._about.level))
            self.parameters: Weighing = weighing(declaration, self._about, self._mass)
            self._first = self._hypothesis = first_guess(self.parameters, started_from(held, own))
            self._pulls = np.zeros(self.parameters.cells)
            self._refresh(held)

    @property
    def name(self) -> str:
        """Of the session, unique among the releases of its series."""
        return self._about.name

    @property
    def metadata(self) -> dict[str, object]:
        """Public parameters of the session."""
        return self._about.as_dict()

    @property
    def updates_left(self) -> int:
        """How many more answers can be measured, as of the last call."""
        return self.parameters.updates - len(self._files)

    @property
    def answers(self) -> pl.DataFrame:
        """What was measured so far: update (0 is the mass, where that was measured) and value, in counts."""
        values = {} if self._about.mass is not None else {0: self._mass}
        values |= {update.number: update.value for update in self._updates.values()}
        return pl.DataFrame({"update": list(values), "value": list(values.values())}, schema=_ANSWERS)

    @property
    def hypothesis(self) -> pl.DataFrame:
        """All cells as the answers so far have them: the keys and `estimate`, in counts. Public."""
        return self._keys.with_columns(estimate=self._hypothesis * self._mass)

    def ask(self, predicate: pl.Expr) -> WeightedAnswer:
        """The number of units in the cells where a predicate holds (a unit in several cells counts in each).

        Args:
            predicate: A Polars expression over the key columns that is true, false or null (as false) for each key,
                such as `pl.col("browser").is_in(["a", "b"]) & (pl.col("day") > 3)`. Public.

        Returns:
            Value, error and whether it was measured.

        Raises:
            DeclarationError: If it is not such an expression.
            BudgetExceededError: If all updates are used up.
            NotFoundError: If the series was dropped.
            StoreInUseError: If another process or thread holds the store.
            StoreError: If a measured answer cannot be committed. It is committed by the next call then, before
                anything else is asked.
        """
        packed = self._bits(predicate)
        # The store is held before anything is compared: whether that can be done must not depend on the truth.
        with self._lock, self._holding() as before:
            self._refresh(before)
            held = before if self._unpaid is None else self._measure(before, self._unpaid)
            if packed not in self._updates:
                self._check_left()
                weights = bits(packed, self.parameters.cells)
                guess, truth = self._mass * float(weights @ self._hypothesis), int(weights @ self._counts)
                found = verdict(guess, truth, float(self.parameters.threshold) + self._threshold_noise, self._noise)
                if found is None:
                    return WeightedAnswer(guess, self.parameters.error, fresh=False, updates_left=self.updates_left)
                self._measure(held, (packed, truth, found == "high"))
            value = float(self._updates[packed].value)
            return WeightedAnswer(value, self.parameters.error, fresh=True, updates_left=self.updates_left)

    def __repr__(self) -> str:
        """Public parameters only."""
        return (
            f"QuerySession({self.name!r} of {self._declaration.name!r}, level={self._about.level}, "
            f"error={self.parameters.error:g}, updates_left={self.updates_left})"
        )

    def __reduce__(self) -> NoReturn:
        raise InputError("a QuerySession holds true counts and cannot be copied: open the session again by its name")

    def _check_left(self) -> None:
        if not self.updates_left:
            raise BudgetExceededError(
                f"all {self.parameters.updates} updates of {self.name!r} are used up, and with them its level of "
                f"{self._about.level}; its hypothesis stays readable, and what was measured is answered again"
            )

    def _noise(self) -> float:
        """Of a check, in counts; drawn when it is needed, so that no two processes ever hold the same."""
        drawn = self.parameters.noise(4).sample(1, self.parameters.levels[0], rng=self._home.generator())
        return float(drawn[0])

    def _measure(self, held: Held, unpaid: tuple[bytes, int, bool]) -> Held:
        """Commit the update that a comparison called for.

        Whoever sees that fail knows what the comparison said; so the next call begins with it.
        """
        self._unpaid = unpaid
        if unpaid[0] not in self._updates and self.updates_left:
            pipeline.release(held, next_update(self._about, len(self._files) + 1, unpaid), self._open_path)
            held = self._again(held)
            self._refresh(held)
        self._unpaid = None
        return held

    def _holding(self) -> AbstractContextManager[Held]:
        return pipeline.holding(self._home, self._declaration, self._series_id)

    def _again(self, held: Held) -> Held:
        """The series with what was committed since it was read."""
        return replace(held, record=present(held.state.series(self._declaration.name)))

    def _open_path(self, held: Held, request: QueryRequest, known: PathRecord | None) -> QueryPath:
        if request.measured is None:
            return QueryPath(held, known, request.session, self._counts)
        return QueryPath(held, self._own(held.record), request.session, self._counts, self._about)

    def _own(self, record: SeriesRecord) -> PathRecord:
        return next(path for path in record.paths if (path.kind, path.workload) == (INTERACTIVE, self._name))

    def _refresh(self, held: Held) -> None:
        """Take over what was committed since, here or by another process."""
        if held.state.generation == self._seen:
            return
        added = updates_of(held, self._own(held.record), self._files)
        for file, update in added:
            self._files.add(file)
            self._updates[update.packed] = update
            self._pulls += update.pull(self.parameters.cells)
            self._threshold_noise = update.threshold_noise
        if added:
            self._hypothesis = updated(self._first, self._pulls, 8 * float(self.parameters.alpha))
        self._seen = held.state.generation

    def _bits(self, predicate: pl.Expr) -> bytes:
        """A predicate as one bit per cell."""
        columns = ", ".join(self._declaration.key)
        if not isinstance(predicate, pl.Expr):
            raise DeclarationError(
                f"a predicate is a Polars expression over {columns}, got {type(predicate).__name__}"
            )
        try:
            asked = self._keys.with_columns(predicate.alias(_ASKED)).get_column(_ASKED)
        except pl.exceptions.PolarsError as problem:
            raise_alone(DeclarationError(f"the predicate cannot be asked of {columns}: {problem}"))
        if asked.dtype != pl.Boolean:
            raise DeclarationError(f"a predicate is true or false for each key, but this one gives {asked.dtype}")
        return np.packbits(asked.fill_null(value=False).to_numpy()).tobytes()


def plan_queries(
    declaration: Declaration,
    levels: Level | Iterable[Level],
    accuracies: Level | Iterable[Level],
    *,
    mass: int,
    queries: int,
    most_updates: int | None,
    started: bool,
) -> pl.DataFrame:
    """The table of `Series.plan_interactive`."""
    check_possible(declaration)
    rows = []
    for level in _listed(levels):
        for accuracy in _listed(accuracies):
            request = QueryRequest("plan", as_level(level), at_least_zero(accuracy, "accuracy"), mass, most_updates)
            parameters = replace(weighing(declaration, request), started=started)
            rows.append(
                {
                    "level": level_text(as_level(level)),
                    "accuracy": level_text(4 * parameters.alpha),
                    "updates": parameters.updates,
                    "error": parameters.error,
                    "std": parameters.noise(1).std(parameters.levels[1]),
                    "failure": parameters.failure(queries),
                }
            )
    return pl.DataFrame(rows, schema=_PLAN)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
