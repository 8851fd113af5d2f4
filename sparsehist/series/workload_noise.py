"""The noise of a workload's path: the family of its series, with the sensitivity of the strategy."""

from __future__ import annotations

from sparsehist.errors import DeclarationError
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace
from sparsehist.workload import Strategy
from sparsehist.workload.optimised import Optimised

# Of the sensitivity: what rounding R·x to `measured_grid` may add to it, 512 entries of 2**-30 in L1, and more.
_CHARGE = 2.0**-20
_NOISE = ("gaussian", "laplace", "discrete_laplace")


def check_noise(noise: str) -> None:
    """Refuse noise that has no workloads.

    Raises:
        DeclarationError: If it is neither Gaussian nor Laplace.
    """
    if noise not in _NOISE:
        raise DeclarationError(f"noise={noise!r} has no workloads; {', '.join(_NOISE)} have")


def measures_reals(strategy: Strategy) -> bool:
    """Whether real answers come from R·x rounded, with noise rounded alike: where R has no left inverse.

    Only for strategies of few cells: R·x is computed from all of them.
    """
    return isinstance(strategy, Optimised) and strategy.keeps == "noise" and not strategy.workload.integral


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
    larger = 1.0 + _CHARGE if measures_reals(strategy) else 1.0
    if noise == "gaussian":
        return Gaussian(sensitivity=sensitivity.l2 * larger)
    if noise == "laplace":
        return Laplace(sensitivity=sensitivity.l1 * larger)
    if strategy.integral:
        return DiscreteLaplace(sensitivity=round(sensitivity.l1))
    raise DeclarationError(
        f"discrete Laplace noise needs counts: the strategy {strategy.name} measures sums with real weights; "
        "strategy='auto' takes one that measures counts"
    )
