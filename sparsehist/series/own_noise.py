"""The noise of a series: a name, a class or an instance, kept as text by which a stored series finds it again.

Built-in families have names. A family of your own is found among those this process registered; a text in a store or
a release never makes anything be imported.
"""

from __future__ import annotations

from sparsehist.errors import DeclarationError
from sparsehist.noise import Family, family_named, name_of, register, registered

NoiseChoice = str | type | Family
"""A family by name, as a class, or as an instance with the sensitivity that max_keys implies."""

_LAWS = [name for name in dir(Family) if not name.startswith("_")]


def checked_noise(noise: NoiseChoice, max_keys: int) -> str:
    """The text by which a series stores its noise: a name of the package's own, or module:qualname.

    Raises:
        DeclarationError: If it is not registered, could not be found again, has another sensitivity than
            max_keys implies, or lacks something that drawing lazily needs; the message says what.
    """
    if isinstance(noise, str):
        load_family(noise, max_keys)
        return noise
    name = name_of_choice(noise)
    family = load_family(name, max_keys)
    if not isinstance(noise, type) and noise != family:
        raise DeclarationError(
            f"noise={noise!r} is not what units of max_keys={max_keys} need, which is {family!r} (both have to be "
            f"equal, as dataclasses are); the class alone would do"
        )
    return name


def name_of_choice(noise: type | Family) -> str:
    """The text that stands for a class or an instance; a class of your own is registered.

    Raises:
        DeclarationError: If another process would not find the class under that text.
    """
    found = noise if isinstance(noise, type) else type(noise)
    return name_of(found) or register(found)


def load_family(name: str, max_keys: int) -> Family:
    """The family of that name, with the sensitivity that max_keys implies.

    A class of your own has a classmethod `for_histogram(max_keys)`, which knows what a unit that adds at most 1
    in each of max_keys cells means for its sensitivity.

    Raises:
        DeclarationError: If it is not registered, is no family, or cannot be drawn lazily.
    """
    family = _own(name, max_keys) if ":" in name else family_named(name, max_keys)
    if not family.monotone:
        raise DeclarationError(
            f"noise {name!r} cannot be drawn lazily: its steps do not keep orders, so cells that were never "
            "published would not get their exact law"
        )
    return family


def _own(name: str, max_keys: int) -> Family:
    found = registered(name)
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
