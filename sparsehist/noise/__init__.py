"""Families of noise, one per file, and the protocol they share. Core: numpy and scipy only, no I/O."""

from sparsehist.errors import DeclarationError
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import DenseFamily, Family, currency
from sparsehist.noise.family_check import check_family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.noise.skellam import Skellam

__all__ = [
    "DenseFamily",
    "DiscreteLaplace",
    "Exponential",
    "Family",
    "Gaussian",
    "Laplace",
    "Poisson",
    "RandomisedResponse",
    "Skellam",
    "check_family",
    "currency_of",
    "family_named",
    "name_of",
    "register",
    "registered",
]

_NAMED: dict[str, type[Gaussian | Laplace | DiscreteLaplace | Poisson | Skellam]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "discrete_laplace": DiscreteLaplace,
    "poisson": Poisson,
    "skellam": Skellam,
}

_REGISTERED: dict[str, type] = {}


def register(family: type) -> str:
    """Let this process use a family of your own wherever a store or a release names it.

    Nothing is ever imported because a file names it. `sparsehist.create(..., noise=MyFamily)` and
    `sparsehist.read(..., noise=MyFamily)` register what they are given; a process that opens the store later calls
    this first.

    Args:
        family: A class at the top of a module.

    Returns:
        The text by which stores and releases name it: module:qualname.

    Raises:
        DeclarationError: If another process would not find it under that text.

    Example:
        >>> register(Gaussian)
        'sparsehist.noise.gaussian:Gaussian'
    """
    if not isinstance(family, type) or family.__module__ in ("builtins", "__main__") or "<" in family.__qualname__:
        message = (
            "noise must be the name of a family, a class that stands at the top of a module that can be imported "
            f"again, or an instance of one, got {family!r}"
        )
        raise DeclarationError(message)
    name = f"{family.__module__}:{family.__qualname__}"
    _REGISTERED[name] = family
    return name


def registered(name: str) -> type:
    """The class registered under module:qualname.

    Raises:
        DeclarationError: If there is none; it is not imported.
    """
    if name not in _REGISTERED:
        message = (
            f"noise {name!r} is a family of your own that this process has not registered, and nothing is imported "
            "because a text names it: import the class and call sparsehist.noise.register(it), or pass it as noise="
        )
        raise DeclarationError(message)
    return _REGISTERED[name]


def family_named(name: str, max_keys: int) -> Family:
    """The family of a histogram to which a unit adds at most 1 in each of `max_keys` cells.

    Raises:
        DeclarationError: If there is no such family, or it has no guarantee to give.

    Example:
        >>> family_named("gaussian", 16).std(2)
        2.0
    """
    if name == "exponential":
        message = (
            "noise='exponential' is a building block without any privacy guarantee; nothing is released under it"
        )
        raise DeclarationError(message)
    if name not in _NAMED:
        known = ", ".join(map(repr, _NAMED))
        message = f"noise must be one of {known}, or a class of your own, got {name!r}"
        raise DeclarationError(message)
    return _NAMED[name].for_histogram(max_keys)


def name_of(family: type) -> str | None:
    """The name of one of the package's classes of noise; None of others."""
    return next((name for name, known in _NAMED.items() if known is family), None)


def currency_of(name: str) -> str:
    """The currency that levels of a family are in, for adding up: "rho", "epsilon", or "none"."""
    return currency(_NAMED[name]) if name in _NAMED else "none"
