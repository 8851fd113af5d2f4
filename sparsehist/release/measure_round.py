"""Noise paths of measures: sums beside the rows that a release of cells publishes.

A path holds, for every cell that some table with this measure showed, its true sum and the noise at all levels of the
path. The cells' noise is independent of it, and so it may choose the rows (docs/mathematics.md, measures). Its rounds
are committed with the round of the cells that they belong to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.declaration.measures import Measure
from sparsehist.errors import DeclarationError, LevelError, present, shown
from sparsehist.histogram import numerical_slack
from sparsehist.histogram.dense import noise_at_level
from sparsehist.histogram.grid import round_to_grid
from sparsehist.histogram.round import plain_path
from sparsehist.ledger.ledger import MEASURE, PathName
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release.pipeline import ANSWER, Held, adjacent
from sparsehist.store import NewPath, NewRound, Spot, Tracked
from sparsehist.typing import FloatArray, IntArray, secret

_LEAST_STD, _LARGEST_STD = 2.0**-2, 2.0**46
"""In steps: within these a sum, its noise and their grid fit into a double."""
_BITS_BELOW_STD = 4
Levels = tuple[tuple[str, Fraction], ...]
"""Measures of a release by name, with the level of each, in the order of the declaration."""


def measure_levels(declaration: Declaration, asked: Level | Mapping[str, Level] | None) -> Levels:
    """Read measures=: a level for all measures, or a level by name, also as text: price=0.5, events=1/3."""
    if asked is None:
        return ()
    if isinstance(asked, str) and "=" in asked:
        pairs = (part.partition("=") for part in asked.split(","))
        asked = {name.strip(): level.strip() for name, _, level in pairs}
    names = [measure.name for measure in declaration.measures]
    if not names:
        raise DeclarationError(
            "the series has no measures: declare them when it is created, measures=[sh.Measure(…)]",
            parameter="measures",
        )
    given = asked if isinstance(asked, Mapping) else dict.fromkeys(names, asked)
    if not given or not set(given) <= set(names):
        raise DeclarationError(
            f"measures= names measures of the series with their levels, or gives one level for all of "
            f"{', '.join(names)}, got {shown(asked)}",
            parameter="measures",
        )
    levels = tuple((name, as_level(given[name])) for name in names if name in given)
    for name, level in levels:
        _check_std(declaration, declaration.measure_named(name), level)
    return levels


def _check_std(declaration: Declaration, measure: Measure, level: Fraction) -> None:
    std = declaration.family_of(measure).std(level)
    if not _LEAST_STD <= std <= _LARGEST_STD:
        fine = std < _LEAST_STD
        raise LevelError(
            f"level {level_text(level)} is too {'fine' if fine else 'coarse'} for the measure {measure.name!r}: the "
            f"standard deviation of its noise is {std:.3g} steps, and must be from {_LEAST_STD:.3g} to "
            f"{_LARGEST_STD:.3g}: ask for a {'smaller' if fine else 'larger'} level"
        )


def path_of(name: str) -> PathName:
    """The noise path of a measure in the ledger."""
    return (MEASURE, name, "sum")


def sum_grid(family: Family, level: Fraction) -> float:
    """The grid of published sums, in steps: a power of two near a sixteenth of the standard deviation.

    Unlike that of counts it may be above 1: truth and noise are rounded together.
    """
    if family.integer:
        return 1.0
    return math.ldexp(1.0, math.frexp(family.std(level))[1] - 1 - _BITS_BELOW_STD)


def noisy_sums(sums: IntArray, noise: NoiseArray, grid: float) -> FloatArray:
    """Round sums and their noise to the grid, in steps; any shape.

    The part of a sum on the grid is added last, so no digit of the noise is lost beside it.
    """
    on_grid = np.floor(sums / grid) * grid
    return np.asarray(on_grid + round_to_grid((sums - on_grid) + noise, grid), np.float64)


def measure_metadata(declaration: Declaration, levels: Levels) -> dict[str, Any]:
    """What metadata of a release says of its measures; nothing where it has none."""
    if not levels:
        return {}
    measures = [declaration.measure_named(name) for name, _ in levels]
    stds = [declaration.family_of(each).std(level) for each, (_, level) in zip(measures, levels, strict=True)]
    return {
        "measures": tuple(map(str, measures)),
        "measure_levels": tuple(level_text(level) for _, level in levels),
        "measure_stds": tuple(std * float(each.step) for std, each in zip(stds, measures, strict=True)),
    }


def slack(declaration: Declaration, levels: Levels) -> float:
    """What the sums of a release add to its numerical slack."""
    families = [(declaration.family_of(declaration.measure_named(name)), level) for name, level in levels]
    return math.fsum(
        numerical_slack(declaration.max_keys, family.std(level), sum_grid(family, level))
        for family, level in families
    )


def statement(declaration: Declaration, levels: Levels) -> str:
    """What the measures of a release cost, in words."""
    told = [
        f"; {declaration.measure_named(name).sum_column}, on a noise path of its own, adds "
        f"{declaration.family_of(declaration.measure_named(name)).statement(level)}"
        for name, level in levels
    ]
    return "".join(told)


@secret
@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """The cells that a release shows: positions in the counts file, -1 for an empty one, and the empty ones' keys."""

    position: IntArray
    empty_keys: pl.DataFrame


