"""Special functions of scipy, imported when the first of them is called.

`scipy.special` takes as long to import as Polars, and most calls of the package and commands need none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _later(name: str) -> Callable[..., Any]:
    """The function of that name."""
    known: list[Callable[..., Any]] = []

    def function(*arguments: Any, **named: Any) -> Any:
        if not known:
            from scipy import special

            known.append(getattr(special, name))
        return known[0](*arguments, **named)

    return function


betainc, chdtrc, erfc, erfcx, erfinv, expit = map(_later, ("betainc", "chdtrc", "erfc", "erfcx", "erfinv", "expit"))
gammainc, gammaincc, gammaln, i0e, i1e = map(_later, ("gammainc", "gammaincc", "gammaln", "i0e", "i1e"))
kolmogorov, log_ndtr, ndtr, ndtri, ndtri_exp = map(_later, ("kolmogorov", "log_ndtr", "ndtr", "ndtri", "ndtri_exp"))
wrightomega, xlogy = map(_later, ("wrightomega", "xlogy"))
