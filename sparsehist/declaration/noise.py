"""The family of noise of a series, by name."""

from __future__ import annotations

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise import Family, family_named, name_of

NoiseChoice = str | Family
"""A family by name, or as an instance with the sensitivity that max_keys implies."""


def checked_noise(noise: object, max_keys: int) -> str:
    """Return the name by which a series stores its noise, given a name or an instance.

    Raises:
        DeclarationError: If there is no such family, or the instance does not suit units of `max_keys` keys.
    """
    if isinstance(noise, str):
        family_named(noise, max_keys)
        return noise
    name = name_of(noise) if isinstance(noise, Family) else None
    if name is None:
        raise DeclarationError(
            "noise must be a name such as 'gaussian', or an instance such as sparsehist.noise.Gaussian(...), got "
            f"{shown(noise)}",
            parameter="noise",
        )
    family = family_named(name, max_keys)
    if noise != family:
        raise DeclarationError(
            f"noise={noise!r} does not suit units of max_keys={max_keys}, which need {family!r}; pass that, or "
            f"noise={name!r}",
            parameter="noise",
        )
    return name
