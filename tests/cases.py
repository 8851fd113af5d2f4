"""Mark some cases of parametrised tests as slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*case: Any) -> Any:
    """Mark one case of a parametrised test as slow."""
    return pytest.param(*case, marks=pytest.mark.slow)


def quick(first: Iterable[Any], every: Iterable[Any]) -> list[Any]:
    """Return all cases in `every` as test parameters, and mark the cases that are not in `first` as slow."""
    by_default = list(first)
    return [case if case in by_default else slow(case) for case in every]
