"""The textual form of workloads, read with Python's parser but never evaluated.

workload := name(argument, …)      prefix, ranges, total, identity, matrix, union, marginals or kronecker
argument := workload | name=value | value; values are integers, text in quotes, None, lists and tuples of values
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.workload.base import Workload
from sparsehist.workload.kronecker import Kronecker
from sparsehist.workload.marginals import Marginals
from sparsehist.workload.matrix import matrix_from
from sparsehist.workload.rows_of_ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.union import Union

_ADVICE = (
    "write one of prefix(n), ranges(n), ranges(n, [(low, high), …]), ranges(keys=[(low, high), …]), "
    "total(n), identity(n), marginals(k=2), union(…, …), kronecker(…, …)"
)

Attachments = Mapping[str, bytes]


def parse(text: str, *, attachments: Attachments) -> Workload:
    """Read the textual form of a workload; see `Workload.parse`."""
    if not isinstance(text, str):
        raise DeclarationError(f"a workload is written as text, got {text!r}; {_ADVICE}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _workload(tree.body, attachments)
    except DeclarationError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise DeclarationError(f"cannot read the workload {_short(text)}: {reason}; {_ADVICE}") from None


def _workload(node: ast.expr, attachments: Attachments) -> Workload:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise DeclarationError(f"{_short(ast.unparse(node))} is no workload; {_ADVICE}")
    name = node.func.id.lower()
    makers = _makers(attachments)
    if name not in makers:
        raise DeclarationError(f"there is no workload {node.func.id!r}; {_ADVICE}")
    values = [_value(argument, attachments) for argument in node.args]
    named = {keyword.arg: _value(keyword.value, attachments) for keyword in node.keywords if keyword.arg}
    try:
        made: Workload = makers[name](*values, **named)
    except TypeError as error:
        raise DeclarationError(f"{name}(): {error}; {_ADVICE}") from None
    return made


def _makers(attachments: Attachments) -> dict[str, Callable[..., Workload]]:
    def ranges(n: Any = None, ranges: Any = None, *, keys: Any = None, sha256: str | None = None) -> Workload:
        if sha256 is None:
            return Ranges(n, ranges, keys=keys)
        return Ranges(n, np.frombuffer(_attached(attachments, sha256), "<i8").reshape(-1, 2))

    def matrix(rows: int, cells: int, *, sha256: str) -> Workload:
        return matrix_from(_attached(attachments, sha256), rows, cells)

    return {
        "prefix": Prefix,
        "ranges": ranges,
        "total": Total,
        "identity": Identity,
        "union": Union,
        "marginals": Marginals,
        "kronecker": Kronecker,
        "matrix": matrix,
    }


def _attached(attachments: Attachments, sha256: str) -> bytes:
    if sha256 not in attachments:
        raise DeclarationError(f"the content with sha256 {sha256!r} is not at hand: hand in the workload itself")
    return attachments[sha256]


def _value(node: ast.expr, attachments: Attachments) -> Any:
    if isinstance(node, ast.Call):
        return _workload(node, attachments)
    if isinstance(node, ast.Tuple | ast.List):
        items = [_value(item, attachments) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if type(number) is int:
            return -number
    if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in {int, str}):
        return node.value
    raise DeclarationError(
        f"{_short(ast.unparse(node))} is not a value; values are integers, text in quotes and lists"
    )


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
