"""How domains and their arguments are written, and read with Python's parser but never evaluated.

domain  := name(argument, …)            strings, integers, dates, catalogue, hash64, open or product
argument := value | column=value        values are integers, True, False, text in quotes; domains in product()
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist.errors import DomainError

if TYPE_CHECKING:
    from sparsehist.domain.base import Domain

_SHOWN_DIGITS = 60
_SHOWN_LETTERS = 80


def write_call(name: str, values: Sequence[str], named: Mapping[str, str]) -> str:
    """Write ``name(values…, named…)`` from arguments that are text already."""
    plain = [f"{key}={value}" for key, value in named.items() if _is_plain_name(key)]
    quoted = [f"{write_literal(key)}: {value}" for key, value in named.items() if not _is_plain_name(key)]
    if quoted and plain:  # in one dictionary, since the order of columns matters
        quoted, plain = [f"{write_literal(key)}: {value}" for key, value in named.items()], []
    return f"{name}({', '.join([*values, *plain, *(['**{' + ', '.join(quoted) + '}'] if quoted else [])])})"


def write_literal(value: str | int | date) -> str:
    """Write one value: an integer, True, False, or text in single quotes."""
    if not isinstance(value, str):
        return f"'{value}'" if isinstance(value, date) else repr(value)
    # The leading double quote makes repr choose single quotes, always: the same value has one text.
    return "'" + repr('"' + value)[2:]


def show(value: object) -> str:
    """Show an argument in an error, in one short line whatever it is."""
    if isinstance(value, int) and abs(value) >= 10**_SHOWN_DIGITS:  # Python refuses to write very large ones
        return f"an integer of more than {_SHOWN_DIGITS} digits"
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 1]}…"


class Reader:
    """Reads the textual form of domains.

    Args:
        kinds: The domains there are, by name.
        files: Paths of copies to read instead of catalogue files, by the sha256 in the text.
    """

    def __init__(self, kinds: Mapping[str, type[Domain]], files: Mapping[str, Path]) -> None:
        self._kinds = kinds
        self._files = files

    def read(self, text: str) -> Domain:
        """Read a domain; see `Domain.parse`."""
        if not isinstance(text, str):
            raise DomainError(f"a domain is written as text, got {show(text)}; for example strings(max_bytes=32)")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            _refuse_joined_text(text.strip())
            return self._domain(tree.body)
        except DomainError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
            reason = getattr(error, "msg", None) or str(error) or type(error).__name__
            raise DomainError(f"cannot read the domain {show(text)}: {reason}; {self._advice()}") from None

    def _domain(self, node: ast.expr) -> Domain:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise DomainError(f"{_source(node)} is no domain; {self._advice()}")
        name = node.func.id.lower()
        if name not in self._kinds:
            raise DomainError(f"there is no domain {show(node.func.id)}; {self._advice()}")
        kind = self._kinds[name]
        values = [self._argument(value, name, kind) for value in node.args]
        named: dict[str, Any] = {}
        for key, value in (pair for word in node.keywords for pair in _pairs(word)):
            if key in named:
                raise DomainError(f"{name}() has {show(key)} twice")
            named[key] = self._argument(value, name, kind)
        return kind.read(values, named, self._files)

    def _argument(self, node: ast.expr, name: str, kind: type[Domain]) -> Any:
        if kind.of_domains:
            return self._domain(node)
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
            f"values are integers, True, False or text in quotes, as in {kind.example}"
        )

    def _advice(self) -> str:
        return "write one of " + ", ".join(kind.example for kind in reversed([*self._kinds.values()]))


def _pairs(word: ast.keyword) -> list[tuple[str, ast.expr]]:
    """One argument, or those of ``**{'any name': …}``, for names that are no Python identifiers."""
    if word.arg is not None:
        return [(word.arg, word.value)]
    if not isinstance(word.value, ast.Dict):
        raise DomainError(f"** needs names in braces, such as **{{'a name': …}}, got {_source(word.value)}")
    pairs = []
    for key, value in zip(word.value.keys, word.value.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise DomainError("** needs names that are text, such as **{'a name': …}")
        pairs.append((key.value, value))
    return pairs


def _refuse_joined_text(text: str) -> None:
    """Refuse 'a' 'b', which Python would silently read as 'ab'."""
    ignored = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    kinds = [
        token.type for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in ignored
    ]
    if any(one == next_one == tokenize.STRING for one, next_one in pairwise(kinds)):
        raise DomainError(f"{show(text)} has two texts side by side; put a comma between them")


def _source(node: ast.expr) -> str:
    return show(ast.unparse(node))


def _is_plain_name(name: str) -> bool:
    # Python normalises non-ASCII identifiers when it reads them: those would come back as another text
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
