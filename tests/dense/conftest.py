"""Provide fixed random seeds for tests of `MultipleRelease`, a vector that is released at several levels."""

from __future__ import annotations

import pytest

from sparsehist import entropy
from sparsehist.dense import multiple_release


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the random generator of each vector a fixed seed of its own."""
    seeds = iter(range(7000, 9000))
    monkeypatch.setattr(multiple_release, "generator", lambda: entropy.seeded(next(seeds)))
