"""The noise of a workload's path: the family of its series, with the sensitivity of the strategy."""

from __future__ import annotations

from sparsehist.errors import DeclarationError
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace
from sparsehist.workload import Strategy

_NOISE = ("gaussian", "laplace", "discrete_laplace")


def check_noise(noise: str) -> None:
    """Refuse noise that has no workloads.

    Raises:
        DeclarationError: If it is neither Gaussian nor Laplace.
    """
    if noise not in _NOISE:
        raise DeclarationError(f"noise={noise!r} has no workloads; {', '.join(_NOISE)} have")


def family_for(noise: str, strategy: Strategy, max_keys: int) -> Family:
    """The family of noise on R·x for units of at most `max_keys` cells.

    Args:
        noise: Name of the family of the series.
        strategy: A = L·R.
        max_keys: Keys of a unit.

    Raises:
        DeclarationError: If the family has no workloads, or is of integers and R·x is not.
    """
    check_noise(noise)
    sensitivity = strategy.sensitivity(max_keys)
    if noise == "gaussian":
        return Gaussian(sensitivity=sensitivity.l2)
    if noise == "laplace":
        return Laplace(sensitivity=sensitivity.l1)
    if strategy.integral:
        return DiscreteLaplace(sensitivity=round(sensitivity.l1))
    raise DeclarationError(
        f"discrete Laplace noise needs counts: the strategy {strategy.name} measures sums with real weights; "
        "strategy='auto' takes one that measures counts"
    )
