"""The noise path of a workload: the strategy that answers it, what a round draws, and the answers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from sparsehist.errors import CountsWarning, DeclarationError, LevelError, of_kind, present
from sparsehist.histogram import grid_step
from sparsehist.ledger.arguments import checked_name
from sparsehist.ledger.ledger import PathName
from sparsehist.noise.family import NoiseArray, delta_is_bound, is_linear, sensitivity_norm
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.series.declaration import Declaration
from sparsehist.series.metadata import Request, WorkloadMetadata, level_asked, read_metadata, shared
from sparsehist.series.pipeline import AUTO, Held, adjacent
from sparsehist.series.planning import LEVELS
from sparsehist.series.workload_answers import (
    BY_LOT,
    cell_grid,
    cell_noise,
    check_noise,
    check_possible,
    check_spread,
    checked_steps,
    family_for,
    lots_for,
    measured_grid,
    noisy_answers,
    noisy_cells,
    post_process,
    post_process_cells,
    slack_of,
)
from sparsehist.series.workload_keys import cells_of, column_sizes, key_domains, numbers_of, queries_frame
from sparsehist.store import NewRound, PathRecord
from sparsehist.workload import Identity, Strategy, Workload, choose, compare, next_state, strategy_named

_COLUMNS = ("noisy_answer", "std")
# Answers on the grid fit into the 53 bits of a double as long as the noise does not dwarf any count.
_LARGEST_STD = 2.0**40
_LONG = 2**20
_SCHEMA: dict[str, type] = {
    **dict.fromkeys(("strategy", "level"), str),
    **dict.fromkeys(("std", "lower_bound", "ratio", "sensitivity", "sensitivity_lower"), float),
    "chosen": bool,
}


@dataclass(frozen=True)
class WorkloadRequest(Request):
    """What a caller asked of a release of a workload."""

    kind: ClassVar[str] = "workload"
    needs: ClassVar[str] = "a workload and level="

    workload: Workload | None = None
    strategy: str = AUTO
    post_processing: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        return super().complete and self.workload is not None

    def as_json(self) -> dict[str, Any]:
        workload = None if self.workload is None else str(self.workload)
        steps = None if self.post_processing is None else list(self.post_processing)
        return {"workload": workload, "strategy": self.strategy, **super().as_json(), "post_processing": steps}


def requested(
    declaration: Declaration,
    name: str,
    workload: Workload | str | None,
    *,
    level: Level | EpsilonDelta | None,
    strategy: str | Strategy,
    post_processing: str | Iterable[str] | None,
) -> WorkloadRequest:
    """Check what can be checked without a store."""
    if declaration.most_keys is not None:
        raise DeclarationError(
            f"the series {declaration.name!r} shares the weight of units with many keys (bounding='share'): "
            "workloads need a series with bounding='keep'"
        )
    if declaration.domain.is_open:
        raise DeclarationError(
            "a series with an open domain has no workloads: queries ask about all cells, and those cannot be listed"
        )
    asked = Workload.parse(workload) if isinstance(workload, str) else workload
    if asked is not None and not isinstance(asked, Workload):
        raise DeclarationError(
            f"workload must be a Workload or its text, got {type(workload).__name__}; a matrix is sh.Workload(matrix)"
        )
    check_noise(declaration.family)
    taken = [name for name in declaration.key if name in _COLUMNS]
    if taken:
        raise DeclarationError(
            f"a key column is called {taken[0]!r}, as releases of workloads call theirs: rename it"
        )
    steps = None if post_processing is None else checked_steps(post_processing)
    if asked is not None:
        numbers = list(map(numbers_of, key_domains(declaration.domain), declaration.key))
        asked = asked.of_series(declaration.key, numbers).for_domain(column_sizes(declaration.domain))
        check_possible(asked, steps or ())
    return WorkloadRequest(
        checked_name("release", name),
        **level_asked(level),
        workload=asked,
        strategy=strategy.name if isinstance(strategy, Strategy) else strategy,
        post_processing=steps,
    )


class WorkloadPath:
    """A workload answered by a strategy; the first round opens the path."""

    def __init__(self, held: Held, record: PathRecord | None, strategy: Strategy) -> None:
        """Hold the series; `record` is that of a path that is open."""
        self._held, self._record, self._strategy = held, record, strategy
        self._price = self._first_price()
        self._family = family_for(held.declaration.family, strategy, self._price.sensitivity)
        self._drawn: NoiseArray | None = None  # saves reading what was just written

    @property
    def path_id(self) -> int | None:
        return None if self._record is None else self._record.path_id

    @property
    def name(self) -> PathName:
        return path_name(self._strategy)

    def metadata(self, request: WorkloadRequest) -> WorkloadMetadata:
        spent = [] if self.path_id is None else [known for known, _ in self._held.state.past(self.path_id)]
        return workload_metadata(self._held.declaration, self._strategy, request, self._price, past=spent)

    def statement(self, request: WorkloadRequest, metadata: WorkloadMetadata) -> tuple[str, bool]:
        del metadata
        level = present(request.level)
        return self._family.statement(level), delta_is_bound(self._family, level)

    def draw(self, request: WorkloadRequest, metadata: WorkloadMetadata, *, rng: np.random.Generator) -> NewRound:
        if self._record is None:
            self._strategy.check(rng=rng, probes=3 if self._strategy.workload.n_cells < _LONG else 1)
        state, level = self._held.state, present(request.level)
        spent = set() if self.path_id is None else {known for known, _ in state.past(self.path_id)}
        neighbours = {at: self._state_at(at) for at in adjacent(spent, level)}
        self._drawn = (
            neighbours[level]
            if level in spent
            else next_state(self._family, self._strategy, neighbours, level, rng=rng)
        )
        attached = self._strategy.workload.attachments().values() if self._record is None else ()
        return self._held.new_round(
            self,
            request,
            metadata,
            stored=request.as_json()
            | {"strategy": self._strategy.name, "post_processing": list(metadata.post_processing)},
            level_noise=None if level in spent else self._drawn,
            attachments=[state.write_attachment(self._held.record, ".bin", content) for content in attached],
        )

    def rows(self, level: Fraction, metadata: WorkloadMetadata) -> pl.DataFrame:
        """One row per query, or one row per cell where queries are not listed."""
        noise = self._state_at(level) if self._drawn is None else self._drawn
        declaration, strategy, workload = self._held.declaration, self._strategy, self._strategy.workload
        cells = cells_of(self._held.files, declaration.domain)
        lots = None if metadata.rounding is None else lots_for(self._held.record.salt, self.name, level)
        if not workload.explicit:
            added = cell_noise(self._family, strategy, noise, metadata.cell_grid, lots)
            counts = noisy_cells(cells, added, grid=metadata.grid)
            keys = declaration.domain.keys(np.arange(workload.n_cells, dtype=np.int64))
            noisy = pl.Series("noisy_count", post_process_cells(counts, metadata.post_processing))
            return keys.rename({"key_0": declaration.key[0]}).with_columns(noisy)
        answers = noisy_answers(
            self._family, strategy, noise, cells,
            grid=metadata.grid, by_cell=metadata.cell_grid, measured=metadata.measured_grid, lots=lots,
        )  # fmt: skip
        std = metadata.noise_std * np.sqrt(strategy.query_variance())
        queries = present(workload.queries())
        return queries_frame(queries, declaration.domain, declaration.key).with_columns(
            pl.Series("noisy_answer", post_process(workload, answers, std, metadata.post_processing)),
            pl.Series("std", std),
        )

    def _state_at(self, level: Fraction) -> NoiseArray:
        size = self._strategy.state_size if is_linear(self._family) else self._strategy.n_noise
        return self._held.state.noise(present(self.path_id), level, size)

    def _first_price(self) -> Price:
        """That of the first release: all of a path share its law, and none computes it again."""
        if self.path_id is None:
            return price_of(self._held.declaration, self._strategy)
        first = of_kind(read_metadata(self._held.state.releases(self.path_id)[0].metadata), WorkloadMetadata)
        least, mean = ((std / first.noise_std) ** 2 for std in (first.least_std, first.std))
        return Price(first.sensitivity, first.sensitivity_lower, least, mean)


_ONCE_PER_CELL = "units once per cell they are in, so a sum over cells may count one unit up to max_keys times"


def warn_of_counts(declaration: Declaration, request: WorkloadRequest) -> None:
    """Warn, before anything is drawn, where sums over cells count a unit more than once."""
    if request.workload is None or _counted(declaration, request.workload) == "units":
        return
    warnings.warn(
        f"an answer of {request.workload} is a sum over cells and counts a unit once per cell it is in, up to "
        f"max_keys={declaration.max_keys} times. For distinct units, make a series whose key is only what is asked "
        "about, with max_keys=1 where a unit has one such key",
        CountsWarning,
        stacklevel=3,
    )


def _counted(declaration: Declaration, workload: Workload) -> str:
    """What an answer counts; one of a single cell counts units."""
    return "units" if declaration.max_keys == 1 or isinstance(workload, Identity) else _ONCE_PER_CELL


def path_name(strategy: Strategy) -> PathName:
    """How the ledger names the path of a strategy."""
    return ("workload", str(strategy.workload), strategy.name)


class Price(NamedTuple):
    """What a strategy costs a unit, and what it makes of noise. Public numbers.

    The sensitivity is in the norm of the noise, for the series' max_keys; its lower value is reached by some unit,
    where that is known. Variances, the least of a query that asks anything and the mean of all, are for noise of
    variance 1.
    """

    sensitivity: float
    sensitivity_lower: float | None
    least: float
    mean: float


def price_of(declaration: Declaration, strategy: Strategy) -> Price:
    """Compute the price of a strategy in a series."""
    check_noise(declaration.family)
    if sensitivity_norm(declaration.family) == "l2":
        size, reached = strategy.sensitivity(declaration.max_keys)
        return Price(size, reached, *_variances(strategy))
    return Price(strategy.l1_sensitivity(declaration.max_keys), None, *_variances(strategy))


def workload_metadata(
    declaration: Declaration, strategy: Strategy, request: WorkloadRequest, price: Price, *, past: Sequence[Level]
) -> WorkloadMetadata:
    """Everything that is known of a release before anything is drawn; `past` are the levels released on its path."""
    family, level = family_for(declaration.family, strategy, price.sensitivity), present(request.level)
    noise_std = family.std(level)
    std, mean_std = noise_std * math.sqrt(price.least), noise_std * math.sqrt(price.mean)
    by_cell, grid = cell_grid(strategy, noise_std), grid_step(std)
    added = (std,) if by_cell is None else (std, noise_std)  # what counts get: the noise of a cell, too
    if std < 2.0**-8 or max(added) > _LARGEST_STD:
        raise LevelError(
            f"level {level_text(level)} gives answers a standard deviation of {std:.3g} counts, at "
            f"{noise_std:.3g} for each unit of noise; answers and noise share one grid only where that is from "
            f"{2.0**-8:.3g} to {_LARGEST_STD:.3g}"
        )
    return WorkloadMetadata(
        **shared(declaration),
        name=request.name,
        workload=str(strategy.workload),
        strategy=strategy.name,
        queries=str(strategy.workload.n_queries),
        level=level_text(level),
        noise_std=noise_std,
        std=mean_std,
        least_std=std,
        sensitivity=price.sensitivity,
        sensitivity_lower=price.sensitivity_lower,
        grid=grid,
        cell_grid=by_cell,
        measured_grid=measured_grid(strategy, price.sensitivity),
        threshold=None,
        numerical_slack=slack_of(
            family, strategy, level, declaration.max_keys, sensitivity=price.sensitivity, grid=grid, past=past
        ),
        post_processing=request.post_processing or (),
        counts=_counted(declaration, strategy.workload),
        rounding=BY_LOT,
    )


def open_path(held: Held, request: WorkloadRequest, known: PathRecord | None) -> WorkloadPath:
    """The path of this workload and strategy; "auto" keeps to the one that was chosen before."""
    workload = request.workload
    if known is not None:
        if workload is None:
            content = {file.digest: (held.record.directory / file.name).read_bytes() for file in known.files}
            workload = Workload.parse(str(known.workload), attachments=content)
        return WorkloadPath(held, known, strategy_named(str(known.strategy), workload))
    workload = present(workload)
    strategy = None if request.strategy == AUTO else strategy_named(request.strategy, workload)
    for path in held.record.paths:
        same = path.kind == "workload" and path.workload == str(workload)
        if same and (strategy is None or path.strategy == strategy.name):
            return WorkloadPath(held, path, strategy_named(str(path.strategy), workload))
    if strategy is None:
        strategy = chosen_strategy(held.declaration, workload)
    return WorkloadPath(held, None, strategy)


def _variances(strategy: Strategy) -> tuple[float, float]:
    """The least variance of a query that asks anything, and the mean over all queries, for Z of variance 1."""
    if not strategy.workload.explicit:
        ends = (0, strategy.workload.n_cells // 2)  # a column is scaled least in the middle and most at its ends
        return min(strategy.range_variance(i, i) for i in ends), strategy.mean_variance()
    variance = strategy.query_variance()
    asking = variance[variance > 0]
    if not asking.size:
        raise DeclarationError(f"{strategy.workload.describe()} asks nothing: its matrix is zero")
    check_spread(strategy, float(asking.min()), float(asking.max()))
    return float(asking.min()), float(variance.mean())


def chosen_strategy(declaration: Declaration, workload: Workload) -> Strategy:
    """What "auto" takes: the least mean error at the series' max_keys among what its noise can be added to."""
    check_noise(declaration.family)
    pure = sensitivity_norm(declaration.family) == "l1"
    if not declaration.family.integer:
        return choose(workload, declaration.max_keys, pure=pure)
    for candidate in compare(workload, declaration.max_keys, pure=pure):
        strategy = strategy_named(candidate.strategy, workload)
        if strategy.integral:
            return strategy
    raise DeclarationError(f"no strategy for {workload.describe()} measures whole numbers: take noise='laplace'")


