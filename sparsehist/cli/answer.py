"""What a command gives back, and how it is printed: an object for machines, or text and tables for people."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from sparsehist.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIPED_WIDTH = 10_000
"""Columns of a pipe: tables keep their natural width."""
_AFTER_OPTION = re.compile(r"--[a-z-]+ $")
_PARAMETER = re.compile(r"""(?<![-\w(])([a-z]+(?:_[a-z]+)*)(?:=(?:(["'])([^"']+)\2|(?=([^ ,.:;)]))|)|(?!\w))""")
_SPELLED = {"key_types": "--key-type", "on_other_period": "--drop-other-periods"}
_interrupted = threading.Event()


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    Attributes:
        data: What --json prints.
        shown: What is printed otherwise: lines of rich markup, and tables.
        exit_code: Not 0 if the answer itself is a refusal.
        complaint: Printed on stderr after `shown`.
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
    console = Console(width=_PIPED_WIDTH, highlight=False, emoji=False)
    with console.capture() as captured:
        print_shown(console, answer.shown)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def print_shown(console: Console, shown: Sequence[RenderableType]) -> None:
    """Print each part; indented lines are commands to copy and are not broken."""
    for part in shown:
        if isinstance(part, str):
            console.print(printable(part, keep="\n"), soft_wrap=part.startswith("  "))
        else:
            console.print(part)


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
    """Print what is wrong: on stderr for people, as JSON on stdout for machines."""
    if as_json:
        print_json({"error": {"type": kind, "message": message}})
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(Text.assemble(("error: ", "bold red"), printable(message, keep="\n\t")), soft_wrap=True)


def in_options(message: str, options: Collection[str]) -> str:
    """A message with parameters of the Python interface written as options of the command.

    A word is a parameter if it is given a value or holds an underscore.

    Example:
        >>> in_options("if_exists='reuse' gives it; level 3", {"--if-exists", "--level"})
        '--if-exists reuse gives it; level 3'
        >>> in_options("a column called key: --key-type key=date", {"--key"})
        'a column called key: --key-type key=date'
    """

    def option(found: re.Match[str]) -> str:
        word, value = found[1], found[3]
        if _AFTER_OPTION.search(message[: found.start()]):
            return found[0]
        if word in _SPELLED:
            return _SPELLED[word]
        name = f"--{word.replace('_', '-')}"
        if name not in options or ("=" not in found[0] and "_" not in word):
            return found[0]
        return f"{name} {value}" if value else f"{name} " if found[4] else name

    return _PARAMETER.sub(option, message)


def note_interrupts() -> None:
    """Remember Ctrl-C: an engine that it stops may report it as a failure of its own."""

    def note(number: int, frame: FrameType | None) -> None:
        _interrupted.set()
        signal.default_int_handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, note)


def interrupted() -> bool:
    """Whether Ctrl-C came since this was last asked."""
    came = _interrupted.is_set()
    _interrupted.clear()
    return came
