"""Cases of parametrised tests that only a run of the slow tests tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*case: Any) -> Any:
    """A case that the slow tests try."""
    return pytest.param(*case, marks=pytest.mark.slow)


def quick(first: Iterable[Any], every: Iterable[Any]) -> list[Any]:
    """All cases, those that are not among the first marked as slow."""
    quickly = list(first)
    return [case if case in quickly else slow(case) for case in every]
