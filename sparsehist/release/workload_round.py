"""Make releases of workloads: choose a strategy, draw the noise, and round the answers.

A rounded answer must reveal no more than the noisy answer. If the strategy adds noise to each cell, this noise is
rounded to a grid that contains all integers, and only then are cells summed. Otherwise, the noise of each answer is
rounded, or the noisy answer itself if exact answers are not integers. Rounding is up or down at random, so that
the mean stays the same (docs/mathematics.md, "Numerical slack").
"""

from __future__ import annotations

import hashlib
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.domain import Domain, Product
from sparsehist.entropy import generator
from sparsehist.errors import CountsWarning, DeclarationError, of_kind, present, shown
from sparsehist.histogram import count_near, grid_step, numerical_slack, round_to_grid
from sparsehist.ledger.spent import PathName
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.cell_parameters import LAZILY
from sparsehist.release.home import Home
from sparsehist.release.metadata import (
    LEVELS,
    Levels,
    Request,
    WorkloadMetadata,
    check_std,
    checked_levels,
    read_metadata,
)
from sparsehist.release.pipeline import AUTO, LockedSeries, NoisePath, ledger_for, level_for
from sparsehist.release.releases import as_keys
from sparsehist.store import NewRound
from sparsehist.store.private_files import verified
from sparsehist.store.series_files import SeriesFiles
from sparsehist.store.support import ROUNDING, salt_for
from sparsehist.typing import FloatArray, Generator, IntArray
from sparsehist.workload import (
    Cells,
    Identity,
    Strategy,
    Workload,
    answers_of_state,
    cells_of_state,
    choose,
    compare,
    next_state,
    state_size,
    strategy_named,
)
from sparsehist.workload.queries.workload import AnswerArray, KeyNumbers

_ROWS = ".rows"
# If the standard deviation of noise is between these limits, noisy answers fit in the 53-bit significand of a double.
_LEAST_STD, _LARGEST_STD = 2.0**-8, 2.0**40
# All answers are rounded to the same grid, so the ratio of the standard deviations of two answers is limited.
_FARTHEST = 2.0**30
# Keys are numbered only in columns with fewer possible keys than this; most columns of strings have more.
_NUMBERED = 2**63
# In a query, this number stands for all keys of a column: the query sums over them.
_ALL_VALUES = -1
_SCHEMA = {"strategy": str, "level": str, "std": float, "ratio": float, "sensitivity": float, "chosen": bool}


@dataclass(frozen=True)
class WorkloadRequest(Request):
    """The parameters of a release of a workload."""

    kind: ClassVar[str] = "workload"

    workload: Workload | None = None
    strategy: str = AUTO

    @property
    def missing(self) -> list[str]:
        return [*(["workload="] if self.workload is None else []), *super().missing]

    def as_json(self) -> dict[str, Any]:
        workload = None if self.workload is None else str(self.workload)
        return {"workload": workload, "strategy": self.strategy, **super().as_json()}


def requested(
    declaration: Declaration,
    name: str,
    levels: Mapping[str, Any] | None = None,
    *,
    workload: Workload | str | None = None,
    strategy: str | Strategy | None = None,
) -> WorkloadRequest:
    """Check the parameters of a workload release without a store, and return them as a request."""
    if declaration.shares is not None:
        raise DeclarationError("workloads need a series with bounding='keep'")
    if declaration.domain.is_open:
        raise DeclarationError("workloads need a closed domain, because the cells of an open domain cannot be listed")
    if declaration.family.norm is None:
        raise DeclarationError(
            f"workloads need noise='gaussian', 'laplace' or 'discrete_laplace', got {declaration.noise!r}"
        )
    if taken := {"noisy_answer", "std"}.intersection(declaration.key):
        raise DeclarationError(
            "a key column has the same name as a column of workload releases: rename the key column; the name is "
            f"{min(taken)!r}"
        )
    if workload is not None:
        workload = Workload.parse(workload) if isinstance(workload, str) else workload
        if not isinstance(workload, Workload):
            raise DeclarationError(f"workload must be a Workload or its text, got {type(workload).__name__}")
        columns = dict(zip(declaration.key, key_domains(declaration.domain), strict=True))
        keys = {column: numbers_of(domain, column) for column, domain in columns.items()}
        workload = workload.for_domain(tuple(domain.size for domain in columns.values()), keys)
    word = strategy.name if isinstance(strategy, Strategy) else strategy or AUTO
    return WorkloadRequest(checked_name("release", name), **levels or {}, workload=workload, strategy=word)


