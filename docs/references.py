"""Write the references of the command line and of SQL from the code: `python docs/references.py`.

A test compares the pages in docs/ with the output of this script.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App

from sparsehist.cli.app import app, load
from sparsehist.counting import Counting
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameters, sql_words
from sparsehist.guarantee import language
from sparsehist.series.create import create
from sparsehist.series.series import Series
from sparsehist.sqlfront.checking import NEEDED, OPTIONS
from sparsehist.sqlfront.reading import FORMS
from sparsehist.sqlfront.results import TAKEN_NAMES

DOCS = Path(__file__).parent
_MADE = "Made from the code by `python docs/references.py`."


def command_line() -> str:
    """Return the page of all commands with their options, as `--help` shows them."""
    about = f"{_MADE} The page on the [command line](command_line.md) has a complete example."
    parts = ["# Reference of the command line", about, _as_markdown(app.help_epilogue)]
    for name in sorted(name for name in app if not name.startswith("-")):
        load(name)
        parts += _of_command(name, app[name])
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_command(name: str, command: App) -> list[str]:
    """Return the sections of a command, or of the commands of a group."""
    if command.default_command is None:
        grouped = [word for word in command if not word.startswith("-")]
        return [part for word in grouped for part in _of_command(f"{name} {word}", command[word])]
    listed = [
        _option(argument)
        for argument in command.assemble_argument_collection(
            default_parameter=app.default_parameter, parse_docstring=True
        )
        if argument.show
    ]
    return [f"## {name}", _as_markdown(command.help.partition("Args:")[0]), "\n".join(listed)]


def _option(argument: Any) -> str:
    """Return the item of an option: names, values and help."""
    choices = [
        str(choice) for part in _parts(argument.hint) if get_origin(part) is Literal for choice in get_args(part)
    ]
    default = argument.field_info.default
    notes = ["required"] * argument.required + [f"one of {', '.join(choices)}"] * bool(choices)
    if default not in (None, False, inspect.Parameter.empty):
        notes.append(f"default `{default}`")
    names = ", ".join(f"`{name}`" for name in argument.names)
    noted = f" ({'; '.join(notes)})" if notes else ""
    return textwrap.fill(
        f"- {names}{noted}: {_escaped(argument.parameter.help or '')}",
        118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all of its arguments."""
    yield hint
    if get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from _parts(part)


def _as_markdown(text: str) -> str:
    """Return a docstring as Markdown; indented lines become a block of code."""
    blocks = re.split(r"((?:^  .*\n?)+)", inspect.cleandoc(text) + "\n", flags=re.MULTILINE)
    blocks[1::2] = [f"\n```console\n{textwrap.dedent(block).rstrip()}\n```\n" for block in blocks[1::2]]
    blocks[::2] = [_escaped(block) for block in blocks[::2]]
    return "".join(blocks).strip()


def _escaped(text: str) -> str:
    """Escape special characters of Markdown outside code spans."""
    spans = re.split(r"(`[^`]*`)", text)
    spans[::2] = [re.sub(r"([*<\[|])", r"\\\1", span) for span in spans[::2]]
    return "".join(spans)


def sql() -> str:
    """Return the page of SQL statements with their clauses and options."""
    syntax = [f"`{form}`" for form in FORMS]
    (release,) = (form for form in FORMS if form.words == "RELEASE")
    said = _arguments(Series.release)
    said |= {"target": "The file to write: .parquet with metadata, or .csv.", "series": "The series."}
    clauses = [(f"`{clause}`", said[clause.field]) for clause in release.clauses]
    said = _options_help() | {
        "public_tables": "Tables without data of any unit, which a query may join.",
        "memory_limit": "Memory that counting may take, such as 4GB.",
        "threads": "Threads that count.",
    }
    values = "a number, text in quotes, a name, `true` or `false`, or several names in parentheses"
    taken = ", ".join(f"`{word}`" for word in sorted(TAKEN_NAMES))
    parts = [
        "# Reference of SQL",
        f"{_MADE} The page on [SQL](sql.md) has examples. All other statements are DuckDB's.",
        "## Statements",
        "\n".join(f"- {statements}" for statements in syntax),
        "## Clauses of RELEASE and PLAN",
        "They may come in any order, each once. A plan takes several levels; a workload has no threshold.",
        _table(("clause", "meaning"), clauses),
        "## Options of CREATE SERIES",
        f"`WITH (option = value, …)`; a value is {values}.",
        _table(("option", "default", "meaning"), [(f"`{name}`", _default(name), said[name]) for name in OPTIONS]),
        "## Names",
        f"A series cannot be called {taken}. In DuckDB's queries, quote names that are reserved words.",
    ]
    return "\n\n".join(parts) + "\n"


def query_language() -> str:
    """Return the section of docs/sql.md on functions of a series' query and on replacements of refused ones."""
    functions = [(group, _words(names)) for group, names in language.FUNCTIONS.items()]
    aggregates = [(group, _words(names)) for group, names in language.AGGREGATES.items()]
    instead = [(_words(names), how) for names, how in language.REFUSED.items() if names.islower()]
    refused = "\n".join(f"- {reason}" for names, reason in language.REFUSED.items() if not names.islower())
    parts = [
        f"{_MADE}",
        _table(("functions of one row", "names"), functions),
        _table(("aggregates", "names"), aggregates),
        "Other constructs are refused. These errors show what to write instead:",
        refused,
        _table(("refused", "what to write"), instead),
    ]
    return "\n\n".join(parts)


def sql_page() -> str:
    """Return docs/sql.md with a new section on functions."""
    before, title, after = (DOCS / "sql.md").read_text(encoding="utf-8").partition("## Functions of a query\n")
    return f"{before}{title}\n{query_language()}\n\n## {after.partition(chr(10) + '## ')[2]}"


def _words(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split()).replace("|", "\\|")


def _options_help() -> dict[str, str]:
    """Return the help of each option of CREATE SERIES, from the declaration and from counting."""
    about = parameters(Declaration)
    counting = _arguments(Counting, "Attributes")
    return counting | _arguments(create) | {word: about[word].help for word in sql_words(Declaration)}


def _default(name: str) -> str:
    if name in NEEDED:
        return "needed"
    known = parameters(Declaration)
    default = "auto" if name == "engine" else known[name].default if name in known else None
    return "" if default is None else f"`{str(default).lower()}`"


def _arguments(function: Any, heading: str = "Args") -> dict[str, str]:
    """Return the help of each argument in a docstring, as one paragraph."""
    section = re.search(rf"^{heading}:\n((?: .*\n|\n)+)", inspect.getdoc(function) + "\n", flags=re.MULTILINE)
    items = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section[1], flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in items}


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *((*row[:-1], _escaped(row[-1])) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PAGES = {
    DOCS / "command_reference.md": command_line,
    DOCS / "sql_reference.md": sql,
    DOCS / "sql.md": sql_page,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        page.write_text(text(), encoding="utf-8")
