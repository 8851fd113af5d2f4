"""Parameters: dataclass fields with everything that Python, command line, SQL and store need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any, TypeVar

from sparsehist.declaration.checks import checked_choice, checked_whole
from sparsehist.errors import DeclarationError
from sparsehist.privacy.levels import level_text
from sparsehist.text_form import Notation, write_call, write_literal

_KEY = "parameter"
_LONGEST_NUMBER = 8
_Kind = TypeVar("_Kind")


def _for_people(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Fraction):
        return level_text(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Parameter:
    """The properties of one parameter besides its name."""

    help: str  # one sentence or two; `--help`, the reference pages and errors of SQL show it
    default: Any = MISSING
    least: int = 0  # bounds of a whole number
    most: int | None = None
    choices: tuple[Any, ...] = ()  # the values it may have
    read: Callable[[Any], Any] | None = None  # converts a given value to the canonical one
    show: Callable[[Any], str] | None = _for_people  # converts the value to text for people; None if it is hidden
    option: Any = str  # type on the command line; None if the command line does not take it
    sql: bool = True  # whether WITH (…) of SQL takes it
    example: str = ""  # a value as SQL writes it
    compared: bool = True  # whether records with different values are different

    def checked(self, name: str, value: Any) -> Any:
        """Return the canonical value, or raise a DeclarationError that names the parameter and its allowed values."""
        try:
            if self.choices or isinstance(self.default, bool):
                checked_choice(name, value, self.choices or (True, False))
            elif self.most is not None:
                checked_whole(name, value, self.least, self.most)
            return value if self.read is None else self.read(value)
        except DeclarationError as error:
            error.parameter = name
            raise


def parameter(help: str = "", default: Any = MISSING, **about: Any) -> Any:  # noqa: A002 - as --help has it
    """Declare a field of a record to be a parameter; `about` are attributes of `Parameter`."""
    return field(default=default, metadata={_KEY: Parameter(help, default, **about)})


def parameters(record: Any) -> dict[str, Parameter]:
    """Return the parameters of a class or an instance, by the names of their fields, in order."""
    return {each.name: each.metadata[_KEY] for each in fields(record) if _KEY in each.metadata}


class Record:
    """Base class of frozen dataclasses of parameters: instances hold canonical values; None means the default."""

    def __post_init__(self) -> None:
        for name, about in parameters(self).items():
            value = getattr(self, name)
            if value is not None or about.default is not None:
                self._fix(name, about.checked(name, value))

    def _fix(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """Return the text of a record: required parameters, then those that differ from their defaults."""
        values, named = list[str](), dict[str, str]()
        for name, about in parameters(self).items():
            value = getattr(self, name)
            if about.default is MISSING:
                values.append(write_literal(value))
            elif about.compared and value != about.default:
                named[name] = write_literal(value)
        word = type(self).__name__.lower()
        return write_call(word, values, named) if values or named else word


def reader(what: str, advice: str, *kinds: type[_Kind]) -> Callable[[Any], _Kind]:
    """Make a function that reads a record of these classes: itself, its text, or (of one class) an argument."""
    words: dict[str, Callable[..., _Kind]] = {kind.__name__.lower(): kind for kind in kinds}
    notation = Notation(what, "numbers, texts, True and False", lambda: advice, bare=True)

    def read(value: Any) -> _Kind:
        if isinstance(value, kinds):
            return value
        if len(kinds) > 1 or (isinstance(value, str) and "(" in value):
            return notation.record(value, words)
        digits = isinstance(value, str) and value.strip().isdecimal() and len(value) <= _LONGEST_NUMBER
        return words[kinds[0].__name__.lower()](int(value) if digits else value)

    return read


def json_of(record: Any) -> dict[str, Any]:
    """Return an instance as JSON: every parameter except those that are None by default."""
    values = {name: getattr(record, name) for name in parameters(record)}
    return {name: _as_json(value) for name, value in values.items() if value is not None}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_as_json, value))
    if isinstance(value, Fraction):
        return level_text(value)
    return value if isinstance(value, str | int) else str(value)


def rows(record: Any) -> list[tuple[str, str]]:
    """Return name and value of every parameter that people see."""
    known = [(name, about.show, getattr(record, name)) for name, about in parameters(record).items()]
    return [(name, text) for name, show, value in known if show and value is not None and (text := show(value))]


def sql_words(record: Any) -> list[str]:
    """Return the words of WITH (…), which are names of fields; those without a default first."""
    words = [name for name, about in parameters(record).items() if about.sql]
    return sorted(words, key=lambda name: name not in needed(record))


def needed(record: Any) -> list[str]:
    """Parameters without a default."""
    return [name for name, about in parameters(record).items() if about.default is MISSING]
