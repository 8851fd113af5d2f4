"""The options of a series: one for each field of its declaration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, field, make_dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import options, parameters

_OF_FILES = ("key_types",)
"""Parameters that options of reading files declare."""


def options_of(name: str, only: Collection[str] = (), *, optional: bool = False, record: type = Declaration) -> type:
    """Make a dataclass whose fields are options of a series; cyclopts flattens it into those of a command.

    Args:
        name: Of the dataclass.
        only: The parameters to take; all by default.
        optional: Whether even those without a default may be left out.
        record: The declaration.
    """
    made: list[tuple[str, Any, Any]] = []
    for word, (kind, each) in options(record).items():
        if word in _OF_FILES or (only and word not in only):
            continue
        about = Parameter(help=parameters(record)[word].help)
        if each.default is MISSING and not optional:
            made.append((word, Annotated[kind, about], field()))
        elif isinstance(each.default, str):
            made.append((word, Annotated[kind, about], field(default=each.default)))
        else:
            made.append((word, Annotated[kind | None, about], field(default=None)))
    return make_dataclass(name, made, frozen=True, kw_only=True, namespace={"__module__": __name__})


def option_names() -> set[str]:
    """The options of a series."""
    return {f"--{name.replace('_', '-')}" for name in options(Declaration)}


def given(declared: Any) -> dict[str, Any]:
    """The options that were given, as `sparsehist.create` takes them."""
    if declared is None:
        return {}
    found = {name: value for name, value in vars(declared).items() if value is not None}
    if "unit" in found:  # several columns, given one by one or joined by commas
        found["unit"] = tuple(name for word in found["unit"] for name in word.split(","))
    return found
