"""The textual form of domains, read with Python's parser but never evaluated.

domain  := name(argument, …)            strings, integers, dates, catalogue, hash64, open or product
argument := value | column=value        values are integers, True, False, text in quotes; domains in product()
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from sparsehist.domain.base import Domain
from sparsehist.domain.catalogue import Catalogue
from sparsehist.domain.dates import Dates
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.integers import Integers
from sparsehist.domain.literal import show
from sparsehist.domain.open import Open
from sparsehist.domain.product import Product
from sparsehist.domain.strings import Strings
from sparsehist.errors import DomainError

_EXAMPLES = {
    "strings": (Strings, "strings(max_bytes=32)"),
    "integers": (Integers, "integers(1000) or integers(5, 10)"),
    "dates": (Dates, "dates('2014-05-01', '2014-05-12')"),
    "catalogue": (Catalogue, "catalogue('DE', 'US') or catalogue(file='areas.csv', column='url')"),
    "hash64": (Hash64, "hash64()"),
    "open": (Open, "open(delta='1e-6')"),
    "product": (Product, "product(country=catalogue('DE', 'US'), n=integers(9))"),
}


def parse(text: str, *, files: Mapping[str, Path] | None = None) -> Domain:
    """Read the textual form of a domain; see `Domain.parse`."""
    if not isinstance(text, str):
        raise DomainError(f"a domain is written as text, got {show(text)}; for example strings(max_bytes=32)")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        _refuse_joined_text(text.strip())
        return _domain(tree.body, files or {})
    except DomainError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise DomainError(f"cannot read the domain {show(text)}: {reason}; {_advice()}") from None


def _domain(node: ast.expr, files: Mapping[str, Path]) -> Domain:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise DomainError(f"{_source(node)} is no domain; {_advice()}")
    name = node.func.id.lower()
    if name not in _EXAMPLES:
        raise DomainError(f"there is no domain {show(node.func.id)}; {_advice()}")
    kind, example = _EXAMPLES[name]
    values = [_argument(value, name, files) for value in node.args]
    named = _named(node.keywords, name, files)
    if kind is Catalogue:
        return _catalogue(values, named, files)
    if kind is Product:
        if values:
            raise DomainError(f"product() names each of its columns; write {example}")
        return Product(named)
    try:
        inspect.signature(kind).bind(*values, **named)
    except TypeError as error:
        raise DomainError(f"{name}(): {error}; write {example}") from None
    domain: Domain = kind(*values, **named)
    return domain


def _catalogue(values: list[Any], named: dict[str, Any], files: Mapping[str, Path]) -> Catalogue:
    unknown = sorted(named.keys() - {"file", "column", "kind", "sha256"})
    if unknown:
        raise DomainError(f"catalogue(): unknown argument {show(unknown[0])}; write {_EXAMPLES['catalogue'][1]}")
    for key, value in named.items():
        if not isinstance(value, str):
            raise DomainError(f"catalogue(): {key} is text, got {show(value)}")
    copy = files.get(named.get("sha256", ""))
    if not values and copy is not None:
        return Catalogue.from_copy(Path(copy), **named)
    if not values and "file" not in named:
        given = f"sha256 {named['sha256']} but " if "sha256" in named else ""
        raise DomainError(f"catalogue() has {given}no values; write {_EXAMPLES['catalogue'][1]}")
    return Catalogue(values or None, **named)


def _named(keywords: list[ast.keyword], name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, node in (pair for keyword in keywords for pair in _pairs(keyword)):
        if key in named:
            raise DomainError(f"{name}() has {show(key)} twice")
        named[key] = _argument(node, name, files)
    return named


def _pairs(keyword: ast.keyword) -> list[tuple[str, ast.expr]]:
    """One argument, or those of ``**{'any name': …}``, for names that are no Python identifiers."""
    if keyword.arg is not None:
        return [(keyword.arg, keyword.value)]
    if not isinstance(keyword.value, ast.Dict):
        raise DomainError(f"** needs names in braces, such as **{{'a name': …}}, got {_source(keyword.value)}")
    pairs = []
    for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise DomainError("** needs names that are text, such as **{'a name': …}")
        pairs.append((key.value, value))
    return pairs


def _argument(node: ast.expr, name: str, files: Mapping[str, Path]) -> str | int | float | bool | Domain:
    if name == "product":
        return _domain(node, files)
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        node = node.operand
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            raise DomainError(f"{name}(): only an integer can have a sign, got {_source(node)}")
    if isinstance(node, ast.Constant):
        if type(node.value) is int:
            return sign * node.value
        if isinstance(node.value, str | bool) or (name == "open" and isinstance(node.value, float)):
            return node.value
    raise DomainError(
        f"{name}(): {_source(node)} is not a value; "
        f"values are integers, True, False or text in quotes, as in {_EXAMPLES[name][1]}"
    )


def _refuse_joined_text(text: str) -> None:
    """Refuse 'a' 'b', which Python would silently read as 'ab'."""
    ignored = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    kinds = [
        token.type for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in ignored
    ]
    if any(one == next_one == tokenize.STRING for one, next_one in pairwise(kinds)):
        raise DomainError(f"in {show(text)} two texts stand side by side; put a comma between them")


def _advice() -> str:
    return "write one of " + ", ".join(example for _, example in _EXAMPLES.values())


def _source(node: ast.expr) -> str:
    return show(ast.unparse(node))
