"""Parameters: dataclass fields with everything that Python, command line, SQL and store need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from sparsehist.declaration.checks import checked_choice, checked_flag, checked_whole
from sparsehist.errors import DeclarationError, shown
from sparsehist.text_form import Notation, write_call, write_literal

_KEY = "parameter"
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Parameter:
    """The properties of one parameter besides its name."""

    help: str  # one sentence or two; `--help`, the reference pages and errors of SQL show it
    default: Any = MISSING
    title: str = ""  # its name in tables for people; empty if it is not shown
    least: int = 0  # bounds of a whole number
    most: int | None = None
    choices: tuple[str, ...] = ()  # the texts it may have
    read: Callable[[Any], Any] | None = None  # converts a given value to the canonical one
    write: Callable[[Any], Any] | None = None  # converts the canonical value to JSON; by default its text
    show: Callable[[Any], str] = str  # converts the value to text for people; empty if it is not shown
    option: Any = None  # type on the command line; None if the command line does not take it
    sql: str | None = ""  # word in WITH (…); None if SQL does not take it, "" for the name of the field
    several: bool = False  # whether SQL may give a list
    example: str = ""  # a value as SQL writes it
    compared: bool = True  # whether records with different values are different

    def checked(self, name: str, value: Any) -> Any:
        """Return the canonical value, or raise a DeclarationError that names the parameter and its allowed values."""
        try:
            if self.choices:
                checked_choice(name, value, self.choices)
            elif self.most is not None:
                checked_whole(name, value, self.least, self.most)
            elif isinstance(self.default, bool):
                checked_flag(name, value)
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
        known = {name: about for name, about in parameters(self).items() if about.compared}
        texts = {name: write_literal(getattr(self, name)) for name in known}
        values = [texts[name] for name, about in known.items() if about.default is MISSING]
        named = {
            name: texts[name]
            for name, about in known.items()
            if about.default is not MISSING and getattr(self, name) != about.default
        }
        word = type(self).__name__.lower()
        return write_call(word, values, named) if values or named else word


def reader(what: str, advice: str, *kinds: type[_Kind]) -> Callable[[Any], _Kind]:
    """Make a function that reads a record of these kinds: itself, its text, or (of one kind) its first argument."""
    words: dict[str, Callable[..., _Kind]] = {kind.__name__.lower(): kind for kind in kinds}
    first: Callable[[Any], _Kind] = kinds[0]
    notation = Notation(what, "numbers, texts, True and False", lambda: advice, bare=True)

    def read(given: Any) -> _Kind:
        if isinstance(given, kinds):
            return given
        if isinstance(given, str) and (len(kinds) > 1 or "(" in given):
            return notation.record(given, words)
        if len(kinds) > 1:
            raise DeclarationError(f"cannot read the {what} {shown(given)}; {advice}")
        return first(given)

    return read


def written(record: Any) -> dict[str, Any]:
    """Return an instance as JSON: every parameter except those that are None by default."""
    known = {name: (getattr(record, name), about.write or _as_json) for name, about in parameters(record).items()}
    return {name: write(value) for name, (value, write) in known.items() if value is not None}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_as_json, value))
    return value if isinstance(value, str | int) else str(value)


def rows(record: Any) -> list[tuple[str, str]]:
    """Return title and value of every parameter that people see."""
    known = [(about, getattr(record, name)) for name, about in parameters(record).items() if about.title]
    texts = [(about.title, about.show(value)) for about, value in known if value is not None]
    return [(title, text) for title, text in texts if text]


def sql_words(record: Any) -> dict[str, str]:
    """Return the words of WITH (…) and their fields; those without a default first."""
    known = sorted(parameters(record).items(), key=lambda each: each[1].default is not MISSING)
    return {about.sql or name: name for name, about in known if about.sql is not None}


def needed(record: Any) -> list[str]:
    """Parameters without a default."""
    return [name for name, about in parameters(record).items() if about.default is MISSING]
