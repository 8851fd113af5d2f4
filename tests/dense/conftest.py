"""Vectors of these tests draw from a fixed stream."""

from __future__ import annotations

import pytest

from sparsehist import entropy
from sparsehist.dense import multiple_release


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every generator that a vector makes the next seed."""
    seeds = iter(range(7000, 9000))
    monkeypatch.setattr(multiple_release, "generator", lambda: entropy.seeded(next(seeds)))
