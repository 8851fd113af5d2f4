"""Make strategies from their textual form, such as ``spectral(blend=4)``."""

from __future__ import annotations

from collections.abc import Callable

from sparsehist.errors import DeclarationError
from sparsehist.text_form import Notation
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.strategies.haar import Haar
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.plain import Direct, IdentityStrategy
from sparsehist.workload.strategies.products import Combined, KroneckerStrategy, UnionStrategy
from sparsehist.workload.strategies.residual import ResidualBasis
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.strategy import Strategy
from sparsehist.workload.strategies.toeplitz import SquareRoot

_KINDS = (Direct, Haar, IdentityStrategy, Optimised, ResidualBasis, Spectral, SquareRoot)
_MAKERS: dict[str, Callable[..., Strategy]] = {kind.word: kind for kind in _KINDS}
_COMBINED: dict[str, type[Combined]] = {kind.word: kind for kind in (KroneckerStrategy, UnionStrategy)}
_NOTATION = Notation(
    "strategy",
    "numbers and words",
    lambda: f"write auto, {', '.join(_MAKERS)}, kronecker(…) or union(…), with parameters as in spectral(blend=4)",
    bare=True,
)


def strategy_named(text: str | Strategy, workload: Workload) -> Strategy:
    """Make the strategy with this name (`Strategy.name`) for a workload. A `Strategy` object is returned unchanged.

    Raises:
        DeclarationError: If there is no such strategy, or it cannot answer the workload.

    Example:
        >>> from sparsehist.workload import Prefix
        >>> strategy_named("spectral(blend=4)", Prefix(64)).name
        'spectral(blend=4)'
    """
    if isinstance(text, Strategy):
        if text.workload != workload:
            raise DeclarationError(f"the strategy {text.name} is for {text.workload.describe()}")
        return text
    return _strategy(_NOTATION.read(text), workload)


def _strategy(value: object, workload: Workload) -> Strategy:
    form = _NOTATION.form(value)
    combined = _COMBINED.get(form.name.lower())
    if combined is not None:
        parts = combined.parts_of(workload)
        if len(form.values) != len(parts):
            raise DeclarationError(f"give one strategy for each part of {workload.describe()}")
        return combined(workload, list(map(_strategy, form.values, parts)))
    maker = _NOTATION.kind(form, _MAKERS)
    if form.values:
        raise DeclarationError(f"write parameters with names, as in spectral(blend=4), instead of {form.name}(…)")
    for given in form.named.values():
        if type(given) not in {int, float, bool, str}:
            _NOTATION.refuse(given, form)
    try:
        return maker(workload, **form.named)
    except TypeError as error:
        raise DeclarationError(f"{form.name}(): {error}; {_NOTATION.advice()}") from None