@dataclass(frozen=True, repr=False)
class WorkloadPath(NoisePath):
    """The noise path of a workload and its strategy; the first release adds the path to the store."""

    strategy: Strategy

    @cached_property
    def name(self) -> PathName:
        return path_name(self.strategy)

    @cached_property
    def _price(self) -> Price:
        """Sensitivity and variances of the strategy: read from the first release; for a new path, computed."""
        if self.path_id is None:
            return price_of(self.locked.declaration, self.strategy)
        releases = self.locked.state.releases(self.locked.record, path_id=self.path_id)
        first = of_kind(read_metadata(releases[0].metadata), WorkloadMetadata)
        least, mean = ((std / first.noise_std) ** 2 for std in (first.least_std, first.std))
        return Price(first.sensitivity, least, mean)

    @property
    def _family(self) -> Family:
        return family_for(self.locked.declaration.family, self.strategy, self._price.sensitivity)

    def metadata(self, request: WorkloadRequest) -> WorkloadMetadata:
        return workload_metadata(self.locked.declaration, self.strategy, request, self._price, past=self.spent)

    def statement(self, request: WorkloadRequest, _metadata: WorkloadMetadata) -> str:
        return f"{self._family.statement(present(request.level))}; {LAZILY}"

    def draw(self, request: WorkloadRequest, metadata: WorkloadMetadata, *, rng: np.random.Generator) -> NewRound:
        """Draw the noise of a release, compute the noisy answers, and write the answers to a file in the store."""
        state, level, family = self.locked.state, present(request.level), self._family
        neighbours = self.neighbours(level, state_size(family, self.strategy))
        noise = neighbours.get(level)
        if noise is None:
            noise = next_state(family, self.strategy, neighbours, level, rng=rng)
        cells = cells_of(self.locked.files, self.locked.declaration.domain)
        lots = lots_for(self.locked.record.salt, self.name, level)
        answers = noisy_answers(
            family, self.strategy, noise, cells, grid=metadata.grid, by_cell=metadata.cell_grid, lots=lots
        )
        content = io.BytesIO()
        self._frame(answers, metadata).write_parquet(content)
        file = state.write_attachment(self.locked.record, _ROWS, content.getvalue())
        return self.new_round(
            request,
            metadata,
            stored=request.as_json() | {"strategy": self.strategy.name, "rows": file.name},
            level_noise=None if level in neighbours else noise,
            attachments=[file],
        )

    def _frame(self, answers: AnswerArray, metadata: WorkloadMetadata) -> pl.DataFrame:
        """Return one row per query, or one row per cell if the workload is not listed."""
        workload, domain, key = self.strategy.workload, self.locked.declaration.domain, self.locked.declaration.key
        if not workload.explicit:
            cells = domain.keys(np.arange(workload.n_cells, dtype=np.int64)).rename({"key_0": key[0]})
            return cells.with_columns(noisy_count=answers)
        std = metadata.noise_std * np.sqrt(self.strategy.variance())
        return queries_frame(present(workload.queries()), domain, key).with_columns(noisy_answer=answers, std=std)

    def rows(self, _level: Fraction, metadata: WorkloadMetadata) -> pl.DataFrame:
        """Read the stored rows of a committed release."""
        stored = present(self.locked.state.release_named(self.locked.record, metadata.name)).request["rows"]
        file = next(file for file in present(self.record).files if file.name == stored)
        return pl.read_parquet(io.BytesIO(verified(self.locked.record.directory, file)))


_ONCE_PER_CELL = (
    "each unit once per cell, so a sum over cells may count one unit up to max_keys times; cells of a unit beyond "
    "max_keys are missing"
)


def warn_of_counts(declaration: Declaration, request: WorkloadRequest) -> None:
    """Warn, before noise is drawn, if sums over cells may count a unit more than once or miss some of its cells."""
    if request.workload is None or _counted(declaration, request.workload) == "units":
        return
    warnings.warn(
        f"answers of {request.workload.describe()} count {_ONCE_PER_CELL}. For distinct units, create a series whose "
        "key has only the columns that the workload needs, with max_keys=1 if a unit has only one such key",
        CountsWarning,
        stacklevel=4,
    )


