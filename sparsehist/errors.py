"""Exceptions and warnings of sparsehist.

`SparsehistError` is the base class. Its subclasses are `InputError` for bad input, `RefusedError` for privacy limits,
`StoreError` for stores, and `LawError` for bugs. Each class has an exit code for the command line: 3 for
`RefusedError`, 4 for a store in use, 5 for a series that differs from the request, and 2 for all others.

An engine's message may quote a key or a unit. So `raise_alone` replaces the engine's error with an error that has
no reference to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

_Value = TypeVar("_Value")
_Key = TypeVar("_Key")
_Read = TypeVar("_Read")


def printable(text: str, *, keep: str = "") -> str:
    """Return a text with control and invisible characters escaped, because it may contain hostile names and keys."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text)


_LONGEST_SHOWN, _LONGEST_NUMBER = 200, 60


def shown(value: object) -> str:
    """Return a value as text for error messages: numbers, dates and short strings in full, other values only by type.

    A wrong argument may be a frame, a column or a list with data of the log, so errors must not show it.
    """
    if isinstance(value, Fraction | Decimal | date):
        return str(value)
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_NUMBER:
        return f"a number of over {_LONGEST_NUMBER} digits"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return f"a string of over {_LONGEST_SHOWN} characters"
    if value is None or isinstance(value, int | float | str):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def read_each(name: str, values: object, read: Callable[[Any], _Read], rule: str) -> list[_Read]:
    """Read the entries of a list. Errors show only the position of an entry, because entries may be secret data.

    A value that is not a list or tuple is read as a single entry. `read` converts an entry or raises an `InputError`;
    `rule` completes the message "must each be …".
    """
    if not isinstance(values, list | tuple):
        return [read(values)]
    entries = []
    for number, value in enumerate(values, 1):
        try:
            entries.append(read(value))
        except InputError as error:
            raise_alone(type(error)(f"{name} must each be {rule}; entry {number} is not"))
    return entries


