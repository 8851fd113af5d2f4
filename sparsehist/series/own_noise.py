"""Families of noise that a user brings: named as module:qualname, so that a stored series finds them again."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

from sparsehist.errors import DeclarationError
from sparsehist.noise import Family, family_named


def noise_name(noise: str | type) -> str:
    """The text by which a series stores its noise.

    Raises:
        DeclarationError: If it is a class that cannot be found again by name.
    """
    if isinstance(noise, str):
        return noise
    if not isinstance(noise, type) or "<locals>" in noise.__qualname__ or noise.__module__ == "__main__":
        raise DeclarationError(
            f"noise must be the name of a family, or a class that stands at the top of a module that can be "
            f"imported again, got {noise!r}"
        )
    return f"{noise.__module__}:{noise.__qualname__}"


def load_family(name: str, max_keys: int) -> Family:
    """The family of that name, with the sensitivity that max_keys implies.

    A class of your own has a classmethod `for_histogram(max_keys)`, which knows what a unit that adds at most 1
    in each of max_keys cells means for its sensitivity.

    Raises:
        DeclarationError: If it is not there, is no family, or cannot be drawn lazily.
    """
    family = _own(name, max_keys) if ":" in name else family_named(name, max_keys)
    if not family.monotone:
        raise DeclarationError(
            f"noise {name!r} cannot be drawn lazily: its steps do not keep orders, so cells that were never "
            "published would not get their exact law"
        )
    return family


def _own(name: str, max_keys: int) -> Family:
    module, _, qualname = name.partition(":")
    try:
        found = reduce(getattr, qualname.split("."), import_module(module))
        family = found.for_histogram(max_keys)
    except (ImportError, AttributeError, ValueError):
        raise DeclarationError(
            f"noise {name!r} cannot be loaded: it has to be an importable class with a classmethod "
            "for_histogram(max_keys)"
        ) from None
    if not isinstance(family, Family):
        raise DeclarationError(f"noise {name!r} lacks some of the laws of a family; see sparsehist.noise.Family")
    return family