@dataclass(frozen=True, repr=False)
class MeasurePath:
    """The path of one measure; opened by its first round."""

    held: Held
    measure: Measure

    @property
    def path_id(self) -> int | None:
        """In the store; None before the first round."""
        own = path_of(self.measure.name)
        paths = self.held.state.paths(self.held.record)
        return next((path.path_id for path in paths if (path.kind, path.workload, path.strategy) == own), None)

    def draw(
        self, name: str, level: Fraction, table: Table, round_id: str | None, *, rng: np.random.Generator
    ) -> NewRound:
        """Draw the noise of a table: that of cells shown before goes on, that of others begins with their past."""
        state, family, path_id = self.held.state, self.held.declaration.family_of(self.measure), self.path_id
        spent = [] if path_id is None else [known for known, _ in state.past(path_id)]
        tracked, empty_keys = self._tracked(path_id, table.empty_keys)
        n_tracked = tracked.position.size
        level_noise = None
        if level not in spent:
            near = {at: state.noise(present(path_id), at, n_tracked) for at in adjacent(set(spent), level)}
            level_noise = noise_at_level(family, level, near, n_tracked, rng=rng)
            spent = [*spent, level]
        nonempty = np.setdiff1d(table.position[table.position >= 0], tracked.position)
        new_empty = table.empty_keys.join(empty_keys, on=empty_keys.columns, how="anti")
        positions = np.concatenate([nonempty, np.full(new_empty.height, -1)])
        number = self.held.declaration.measures.index(self.measure)
        sums = np.concatenate([self.held.files.sums(nonempty, number), np.zeros(new_empty.height, np.int64)])
        ascending = sorted(spent)
        paths: dict[Spot, NoiseArray] = dict(
            zip(ascending, plain_path(family, tuple(ascending), positions.size, rng=rng), strict=True)
        )
        own_name = f"{name}{ANSWER}{self.measure.name}"
        about = {
            "kind": MEASURE,
            "series": self.held.declaration.name,
            "name": own_name,
            "measure": str(self.measure),
        }
        return NewRound(
            self._new_path(family) if path_id is None else path_id,
            own_name,
            level,
            {"level": level_text(level)},
            {**about, "level": level_text(level), "round": round_id},
            level_noise,
            positions=positions,
            counts=sums,
            empty_keys=new_empty,
            paths=paths,
            who=self.held.home.who,
        )

    def _new_path(self, family: Family) -> NewPath:
        declaration = self.held.declaration
        kind, name, strategy = path_of(self.measure.name)
        of_series = (self.held.record.series_id, name, strategy, declaration.noise)
        return NewPath(kind, *of_series, integer_noise=family.integer)

    def _tracked(self, path_id: int | None, like: pl.DataFrame) -> tuple[Tracked, pl.DataFrame]:
        """The cells of the path, and the keys of the empty ones."""
        if path_id is None:
            return Tracked(np.zeros(0, np.int64), np.zeros(0, np.int64)), like.clear()
        tracked = self.held.state.tracked(path_id)
        return tracked, self.held.state.empty_keys(path_id) if (tracked.position < 0).any() else like.clear()

    def sums(self, level: Fraction, table: Table) -> FloatArray:
        """Noisy sums of the rows of a table that was released with this measure, in units of its column."""
        state, path_id = self.held.state, present(self.path_id)
        tracked, empty_keys = self._tracked(path_id, table.empty_keys)
        of_cell = np.empty(table.position.size, np.int64)
        order = np.argsort(tracked.position, kind="stable")  # empty cells come first
        nonempty = table.position >= 0
        of_cell[nonempty] = order[np.searchsorted(tracked.position[order], table.position[nonempty])]
        numbered = empty_keys.with_columns(cell=order[: empty_keys.height])
        found = table.empty_keys.join(numbered, on=empty_keys.columns, how="left", maintain_order="left")
        of_cell[~nonempty] = found["cell"].to_numpy()
        noise = state.noise(path_id, level, tracked.position.size)[of_cell]
        grid = sum_grid(self.held.declaration.family_of(self.measure), level)
        steps = noisy_sums(tracked.count[of_cell], noise, grid)
        return steps * self.measure.step.numerator / self.measure.step.denominator


def measured_columns(held: Held, levels: Sequence[tuple[Measure, Fraction]], table: Table) -> dict[str, FloatArray]:
    """The columns of the sums of a release."""
    return {measure.sum_column: MeasurePath(held, measure).sums(level, table) for measure, level in levels}
