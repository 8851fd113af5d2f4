"""The noise of a series: a name, a class or an instance, kept as text by which a stored series finds it again."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

from sparsehist.errors import DeclarationError
from sparsehist.noise import Family, family_named, name_of

NoiseChoice = str | type | Family
"""A family by name, as a class, or as an instance with the sensitivity that max_keys implies."""

_LAWS = [name for name in dir(Family) if not name.startswith("_")]


def checked_noise(noise: NoiseChoice, max_keys: int) -> str:
    """The text by which a series stores its noise: a name of the package's own, or module:qualname.

    Raises:
        DeclarationError: If it cannot be found again by that text, has another sensitivity than max_keys implies, or
            lacks something that drawing lazily needs; the message says what.
    """
    if isinstance(noise, str):
        load_family(noise, max_keys)
        return noise
    found = noise if isinstance(noise, type) else type(noise)
    name = name_of(found) or f"{found.__module__}:{found.__qualname__}"
    if found.__module__ in ("builtins", "__main__") or "<locals>" in found.__qualname__:
        raise DeclarationError(
            f"noise must be the name of a family, a class that stands at the top of a module that can be imported "
            f"again, or an instance of one, got {noise!r}"
        )
    family = load_family(name, max_keys)
    if type(family) is not found and ":" in name:
        raise DeclarationError(
            f"noise {name!r} is another class than the one given: a series could not find it again"
        )
    if not isinstance(noise, type) and noise != family:
        raise DeclarationError(
            f"noise={noise!r} is not what units of max_keys={max_keys} need, which is {family!r} (both have to be "
            f"equal, as dataclasses are); the class alone would do"
        )
    return name


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
    except (ImportError, AttributeError, ValueError) as problem:
        raise DeclarationError(f"noise {name!r} cannot be imported: {problem}") from None
    make = getattr(found, "for_histogram", None)
    if make is None:
        raise DeclarationError(
            f"noise {name!r} has no classmethod for_histogram(max_keys) that makes it with the sensitivity of a "
            "histogram to which a unit adds at most 1 in each of max_keys cells"
        )
    try:
        family = make(max_keys)
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise DeclarationError(
            f"noise {name!r}: for_histogram({max_keys}) raised {type(problem).__name__}: {problem}"
        ) from problem
    missing = [law for law in _LAWS if not hasattr(family, law)]
    if missing:
        raise DeclarationError(
            f"noise {name!r} lacks {', '.join(missing)}; sparsehist.noise.Family says what each of them is, and "
            "check_family tests them"
        )
    checked: Family = family
    return checked
