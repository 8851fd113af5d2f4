"""Totals of a running series: running counts, new units, totals of blocks. Each kind has its own noise path.

A unit adds one to each of at most l keys, at one step per key. New units of a step, and totals of blocks of steps,
count this step once. So each block gets independent noise of variance l/(2 rho), and all blocks together are
rho-zCDP. Running counts contain the step at all later steps, and share noise by the spectral strategy. Differences of
running counts would have noise with negative covariances, so cells could not be drawn lazily.

Source: our own derivation (docs/mathematics.md, running counts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.ledger.spent import CELLS, PathName
from sparsehist.noise.over_steps import StepNoise
from sparsehist.typing import IntArray
from sparsehist.workload import Prefix
from sparsehist.workload.strategies.spectral import Spectral

RUNNING = "running"
_TEXT = re.compile(r"running|new|blocks\(([1-9]\d{0,3})\)")


@dataclass(frozen=True)
class Totals:
    """A kind of total that steps of a series can release: "running", "new" or "blocks(7)"."""

    text: str
    steps: int

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not _TEXT.fullmatch(self.text):
            raise DeclarationError(
                "what must be 'running', 'new' (units of one step) or 'blocks(7)' (of blocks of so many steps), "
                f"got {shown(self.text)}"
            )

    @cached_property
    def width(self) -> int | None:
        """Steps of a block; None for running counts."""
        digits = re.sub(r"\D", "", self.text)
        return None if self.text == RUNNING else int(digits or 1)

    @property
    def strategy(self) -> str:
        """The strategy by which steps share noise."""
        return Spectral.word if self.width is None else "independent"

    @property
    def path(self) -> PathName:
        """The name of the noise path in ledger and store."""
        return CELLS if self.width is None else (CELLS[0], self.text, self.strategy)

    def row(self, step: int) -> int:
        """Return the index (from 0) of the total whose last step is `step` (counted from 1)."""
        if self.width is None:
            return step - 1
        if step % self.width and step != self.steps:
            ends = min(step + self.width - step % self.width, self.steps)
            raise DeclarationError(f"no block of {self.width} steps ends at step {step}; the next one does at {ends}")
        return (step - 1) // self.width

    def span(self, row: int) -> tuple[int, int]:
        """Return the first and the last step of a total, from 0."""
        if self.width is None:
            return 0, row
        return row * self.width, min((row + 1) * self.width, self.steps) - 1

    def noise(self, max_keys: int) -> StepNoise:
        """Return the law of the noise of one key over all totals."""
        return _noise(self, max_keys)

    def counts(self, rows: Sequence[int], running_at: Callable[[list[int]], IntArray]) -> IntArray:
        """Return true totals for ascending rows, computed from running counts; shape (rows, keys)."""
        spans = [self.span(row) for row in rows]
        steps = sorted({last for _, last in spans} | {first - 1 for first, _ in spans if first})
        running = dict(zip(steps, running_at(steps), strict=True))
        return np.stack([running[last] - (running[first - 1] if first else 0) for first, last in spans])

    def words(self, step: int) -> str:
        """Return the meaning of a count in words."""
        first = self.span(self.row(step))[0] + 1
        if self.width is None:
            return f"units that had the key by step {step}, each once"
        steps = f"step {step}" if first == step else f"steps {first} to {step}"
        return f"units that had the key first in {steps}"

    @property
    def name(self) -> str:
        """The name of the total, for people."""
        if self.width is None:
            return "running counts"
        return "new units of single steps" if self.width == 1 else f"new units of blocks of {self.width} steps"


@lru_cache(maxsize=8)
def _noise(totals: Totals, max_keys: int) -> StepNoise:
    if totals.width is not None:
        return StepNoise(max_keys * np.eye(-(-totals.steps // totals.width)))
    strategy = Spectral(Prefix(totals.steps))
    answers = np.cumsum(strategy.to_cells(np.eye(strategy.n_noise)), axis=0)
    covariance = max_keys * strategy.l2(1) ** 2 * (answers @ answers.T)
    return StepNoise((covariance + covariance.T) / 2)
