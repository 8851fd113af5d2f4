"""Fixtures that let every vector in these tests draw from fixed seeds."""

from __future__ import annotations

import pytest

from sparsehist import entropy
from sparsehist.dense import multiple_release


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each random generator that a vector creates the next fixed seed."""
    seeds = iter(range(7000, 9000))
    monkeypatch.setattr(multiple_release, "generator", lambda: entropy.seeded(next(seeds)))
