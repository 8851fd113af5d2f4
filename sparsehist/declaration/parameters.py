"""Parameters: dataclass fields with everything that Python, command line, SQL and store need to know of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from sparsehist.declaration.checks import checked_choice, checked_whole

_KEY = "parameter"


@dataclass(frozen=True)
class Parameter:
    """The properties of one parameter besides its name and default."""

    help: str  # one sentence or two; `--help`, the reference pages and errors of SQL show it
    title: str = ""  # its name in tables for people; empty if it is not shown
    least: int | None = None  # bounds of a whole number
    most: int | None = None
    choices: tuple[str, ...] = ()  # the texts it may have
    read: Callable[[Any], Any] | None = None  # makes the canonical value of whatever is given
    write: Callable[[Any], Any] | None = None  # makes what JSON can hold of the canonical value
    show: Callable[[Any], str] | None = None  # makes the text for people; empty where there is nothing to say
    option: Any = None  # type on the command line; None if the command line does not take it
    sql: str | None = ""  # word in WITH (…); None if SQL does not take it, "" for the name of the field
    several: bool = False  # whether SQL may give a list
    example: str = ""  # a value as SQL writes it
    compared: bool = True  # whether series with different values are different series

    def checked(self, name: str, value: Any) -> Any:
        """Return the canonical value, or raise a DeclarationError that names the parameter and what it may be."""
        if self.choices:
            checked_choice(name, value, self.choices)
        elif self.most is not None:
            checked_whole(name, value, self.least or 0, self.most)
        return value if self.read is None else self.read(value)


def parameter(help: str, default: Any = MISSING, **about: Any) -> Any:  # noqa: A002 - as --help has it
    """Declare a field of a frozen dataclass to be a parameter; `about` are attributes of `Parameter`."""
    return field(default=default, metadata={_KEY: Parameter(help, **about)})


def parameters(record: Any) -> dict[str, Parameter]:
    """The parameters of a class or an instance, by the names of their fields, in order."""
    return {each.name: each.metadata[_KEY] for each in fields(record) if _KEY in each.metadata}


def check_fields(record: Any) -> None:
    """Replace every parameter of a new frozen instance by its canonical value; None stays where it is the default."""
    for each in fields(record):
        about: Parameter | None = each.metadata.get(_KEY)
        value = getattr(record, each.name)
        if about is not None and not (value is None and each.default is None):
            object.__setattr__(record, each.name, about.checked(each.name, value))


def written(record: Any) -> dict[str, Any]:
    """An instance as JSON: every parameter except those that are None by default."""
    found = {}
    for name, about in parameters(record).items():
        value = getattr(record, name)
        if value is not None:
            found[name] = value if about.write is None else about.write(value)
    return found


def rows(record: Any) -> list[tuple[str, str]]:
    """Title and value of every parameter that people are shown."""
    found = []
    for name, about in parameters(record).items():
        value = getattr(record, name)
        if about.title and value is not None:
            text = str(value) if about.show is None else about.show(value)
            found += [(about.title, text)] if text else []
    return found


def sql_words(record: Any) -> dict[str, str]:
    """The words of WITH (…) and their fields; those without a default first."""
    known = [each for each in fields(record) if _KEY in each.metadata and each.metadata[_KEY].sql is not None]
    known.sort(key=lambda each: each.default is not MISSING)
    return {each.metadata[_KEY].sql or each.name: each.name for each in known}


def needed(record: Any) -> list[str]:
    """Fields without a default."""
    return [each.name for each in fields(record) if _KEY in each.metadata and each.default is MISSING]


def options(record: Any) -> Mapping[str, tuple[Any, Field[Any]]]:
    """The parameters that the command line takes: type and field by name."""
    return {
        each.name: (each.metadata[_KEY].option, each)
        for each in fields(record)
        if _KEY in each.metadata and each.metadata[_KEY].option is not None
    }