def planned_strategies(
    declaration: Declaration, workload: Workload, levels: Level | Iterable[Level] | None
) -> pl.DataFrame:
    """The table of `Series.plan_workload`."""
    chosen = chosen_strategy(declaration, workload)
    pure = sensitivity_norm(declaration.family) == "l1"
    given = LEVELS if levels is None else levels
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    exact = [as_level(level) for level in listed]
    rows: list[dict[str, object]] = []
    for candidate in compare(workload, declaration.max_keys, pure=pure):
        strategy = strategy_named(candidate.strategy, workload)
        if declaration.family.integer and not strategy.integral:
            continue
        family = family_for(declaration.family, strategy, candidate.sensitivity)
        mean = strategy.mean_variance()
        for level in exact:
            std = family.std(level) * math.sqrt(mean)
            rows.append(
                {
                    "strategy": candidate.strategy,
                    "level": level_text(level),
                    "std": std,
                    "lower_bound": None if candidate.ratio is None else std / math.sqrt(candidate.ratio),
                    "ratio": candidate.ratio,
                    "sensitivity": candidate.sensitivity,
                    "sensitivity_lower": candidate.sensitivity_lower,
                    "chosen": candidate.strategy == chosen.name,
                }
            )
    return pl.DataFrame(rows, schema=_SCHEMA)
