"""The textual form of strategies, such as ``spectral(blend=4)``, read with Python's parser, never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sparsehist.errors import DeclarationError
from sparsehist.workload.queries.kronecker import Kronecker
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.union import Union
from sparsehist.workload.strategies.direct import Direct
from sparsehist.workload.strategies.direct_marginals import DirectMarginals, WeightedMarginals
from sparsehist.workload.strategies.haar import Haar
from sparsehist.workload.strategies.hierarchical import Hierarchical, Tree
from sparsehist.workload.strategies.invertible import IdentityStrategy
from sparsehist.workload.strategies.kronecker_strategy import KroneckerStrategy
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.residual_basis import ResidualBasis
from sparsehist.workload.strategies.shared import Shared
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.strategy import Strategy
from sparsehist.workload.strategies.toeplitz import Banded, SquareRoot
from sparsehist.workload.strategies.union_strategy import UnionStrategy

_MAKERS: dict[str, Callable[..., Strategy]] = {
    "banded": Banded,
    "direct": lambda workload: (DirectMarginals if isinstance(workload, Marginals) else Direct)(workload),
    "haar": Haar,
    "hierarchical": Hierarchical,
    "identity": IdentityStrategy,
    "optimised": Optimised,
    "residual": ResidualBasis,
    "shared": Shared,
    "spectral": Spectral,
    "square_root": SquareRoot,
    "tree": Tree,
    "weighted": WeightedMarginals,
}
_ADVICE = f"write auto, {', '.join(_MAKERS)}, kronecker(…) or union(…), with parameters as in spectral(blend=4)"


def check_name(text: str) -> None:
    """Refuse the text of a strategy where there is none of that name; knows nothing of the workload.

    Raises:
        DeclarationError: If there is none.
    """
    name = text.partition("(")[0].strip()
    if name not in ("auto", "kronecker", "union", *_MAKERS):
        raise DeclarationError(f"there is no strategy {name[:80]!r}; {_ADVICE}")


def strategy_named(text: str | Strategy, workload: Workload) -> Strategy:
    """Read the textual form of a strategy for a workload.

    Args:
        text: A name, with parameters where it has some; what `Strategy.name` writes. A strategy is handed through.
        workload: What it answers.

    Raises:
        DeclarationError: If there is no such strategy, or it does not serve the workload.

    Example:
        >>> from sparsehist.workload import Prefix
        >>> strategy_named("hierarchical(branching=4)", Prefix(64)).name
        'hierarchical(branching=4)'
    """
    if isinstance(text, Strategy):
        if text.workload != workload:
            raise DeclarationError(f"the strategy {text.name} is for {text.workload.describe()}")
        return text
    if not isinstance(text, str):
        raise DeclarationError(f"a strategy is written as text, got {text!r}; {_ADVICE}")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DeclarationError(f"cannot read the strategy {text[:80]!r}; {_ADVICE}") from None
    return _strategy(node, workload)


def _strategy(node: ast.expr, workload: Workload) -> Strategy:
    called, arguments, keywords = node, [], []
    if isinstance(node, ast.Call):
        called, arguments, keywords = node.func, node.args, node.keywords
    if not isinstance(called, ast.Name):
        raise DeclarationError(f"{ast.unparse(node)[:80]!r} is no strategy; {_ADVICE}")
    if called.id == "kronecker":
        if not isinstance(workload, Kronecker) or len(arguments) != len(workload.listed):
            raise DeclarationError(f"kronecker(…) has one strategy a factor of a product, not {workload.describe()}")
        return KroneckerStrategy(workload, list(map(_strategy, arguments, workload.listed)))
    if called.id == "union":
        if not isinstance(workload, Union) or len(arguments) != len(workload.parts):
            raise DeclarationError(f"union(…) has one strategy a part of a union, not {workload.describe()}")
        return UnionStrategy(workload, list(map(_strategy, arguments, workload.parts)))
    if called.id not in _MAKERS:
        raise DeclarationError(f"there is no strategy {called.id!r}; {_ADVICE}")
    if arguments:
        raise DeclarationError(f"{called.id}(…): parameters are named, as in spectral(blend=4)")
    named = {keyword.arg: _value(keyword.value) for keyword in keywords if keyword.arg}
    try:
        return _MAKERS[called.id](workload, **named)
    except TypeError as error:
        raise DeclarationError(f"{called.id}(): {error}; {_ADVICE}") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in {int, float, bool, str}:
        return node.value
    raise DeclarationError(f"{ast.unparse(node)[:80]!r} is no parameter of a strategy: those are numbers and words")
