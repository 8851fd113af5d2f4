"""Print the result of a command, as one JSON object or as human-readable text and tables."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

from sparsehist.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

MISSING = "—"
_PIPED_WIDTH = 10_000  # width of piped output in characters, so that rows of tables do not wrap
_LONGEST_CELL = 400  # characters
_PARAMETER = re.compile(  # finds parameters such as cap=2, but not inside calls such as open(delta=1e-6)
    r"""\w\((?:[^()]|\([^()]*\))*\)"""
    r"""|(?<!-type |param |table )(?<![-\w(.?&:,])([a-z]+(?:_[a-z]+)*)=(?!{)(?:(["'])(.*?)\2|([^\s"',;:)]*))"""
)


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    data: Mapping[str, Any]  # the object that --json prints
    shown: Sequence[Any]  # lines of text and rich tables, which are printed without --json
    exit_code: int = 0  # exit code of the command; 0 means success
    complaint: str = ""  # error message, printed on stderr after `shown`


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print the result of a command on stdout, as one JSON object or as human-readable text."""
    if as_json:  # print JSON as one line of ASCII
        _write(sys.stdout, json.dumps(answer.data, default=str).replace("\x7f", "\\u007f"))
        return
    for part in answer.shown:
        if isinstance(part, str):
            _write(sys.stdout, printable(part, keep="\n"))
        else:
            from rich.console import Console  # imported here, because most commands print no table

            width = None if sys.stdout is not None and sys.stdout.isatty() else _PIPED_WIDTH
            Console(width=width, highlight=False, emoji=False).print(part)
    if answer.complaint:
        print_error(answer.complaint)


def print_error(message: str, kind: str = "error") -> None:
    """Print an error or a warning on stderr."""
    _write(sys.stderr, printable(f"{kind}: {message}", keep="\n\t"))


def _write(stream: TextIO | None, text: str) -> None:
    """Write a line. A program that was started with a closed stdout or stderr has None in its place."""
    if stream is not None:
        stream.write(text + "\n")


def in_options(message: str) -> str:
    """Replace Python parameters in a message with the corresponding command-line options.

    Example:
        >>> in_options("if_exists='reuse' gives it; set max_keys=; level 3")
        '--if-exists reuse gives it; set --max-keys; level 3'
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), shlex.quote(match[3]) if match[2] else match[4]
        return f"--{name}" if value in ("", "True") else f"--{name} {value}"

    return _PARAMETER.sub(lambda match: option(match) if match[1] else match[0], message)


def parameter_lines(rows: Sequence[tuple[str, object]]) -> str:
    """Return one line of text for each name and value, with the values aligned."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:{width}}  {printable(str(value))}" for name, value in rows)


def rows_table(rows: Sequence[Mapping[str, Any]], *, exact: bool = False, seldom: Sequence[str] = ()) -> Table:
    """Return rows, which must all have the same columns, as a `rich` table.

    Numbers are right-aligned, and rounded unless `exact` is true. Null values are shown as dashes, and a column in
    `seldom` is omitted if all its values are null.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    columns = []
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        kinds = {type(value) for value in values} - {type(None)}
        if kinds or name not in seldom:
            numbers = kinds and kinds <= {int, float, Decimal}
            table.add_column(escape(printable(name)), justify="right" if numbers else "left", overflow="fold")
            columns.append([escape(_cell_text(value, exact=exact)) for value in values])
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table


def _cell_text(value: Any, *, exact: bool) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float) and not exact:
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    text = f"{value:,}" if type(value) is int and not exact else str(value)
    cut = f"… ({len(text):,} characters)" if len(text) > _LONGEST_CELL else ""
    return printable(text[:_LONGEST_CELL]) + cut