def _counted(declaration: Declaration, workload: Workload) -> str:
    """Return in words what an answer counts: distinct units, or pairs of a unit and a cell that it touched."""
    return "units" if declaration.most_touched == 1 or isinstance(workload, Identity) else _ONCE_PER_CELL


def path_name(strategy: Strategy) -> PathName:
    """Return the name of a strategy's noise path in the ledger."""
    return ("workload", str(strategy.workload), strategy.name)


class Price(NamedTuple):
    """Public sensitivity of a strategy, and variances of the noisy answers if each noise value has variance 1."""

    sensitivity: float  # sensitivity for units with max_keys cells: in L2 for Gaussian noise, otherwise in L1
    least: float  # smallest variance of an answer, except for answers without noise
    mean: float  # mean variance of all answers


def price_of(declaration: Declaration, strategy: Strategy) -> Price:
    """Return the `Price` of a strategy for a series; raise an error if every answer would be 0."""
    in_l2 = declaration.family.norm == "l2"
    size = strategy.l2(declaration.most_touched) if in_l2 else strategy.l1(declaration.most_touched)
    if not strategy.workload.explicit:
        # In the workload of all ranges, the count of the first or of the middle cell has the least variance.
        cells = np.array([0, strategy.workload.n_cells // 2])
        return Price(size, float(strategy.range_variances(cells, cells).min()), strategy.mean_variance())
    variance = strategy.variance()
    nonzero = variance[variance > 0]
    if not nonzero.size:
        raise DeclarationError(f"every answer would be 0, because the matrix is zero: {strategy.workload.describe()}")
    least, spread = float(nonzero.min()), math.sqrt(float(nonzero.max() / nonzero.min()))
    if spread > _FARTHEST and not (strategy.invertible or strategy.workload.integral):
        raise DeclarationError(
            "the standard deviations of two answers differ too much to round both to one grid: release separate "
            f"workloads, or use strategy='identity'; the ratio is {spread:.3g}, got {strategy.workload.describe()}"
        )
    return Price(size, least, float(variance.mean()))


def workload_metadata(
    declaration: Declaration, strategy: Strategy, request: WorkloadRequest, price: Price, *, past: Sequence[Level]
) -> WorkloadMetadata:
    """Return the metadata of a workload release, before noise is drawn; `past` has the levels already released."""
    family, level = family_for(declaration.family, strategy, price.sensitivity), present(request.level)
    noise_std = family.std(level)
    std, by_cell = noise_std * math.sqrt(price.least), cell_grid(strategy, noise_std)
    # Check the standard deviation of the answers and, if each cell gets noise, also that of the cells.
    added = (std,) if by_cell is None else (std, noise_std)
    check_std(std if std < _LEAST_STD else max(added), _LEAST_STD, _LARGEST_STD, "counts")
    return WorkloadMetadata(
        declaration=declaration,
        name=request.name,
        workload=str(strategy.workload),
        strategy=strategy.name,
        level=level_text(level),
        noise_std=noise_std,
        std=noise_std * math.sqrt(price.mean),
        least_std=std,
        sensitivity=price.sensitivity,
        grid=grid_step(std),
        cell_grid=by_cell,
        threshold=None,
        numerical_slack=slack_of(family, strategy, level, declaration.most_touched, least=price.least, past=past),
        counts=_counted(declaration, strategy.workload),
    )


def open_path(locked: LockedSeries, request: WorkloadRequest) -> WorkloadPath:
    """Return the noise path of a requested release, whether this release exists already or is new.

    With the strategy "auto", a new release shares the path and the strategy of earlier releases of its workload. If
    there are none, the best strategy is chosen.
    """
    record = locked.state.release_named(locked.record, request.name)
    for path in locked.record.paths:
        same = path.kind == "workload" and path.workload == str(request.workload) and request.strategy == AUTO
        if same if record is None else path.path_id == record.path_id:
            return WorkloadPath(locked, strategy_named(str(path.strategy), Workload.parse(str(path.workload))))
    workload, name = present(request.workload), request.strategy
    return WorkloadPath(locked, chosen_strategy(locked.declaration, workload, name))


def key_domains(domain: Domain) -> tuple[Domain, ...]:
    """Return the domain of each key column."""
    return domain.components if isinstance(domain, Product) else (domain,)


def numbers_of(domain: Domain, name: str) -> KeyNumbers:
    """Return a function that turns a caller's keys of the column `name` into their indexes in the domain."""

    def numbers(keys: Sequence[Any]) -> IntArray:
        if domain.size >= _NUMBERED:
            raise DeclarationError(f"{domain.describe()} has too many keys for ranges of {name}")
        frame = pl.DataFrame({"key_0": as_keys(keys, domain.dtypes[0], name, DeclarationError)})
        inside = domain.contains(frame)
        if not inside.all():
            key = shown(keys[int(np.argmin(inside))])
            raise DeclarationError(f"{key} is not a key of {name}: {domain.describe()}")
        return domain.index(frame)

    return numbers


def cells_of(files: SeriesFiles, domain: Domain) -> Cells:
    """Read the nonempty cells of a series and their bounded counts from the counts file. The result is secret."""
    counted, columns = files.all_counted(), key_domains(domain)
    coordinates = tuple(
        # If a column has too many possible keys, queries can only sum over all of its keys. Then use index 0.
        np.zeros(counted.height, np.int64)
        if column.size >= _NUMBERED
        else column.index(counted.select(pl.col(f"key_{i}").alias("key_0")))
        for i, column in enumerate(columns)
    )
    sizes = tuple(column.size for column in columns)
    return Cells(sizes, coordinates, counted["count"].to_numpy().astype(np.int64, copy=False))


def queries_frame(queries: Mapping[str, IntArray], domain: Domain, names: Sequence[str]) -> pl.DataFrame:
    """Return a frame that describes each query, with keys in place of their indexes in the domain.

    For ranges of a single key column, the frame has the columns low and high. For other queries, it has the key
    columns (null if a query sums over the column), columns such as day_low and day_high, or only the query's index.
    """
    columns = key_domains(domain)
    described = {end: (end, columns[0]) for end in ("low", "high") if len(columns) == 1}
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        described |= {f"column_{i}": (name, column)}
        described |= {f"{end}_{i}": (f"{name}_{end}", column) for end in ("low", "high")}
    if set(queries) <= set(described) and len({described[kind][0] for kind in queries}) == len(queries):
        return pl.DataFrame([_values(numbers, *described[kind]) for kind, numbers in queries.items()])
    return pl.DataFrame(dict(queries))


def _values(numbers: IntArray, name: str, domain: Domain) -> pl.Series:
    has_value = numbers != _ALL_VALUES
    if not has_value.any():
        return pl.Series(name, [None] * len(numbers), dtype=domain.dtypes[0])
    values = domain.keys(np.where(has_value, numbers, 0))["key_0"]
    return values.scatter(np.flatnonzero(~has_value), None).alias(name)


def family_for(family: Family, strategy: Strategy, sensitivity: float) -> Family:
    """Scale a noise family to the sensitivity of R·x. Raise an error if answers would have rounding errors."""
    if family.integer and not strategy.integral:
        raise DeclarationError(
            "integer noise needs a strategy with integer weights: use strategy='auto', which chooses one; got "
            f"{type(family).__name__} and the strategy {strategy.name}"
        )
    if not (strategy.workload.integral or strategy.invertible):
        raise DeclarationError(
            "queries with fractional weights need a strategy that measures all cells, such as 'identity'; for less "
            "noise, multiply all weights by a number that makes them whole numbers, and divide the answers; got the "
            f"strategy {strategy.name}"
        )
    remade: Callable[..., Family] = replace
    return remade(family, sensitivity=round(sensitivity) if family.integer else sensitivity)


def cell_grid(strategy: Strategy, noise_std: float) -> float | None:
    """Return the grid to which the noise of each cell is rounded; None if answers are rounded instead.

    1 is a multiple of the grid step, so counts plus rounded noise are on the grid. The step is so small that random
    rounding adds less than 7e-4 of the noise's variance to any answer. Proof: let Z have variance 1, and let a be a
    row of A. The noise of the answer a·x has variance a·(RᵀR)⁻¹·aᵀ, which is at least a·aᵀ divided by the largest
    eigenvalue of RᵀR. Rounding adds a variance of grid²·a·aᵀ/6, and grid² is at most 1/256 divided by this
    eigenvalue.
    """
    if not strategy.invertible:
        return None
    trace = strategy.workload.n_cells * strategy.l2(1) ** 2
    return grid_step(noise_std / math.sqrt(min(trace, strategy.largest_eigenvalue())))


def slack_of(
    family: Family, strategy: Strategy, level: Level, touched: int, *, least: float, past: Sequence[Level]
) -> float:
    """Return the numerical slack of a workload release.

    If the noise of cells is rounded, return the slack of all noisy cells, and otherwise that of all noisy answers.
    `least` is the least variance of an answer if Z has variance 1. `past` contains the levels released on this path.
    """
    std, near, workload = family.std(level), count_near(past, level), strategy.workload
    if strategy.word == "identity":  # only the cells of one unit differ between neighbours
        return numerical_slack(min(touched, workload.n_cells), std, grid_step(std), near=near)
    grid = cell_grid(strategy, std)
    if grid is None:
        number, variance, grid = workload.n_queries, strategy.mean_variance(), grid_step(std * math.sqrt(least))
    else:
        number, variance = workload.n_cells, strategy.cell_variance()
    return numerical_slack(number, std * math.sqrt(variance), grid, near=near, terms=strategy.n_noise)


def noisy_answers(
    family: Family,
    strategy: Strategy,
    noise: NoiseArray,
    cells: Cells,
    *,
    grid: float,
    by_cell: float | None,
    lots: Generator,
) -> AnswerArray:
    """Return noisy answers A·x + L·Z, rounded to the grid; shape (queries,). `by_cell` is the result of `cell_grid`.

    If the workload is not listed, return noisy cells instead, shape (cells,): an answer is their sum over a range. In
    this case, the prefix sums of the noise are rounded to the grid, so an answer has only two rounding errors.
    """
    workload = strategy.workload
    if by_cell is None and workload.explicit:
        return workload.answers(cells) + rounded(answers_of_state(family, strategy, noise), grid, lots)
    added, counts = cells_of_state(family, strategy, noise), cells.dense().reshape(-1)
    if by_cell is not None:
        added = rounded(added, by_cell, lots)
    if workload.explicit:
        return round_to_grid(workload.apply(counts + added), grid)
    return np.asarray(counts + np.diff(round_to_grid(np.cumsum(added), grid), prepend=0.0), np.float64)


def lots_for(secret: bytes, path: PathName, level: Level) -> Generator:
    """Return a generator for random rounding. Its secret seed depends only on store, noise path and level."""
    text = "\n".join((*map(str, path), level_text(as_level(level))))
    key = hashlib.blake2b(text.encode(), key=salt_for(ROUNDING, secret), digest_size=16).digest()
    return generator(int.from_bytes(key))


def rounded(values: AnswerArray, step: float, lots: Generator) -> FloatArray:
    """Round values up or down at random to multiples of `step`, a power of two; the mean stays the same."""
    units = np.asarray(values, np.float64) / step
    below = np.floor(units)
    below += lots.random(below.shape) < units - below
    below *= step
    return below


def chosen_strategy(declaration: Declaration, workload: Workload, name: str = AUTO) -> Strategy:
    """Return the strategy with this name, or the one with the smallest predicted error if the name is "auto"."""
    if name != AUTO:
        return strategy_named(name, workload)
    return choose(workload, declaration.most_touched, **_kind_of_noise(declaration))


def _kind_of_noise(declaration: Declaration) -> dict[str, bool]:
    return {"pure": declaration.family.norm == "l1", "integer": declaration.family.integer}


def planned_strategies(
    home: Home, declaration: Declaration, series_id: str, workload: Workload | str, levels: Levels
) -> pl.DataFrame:
    """Return a table of strategies and candidate levels with their errors; see `Series.plan_workload`."""
    workload = present(requested(declaration, "plan", workload=workload).workload)
    with home.hold() as state:
        ledger = ledger_for(state, home.find(state, declaration.name, series_id), declaration, whole=True)
    chosen, rows = chosen_strategy(declaration, workload).name, []
    candidates = checked_levels(LEVELS if levels is None else levels)
    for each in compare(workload, declaration.most_touched, **_kind_of_noise(declaration)):
        strategy = strategy_named(each.strategy, workload)
        family, mean = family_for(declaration.family, strategy, each.sensitivity), strategy.mean_variance()
        for at in candidates:
            level = level_for(at, ledger, declaration) if isinstance(at, EpsilonDelta) else at
            std, is_chosen = family.std(level) * math.sqrt(mean), each.strategy == chosen
            rows.append((each.strategy, level_text(level), std, each.ratio, each.sensitivity, is_chosen))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
