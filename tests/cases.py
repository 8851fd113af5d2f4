"""Cases of parametrised tests that run with the slow tests only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*case: Any) -> Any:
    """Mark a case as slow."""
    return pytest.param(*case, marks=pytest.mark.slow)


def quick(first: Iterable[Any], every: Iterable[Any]) -> list[Any]:
    """Return every case, marking those that are not among the first as slow."""
    by_default = list(first)
    return [case if case in by_default else slow(case) for case in every]
