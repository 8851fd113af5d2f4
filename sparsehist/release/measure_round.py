"""Noise paths of measures: sums for the rows that a release of cells publishes.

A path holds the true sum, and the noise at all levels, of every cell that a release with this measure published. The
noise of counts is independent of it, so counts may choose the rows (docs/mathematics.md, measures). A round of sums
is committed together with its round of cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sparsehist.errors import present
from sparsehist.histogram.dense import noise_at_level
from sparsehist.histogram.grid import round_to_grid
from sparsehist.histogram.round import plain_path
from sparsehist.ledger.spent import PathName, measure_path
from sparsehist.noise.family import NoiseArray
from sparsehist.privacy import level_text
from sparsehist.release.measure_parameters import SumsAsked
from sparsehist.release.pipeline import ANSWER, NoisePath
from sparsehist.release.published_rows import Shown
from sparsehist.store import NewRound, PathRecord, Spot, Tracked
from sparsehist.typing import FloatArray, IntArray


def noisy_sums(sums: IntArray, noise: NoiseArray, grid: float) -> FloatArray:
    """Round sums and their noise to the grid, in steps; any shape.

    Its part on the grid is added last, so large sums do not cost digits of the noise.
    """
    on_grid = np.floor(sums / grid) * grid
    return np.asarray(on_grid + round_to_grid((sums - on_grid) + noise, grid), np.float64)


@dataclass(frozen=True, repr=False)
class MeasurePath(NoisePath):
    """The noise path of one measure; its first round opens it."""

    asked: SumsAsked

    @property
    def name(self) -> PathName:
        return measure_path(self.asked.measure.name)

    def draw_sums(self, release: str, shown: Shown, round_id: str | None, *, rng: np.random.Generator) -> NewRound:
        """Draw the noise of a release; for cells that are new on the path, at all earlier levels too."""
        declaration, path_id = self.held.declaration, self.path_id
        family, level, measure = self.asked.family, self.asked.level, self.asked.measure
        spent = self.spent
        tracked, empty_keys = self._tracked(path_id)
        level_noise = None
        if level not in spent:
            n_tracked = tracked.position.size
            level_noise = noise_at_level(family, level, self.neighbours(level, n_tracked), n_tracked, rng=rng)
            spent.append(level)
        nonempty = np.setdiff1d(shown.position[shown.position >= 0], tracked.position)
        new_empty = shown.empty_keys.join(empty_keys, on=empty_keys.columns, how="anti")
        sums = self.held.files.sums(nonempty, declaration.measures.index(measure))
        positions = np.append(nonempty, np.full(new_empty.height, -1))
        ascending = tuple(sorted(spent))
        drawn = plain_path(family, ascending, positions.size, rng=rng)
        paths: dict[Spot, NoiseArray] = dict(zip(ascending, drawn, strict=True))
        opened = PathRecord(self.held.record.series_id, *self.name, family.integer)
        name, asked = f"{release}{ANSWER}{measure.name}", {"level": level_text(level)}
        about = {"kind": opened.kind, "series": declaration.name, "name": name, "measure": str(measure), **asked}
        return NewRound(
            opened if path_id is None else path_id,
            name,
            level,
            asked,
            {**about, "round": round_id},
            level_noise,
            positions=positions,
            counts=np.append(sums, np.zeros(new_empty.height, np.int64)),
            empty_keys=new_empty,
            paths=paths,
            who=self.held.home.who,
        )

    def _tracked(self, path_id: int | None) -> tuple[Tracked, pl.DataFrame]:
        """Return the tracked cells of the path, and the keys of the empty ones."""
        none = np.zeros(0, np.int64)
        tracked = Tracked(none, none) if path_id is None else self.held.state.tracked(path_id)
        return tracked, self.held.empty_keys(path_id, tracked)

    def sums(self, shown: Shown) -> FloatArray:
        """Return noisy sums for the rows of a release, in units of the measure's column."""
        path_id, step = present(self.path_id), self.asked.measure.step
        tracked, empty_keys = self._tracked(path_id)
        of_cell = np.empty(shown.position.size, np.int64)
        order = np.argsort(tracked.position, kind="stable")  # empty cells come first
        nonempty = shown.position >= 0
        of_cell[nonempty] = order[np.searchsorted(tracked.position[order], shown.position[nonempty])]
        numbered = empty_keys.with_columns(cell=order[: empty_keys.height])
        found = shown.empty_keys.join(numbered, on=empty_keys.columns, how="left", maintain_order="left")
        of_cell[~nonempty] = found["cell"].to_numpy()
        noise = self.held.state.noise(path_id, self.asked.level, tracked.position.size)[of_cell]
        steps = noisy_sums(tracked.count[of_cell], noise, self.asked.grid)
        return np.asarray(steps * step.numerator / step.denominator, np.float64)
