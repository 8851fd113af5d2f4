"""Tests that the repr of an object with secret arrays shows no count.

Reprs matter because debuggers, logs and tracebacks print them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import numpy as np

import sparsehist
from sparsehist.histogram import NewlyTracked

_SECRET = 918273645


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(sparsehist.__path__, "sparsehist."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__ == module.name:
                yield value


def printed_fields(made: type) -> list[str]:
    """Return the types of the fields that the generated repr of a class shows."""
    if dataclasses.is_dataclass(made):
        shown = getattr(made, "__dataclass_params__").repr  # noqa: B009 - a subclass may have that of its base
        return [str(field.type) for field in dataclasses.fields(made) if field.repr and shown]
    # A named tuple has a generated repr, unless its own module or `sparsehist.typing.secret` defines a repr.
    own = (made.__module__, "sparsehist.typing")
    generated = hasattr(made, "_fields") and made.__repr__.__module__ not in own
    return list(map(str, inspect.get_annotations(made).values())) if generated else []


def test_no_class_prints_arrays_unless_they_are_public() -> None:
    """Only classes whose arrays and data frames are public have a generated repr that shows arrays or data frames."""
    public = {
        "workload.strategies.optimised._Decomposed",
        "local.estimates.Decoded",
        "local.estimates.Frequencies",
        "histogram.history.History",
        "histogram.intervals.Estimates",
        "noise.over_steps.Factor",
        "dense.dense_release.PostProcessing",
        "release.planning.Plan",
    }
    printing = {
        f"{made.__module__}.{made.__qualname__}".removeprefix("sparsehist.")
        for made in _classes()
        if any(word in shown for shown in printed_fields(made) for word in ("Array", "DataFrame", "LazyFrame"))
    }
    assert printing == public


def test_secret_arrays_are_not_printed() -> None:
    """The repr of `NewlyTracked`, an object with secret arrays, shows no digit and no array."""
    made = NewlyTracked(np.array([_SECRET]), np.array([[_SECRET]]), np.array([_SECRET]), np.array([True]))
    shown = f"{made!r}{made}{[made]!r}"
    assert not any(character.isdigit() for character in shown) and "array" not in shown
