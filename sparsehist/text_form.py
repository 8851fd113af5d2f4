"""Read and write domains, workloads and strategies as text, which is parsed as Python but never evaluated.

The grammar is given below. The modules for domains, workloads and strategies define the names and their meaning.

form     := name(argument, …)           a strategy without parameters may be its name alone
argument := value | key=value | **{'any name': value, …}
value    := integer, real number, True, False, None, text in quotes, (value, …), [value, …] or a form
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from sparsehist.errors import DeclarationError, shown

_CONSTANTS = (int, float, bool, str, type(None))
_Kind = TypeVar("_Kind")


def write_call(name: str, values: Sequence[str], named: Mapping[str, str]) -> str:
    """Return the text ``name(value, …, key=value, …)``. The values must already be text."""
    if all(map(_is_plain_name, named)):
        arguments = [f"{key}={value}" for key, value in named.items()]
    else:  # if any name needs quotes, write all named arguments as one dict, which keeps their order
        arguments = ["**{" + ", ".join(f"{write_literal(key)}: {value}" for key, value in named.items()) + "}"]
    return f"{name}({', '.join([*values, *arguments])})"


def write_literal(value: str | int | date) -> str:
    """Write one value: an integer, True, False, or text in single quotes."""
    if not isinstance(value, str):
        return f"'{value}'" if isinstance(value, date) else repr(value)
    # `repr` would put some texts in double quotes. With a double quote prepended to the text, it uses single quotes.
    return "'" + repr('"' + value)[2:]


@dataclass(frozen=True, repr=False)
class Form:
    """The result of parsing a text such as integers(24): a name and its arguments, which may themselves be forms."""

    name: str
    values: tuple[Any, ...]
    named: Mapping[str, Any]
    node: ast.expr

    def __repr__(self) -> str:
        return ast.unparse(self.node)


@dataclass(frozen=True)
class Notation:
    """Rules for parsing texts of one kind, such as the texts that describe domains."""

    what: str  # what error messages call a text in this notation, such as "domain" or "strategy"
    values: str  # the allowed arguments, in words for error messages
    advice: Callable[[], str]  # returns a hint that is added to every error message
    error: type[DeclarationError] = DeclarationError
    bare: bool = False  # whether a name alone, without parentheses, is allowed

    def read(self, text: str) -> Form:
        """Parse a text as a form. Raise `error` if the text is not a form."""
        if not isinstance(text, str):
            raise self.error(f"a {self.what} must be a string, got {shown(text)}; {self.advice()}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            self._refuse_joined_text(text.strip())
            return self._form(tree.body)
        except DeclarationError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
            reason = getattr(error, "msg", None) or str(error) or type(error).__name__
            if "leading zeros" in reason:  # Python reads 2026-01-31 as a subtraction
                reason = "write dates in quotes, such as '2026-01-31'"
            raise self.error(f"cannot read the {self.what} {shown(text)}: {reason}; {self.advice()}") from None

    def kind(self, form: Form, kinds: Mapping[str, _Kind]) -> _Kind:
        """Look up the name of a form, ignoring case, in a dict whose keys are the allowed names."""
        if form.name.lower() not in kinds:
            raise self.error(f"there is no {self.what} {shown(form.name)}; {self.advice()}")
        return kinds[form.name.lower()]

    def record(self, text: str, kinds: Mapping[str, Callable[..., _Kind]]) -> _Kind:
        """Parse a form, look up its name in the dict `kinds`, and call the entry with the arguments of the form."""
        form = self.read(text)
        try:
            return self.kind(form, kinds)(*form.values, **form.named)
        except TypeError:
            raise self.error(f"{self.what} {shown(text)} has an unknown argument") from None

    def form(self, value: object) -> Form:
        """Return the value if it is a form; otherwise, raise an error."""
        if isinstance(value, Form):
            return value
        raise self.error(f"{_source(value)} is not a {self.what}; {self.advice()}")

    def refuse(self, value: object, form: Form) -> NoReturn:
        """Refuse a value as an argument of a form, with an error that lists the allowed values."""
        self._refuse(_source(value), form.name)

    def _refuse(self, source: str, name: str) -> NoReturn:
        raise self.error(f"not a value for {name.lower()}(): {source}; values are {self.values}; {self.advice()}")

    def _form(self, node: ast.expr) -> Form:
        if self.bare and isinstance(node, ast.Name):
            return Form(node.id, (), {}, node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise self.error(f"{_source(node)} is not a {self.what}; {self.advice()}")
        name = node.func.id
        named: dict[str, Any] = {}
        for key, value in (pair for word in node.keywords for pair in self._pairs(word)):
            if key in named:
                raise self.error(f"{name}() has {shown(key)} twice")
            named[key] = self._value(value, name)
        return Form(name, tuple(self._value(value, name) for value in node.args), named, node)

    def _value(self, node: ast.expr, name: str) -> Any:
        if isinstance(node, ast.Call) or (self.bare and isinstance(node, ast.Name)):
            return self._form(node)
        if isinstance(node, ast.Tuple | ast.List):
            items = [self._value(item, name) for item in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = node.operand.value
            return -number if type(number) is int else self._refuse(_source(node), name)
        if isinstance(node, ast.Constant) and type(node.value) in _CONSTANTS:
            return node.value
        return self._refuse(_source(node), name)

    def _pairs(self, word: ast.keyword) -> Iterable[tuple[str, ast.expr]]:
        """Return the name and value of one argument, or all names and values of ``**{'any name': value, …}``."""
        if word.arg is not None:
            return [(word.arg, word.value)]
        names: list[Any] = [getattr(key, "value", None) for key in getattr(word.value, "keys", [None])]
        if not all(isinstance(name, str) for name in names):
            raise self.error(f"** needs names in quotes, such as **{{'a name': …}}, got {_source(word.value)}")
        return zip(names, word.value.values, strict=True)  # type: ignore[attr-defined] # the value is a dictionary

    def _refuse_joined_text(self, text: str) -> None:
        """Raise an error for two strings without a comma between them, because Python would read 'a' 'b' as 'ab'."""
        ignored = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        kinds = [token.type for token in tokens if token.type not in ignored]
        if any(one == next_one == tokenize.STRING for one, next_one in pairwise(kinds)):
            raise self.error(f"{shown(text)} has two strings side by side; put a comma between them")


def _source(value: object) -> str:
    """Return the source text of a value, for error messages."""
    return shown(
        value if isinstance(value, int) else ast.unparse(value) if isinstance(value, ast.AST) else repr(value)
    )


def _is_plain_name(name: str) -> bool:
    # Python normalises non-ASCII identifiers, so a non-ASCII name could change when the text is read.
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
