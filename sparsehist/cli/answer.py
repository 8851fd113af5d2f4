"""What a command gives back: an object for machines, and what people look at."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sparsehist.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPED_WIDTH = 100
CTRL_C = threading.Event()
"""Set by Ctrl-C: an engine that it stops may report it as a failure of its own."""
_WORDS = (
    "about cap delta domain engine epsilon equal key level name noise period periods population protects reason "
    "rho route step steps threads threshold time unit wait who what within"
).split()
_UNDERSCORED = (
    "false_keys if_exists max_false_keys max_keys memory_limit most_keys most_periods on_null on_outside"
).split()
# A word is a parameter where it is given a value, a name with an underscore always.
_PARAMETER = re.compile(
    rf"(?<![-\w])(?<!--param )(?:({'|'.join([*_WORDS, *_UNDERSCORED])})=(?:[\"']([-\w.]+)[\"']|(?=([^ ,.:;)]))|)"
    rf"|({'|'.join(_UNDERSCORED)})\b)"
)
_IN_OPEN_DOMAIN = re.compile(r"\bopen\([^()]*$")
_STORE = re.compile(r"Store\('([^']*)'\)")
_PHRASES = {
    "on_other_period='drop'": "--drop-other-periods",
}
_UNLIMITED = 100_000


@dataclass(frozen=True)
class Answer:
    """The result of a command: what --json prints, and what is shown otherwise (lines of rich markup, tables).

    An exit code other than 0 says that the answer itself is a refusal; a complaint is told on stderr below what is
    shown.
    """

    data: Mapping[str, Any]
    shown: Sequence[RenderableType]
    exit_code: int = 0
    complaint: str = ""


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print to stdout, as one JSON object or for people."""
    if as_json:
        print_json(answer.data)
        return
    from rich.console import Console

    if sys.stdout.isatty():
        print_shown(Console(highlight=False, emoji=False), answer.shown)
        return
    console = Console(width=PIPED_WIDTH, highlight=False, emoji=False)
    with console.capture() as captured:
        print_shown(console, answer.shown)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def print_shown(console: Console, shown: Sequence[RenderableType]) -> None:
    """Print each part; indented lines are commands to copy, and lines for a pipe hold paths: neither is broken.

    A table that needs more room than there is goes on below itself on a terminal, and to the right elsewhere: no
    column is left out.
    """
    from rich.measure import Measurement
    from rich.table import Table

    from sparsehist.cli.tables import blocks

    for part in shown:
        if isinstance(part, str):
            console.print(printable(part, keep="\n"), soft_wrap=part.startswith("  ") or not console.is_terminal)
            continue
        unlimited = console.options.update(width=_UNLIMITED)
        needed = Measurement.get(console, unlimited, part).minimum
        if needed > console.width and console.is_terminal and isinstance(part, Table):
            for block in blocks(part, console, console.width):
                console.print(block)
        else:
            console.print(part, width=max(console.width, needed), crop=False)


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object on one line; times as ISO text with their zone, letters escaped where need be."""
    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(data, ensure_ascii=escaped, default=_as_text)
    if not text.isprintable():  # JSON escapes the controls of ASCII alone
        text = "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
    sys.stdout.write(text + "\n")


def _as_text(value: object) -> str:
    if isinstance(value, datetime):  # times without a zone come from the store, which keeps UTC
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat(timespec="seconds")
    return str(value)


def print_error(message: str, kind: str, *, as_json: bool) -> None:
    """Say what is wrong: on stderr for people, as JSON on stdout for machines."""
    if as_json:
        print_json({"error": {"type": kind, "message": message}})
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(Text.assemble(("error: ", "bold red"), printable(message, keep="\n\t")), soft_wrap=True)


def in_words_of_the_command_line(message: str) -> str:
    """Write parameters of the Python interface as options: wait=5 becomes --wait 5.

    Example:
        >>> in_words_of_the_command_line("if_exists='reuse' gives it back")
        '--if-exists reuse gives it back'
    """
    for phrase, told in _PHRASES.items():
        message = message.replace(phrase, told)

    def option(found: re.Match[str]) -> str:
        if _IN_OPEN_DOMAIN.search(found.string, 0, found.start()):
            return found[0]
        name = f"--{(found[1] or found[4]).replace('_', '-')}"
        return f"{name} {found[2]}" if found[2] else f"{name} " if found[3] else name

    return _PARAMETER.sub(option, _STORE.sub(r"the store \1", message))


def was_interrupted() -> bool:
    """Whether Ctrl-C came since this was last asked."""
    came = CTRL_C.is_set()
    CTRL_C.clear()
    return came
