"""Dataclass fields with help, bounds and other properties for the command line, SQL and the store."""

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


def _readable(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Fraction):
        return level_text(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Parameter:
    """All properties of a parameter except its name."""

    help: str  # one or two sentences for `--help`, the reference pages and errors of SQL
    default: Any = MISSING
    least: int = 0  # smallest allowed whole number
    most: int | None = None  # largest allowed whole number
    choices: tuple[Any, ...] = ()  # the allowed values; empty if they are not limited to a list
    read: Callable[[Any], Any] | None = None  # function that converts a given value to its canonical form
    show: Callable[[Any], str] | None = _readable  # formats the value for tables; if None, tables do not show it
    option: Any = str  # type of the command-line option; None if there is no option
    sql: bool = True  # whether SQL accepts the parameter in WITH (…)
    example: str = ""  # an example value in SQL
    compared: bool = True  # whether the value matters when records are compared

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


def parameter(help: str = "", default: Any = MISSING, **properties: Any) -> Any:  # noqa: A002  named like --help
    """Return a dataclass field for a parameter; `properties` are attributes of `Parameter`."""
    return field(default=default, metadata={_KEY: Parameter(help, default, **properties)})


def parameters(record: Any) -> dict[str, Parameter]:
    """Return a dict from name to `Parameter` for a record class or instance, in the order of the fields."""
    return {each.name: each.metadata[_KEY] for each in fields(record) if _KEY in each.metadata}


class Record:
    """Base class of frozen dataclasses whose fields are parameters. Values are stored in canonical form."""

    def __post_init__(self) -> None:
        for name, definition in parameters(self).items():
            value = getattr(self, name)
            if value is not None or definition.default is not None:
                self._fix(name, definition.checked(name, value))

    def _fix(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """Return the text form of the record: required parameters, then others that differ from their defaults."""
        values, named = list[str](), dict[str, str]()
        for name, definition in parameters(self).items():
            value = getattr(self, name)
            if definition.default is MISSING:
                values.append(write_literal(value))
            elif definition.compared and value != definition.default:
                named[name] = write_literal(value)
        word = type(self).__name__.lower()
        return write_call(word, values, named) if values or named else word


def reader(what: str, advice: str, *kinds: type[_Kind]) -> Callable[[Any], _Kind]:
    """Return a function that parses text as an instance of a class in `kinds`, and returns instances unchanged."""
    words: dict[str, Callable[..., _Kind]] = {kind.__name__.lower(): kind for kind in kinds}
    notation = Notation(what, "numbers, strings, True and False", lambda: advice, bare=True)

    def read(value: Any) -> _Kind:
        if isinstance(value, kinds):
            return value
        if len(kinds) > 1 or (isinstance(value, str) and "(" in value):
            return notation.record(value, words)
        digits = isinstance(value, str) and value.strip().isdecimal() and len(value) <= _LONGEST_NUMBER
        return words[kinds[0].__name__.lower()](int(value) if digits else value)

    return read


def json_of(record: Any) -> dict[str, Any]:
    """Return the parameters of a record as JSON values, without parameters that are None."""
    values = {name: getattr(record, name) for name in parameters(record)}
    return {name: _as_json(value) for name, value in values.items() if value is not None}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_as_json, value))
    if isinstance(value, Fraction):
        return level_text(value)
    return value if isinstance(value, str | int) else str(value)


def rows(record: Any) -> list[tuple[str, str]]:
    """Return pairs (name, human-readable value) of all parameters that are not hidden."""
    all_rows = [(name, each.show, getattr(record, name)) for name, each in parameters(record).items()]
    return [(name, text) for name, show, value in all_rows if show and value is not None and (text := show(value))]


def sql_words(record: Any) -> list[str]:
    """Return the names of the parameters that SQL accepts in WITH (…), required parameters first."""
    words = [name for name, definition in parameters(record).items() if definition.sql]
    return sorted(words, key=lambda name: name not in needed(record))


def needed(record: Any) -> list[str]:
    """Return the names of the parameters without a default."""
    return [name for name, definition in parameters(record).items() if definition.default is MISSING]