def as_mapping(name: str, value: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
    """Return a mapping as a dict. Raise an error that shows only the type of any other value."""
    if not isinstance(value, Mapping):
        raise DeclarationError(f"{name} must be a mapping, got {shown(value)}")
    return dict(value)


_IN_URL = re.compile(r"(?<=://)[^\s'\"]*@|(?<=\?)[^\s'\"]*=[^\s'\"]*")
# An SQL literal in single, double or dollar quotes. Repetitions are bounded to keep matching fast.
_LITERAL = r"""(?:[a-z]?'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w{0,40})\$.{0,2000}?\$\%d\$)"""
_NAMED = r"(?:secret|token|passw|pwd|connection_?string|account_?key|access_?key|key_?id|authorization)\w{0,40}"
_BETWEEN = r"(?:\s|[:=>(]|\bto\b|/\*.{0,200}?\*/){1,200}"
_FLAGS = re.IGNORECASE | re.DOTALL
_GIVEN = re.compile(rf"({_NAMED}(?:{_BETWEEN}|['\"]\s{{0,40}}[:=]\s{{0,40}})){_LITERAL % 2}", _FLAGS)
_INSIDE = re.compile(rf"({_NAMED}\s{{0,40}}=\s{{0,40}}|\bbearer\s{{1,40}})[^\s;'\"$…>]+", _FLAGS)
# Statements that create secrets or attach databases. All literals in them are hidden in error messages.
_STATEMENT = re.compile(
    r"\b(?:create\s{1,40}(?:or\s{1,40}replace\s{1,40})?(?:\w{1,40}\s{1,40})?secret\b|attach(?:\s{1,40}\w{1,40}){0,3}\s{0,40}(?=['$])).*",
    _FLAGS,
)
_ANY_LITERAL = re.compile(_LITERAL % 1, _FLAGS)


def without_credentials(text: str) -> str:
    """Return a text without recognisable credentials, such as passwords in URLs and secrets in SQL statements."""
    text = _IN_URL.sub("…", text) if "://" in text else text
    text = _STATEMENT.sub(lambda found: _ANY_LITERAL.sub("'…'", found[0]), text)
    return _INSIDE.sub(r"\1…", _GIVEN.sub(r"\1'…'", text))


class SparsehistError(Exception):
    """Base class of all errors of this package.

    A message may name columns and files. Credentials in a message are hidden, and control characters are escaped.

    Attributes:
        parameter: Name of the wrong parameter of the Python interface, if any.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        super().__init__(without_credentials(message))
        self.parameter = parameter

    def __str__(self) -> str:
        """Return the message; control characters other than line breaks and tabs are escaped."""
        return printable(without_credentials(super().__str__()), keep="\n\t")

    def __repr__(self) -> str:
        """Return the name of the class with the message."""
        return f"{type(self).__name__}({str(self)!r})"


class InputError(SparsehistError, ValueError):
    """Bad input; raised before anything is drawn or written."""


class DeclarationError(InputError):
    """A declared (public) parameter is wrong."""


class LevelError(DeclarationError):
    """A level is not a positive, finite number."""


class LevelOrderError(DeclarationError):
    """Levels are in an order that the call does not allow."""


class ThresholdError(DeclarationError):
    """A threshold is outside the range of possible thresholds."""


class DomainError(DeclarationError):
    """A domain cannot be built or parsed."""


class StatementError(DeclarationError):
    """An SQL statement cannot be parsed or run; the message shows the position and what was expected."""


class GuaranteeError(StatementError):
    """A query may break the guarantee: rows of a unit may depend on other units. The message says what to change."""


class NotAllowedError(StatementError):
    """A session that may only read published releases cannot run this statement."""


class DataError(InputError):
    """The data are invalid: for example, a key is outside the domain. The message never contains a key or a unit."""


class NameTakenError(InputError):
    """The name already belongs to a series, or to a release that was made with other parameters."""


class SeriesDiffersError(NameTakenError):
    """The existing series with this name has a different declaration, query or log."""

    exit_code = 5


class NotFoundError(InputError):
    """A store, series, release or file does not exist, or an optional dependency is not installed."""


class RefusedError(SparsehistError):
    """A privacy limit, such as a cap or a budget, forbids the request. A refused request costs nothing."""

    exit_code = 3


class CapExceededError(RefusedError):
    """The release would exceed the cap of the series."""


class BudgetExceededError(RefusedError):
    """A release would exceed the population's budget, or the budget's route does not fit the noise of a series."""


class LawError(SparsehistError):
    """A bug in this package: noise has the wrong distribution, or internal data do not match. Nothing is released.

    `promise`, `present` and `of_kind` raise this error. These functions replace `assert`, which `python -O` removes.
    """


class StoreError(SparsehistError):
    """The store cannot be used."""


class StoreInUseError(StoreError):
    """Another process or thread is using the store."""

    exit_code = 4


class StoreDamagedError(StoreError):
    """A file of the store is missing, truncated or altered."""


class StoreRolledBackError(StoreError):
    """The store is a copy, or it was restored from a copy that lacks later releases."""


def promise(condition: object, what: str) -> None:
    """Raise a LawError with the text `what` unless the condition holds."""
    if not condition:
        raise LawError(what)


def present(value: _Value | None) -> _Value:
    """Return the value. If it is None, which would be a bug in this package, raise a LawError."""
    if value is None:
        raise LawError("a value that must not be None is None")
    return value


class CountsWarning(UserWarning):
    """Answers to a workload may count a unit more than once; the message says how to count each unit once."""


def of_kind(value: object, kind: type[_Value]) -> _Value:
    """Return the value if it is an instance of `kind`; otherwise raise a LawError that names both types."""
    if not isinstance(value, kind):
        raise LawError(f"a value has the type {type(value).__name__} instead of {kind.__name__}")
    return value


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error without a reference to the error being handled.

    `raise … from None` hides the handled error in tracebacks only; error trackers could still read its `__context__`.
    """
    try:
        raise error  # noqa: TRY301  this sets the context, which is removed below
    except BaseException:
        error.__context__ = None
        raise


@contextmanager
def needing(what: str, install: str) -> Iterator[None]:
    """If an import in the block fails, raise a NotFoundError with the packages for `pip install`."""
    try:
        yield
    except ImportError:
        raise_alone(NotFoundError(f"{what} needs packages that are not installed: pip install {install}"))
