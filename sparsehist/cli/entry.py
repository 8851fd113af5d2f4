"""From the words of the command line to an exit code."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO, TextIOWrapper
from pathlib import Path

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

from sparsehist.cli.answer import (
    Answer,
    in_options,
    interrupted,
    note_interrupts,
    print_answer,
    print_error,
    print_json,
)
from sparsehist.cli.app import app, load
from sparsehist.errors import CountsWarning, SparsehistError

INTERNAL, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
_CLOSE = 0.75
"""Similarity above which an option is suggested for an unknown one."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key need not exist in the terminal's encoding
    if sys.stdout is None or sys.stderr is None:  # closed by >&- or 2>&-
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    note_interrupts()
    as_json = "--json" in arguments
    try:
        words = _common_options(arguments)
        code = _run(words, as_json=as_json)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except argparse.ArgumentError as problem:
        print_error(str(problem), "UsageError", as_json=as_json)
        return BAD_INPUT
    except (BrokenPipeError, SystemExit):  # rich, which prints the help, turns the first into the second
        _discard_output()
        return PIPE_CLOSED
    except OSError as problem:
        _discard_output()
        told = os.strerror(problem.errno or 0)
        print_error(f"the output cannot be written: {told}. What the command did is kept", "", as_json=False)
        return INTERNAL
    return code


def _common_options(arguments: Sequence[str]) -> list[str]:
    """Read --json and --log-level, wherever they stand; return the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    known, words = parser.parse_known_args(arguments)
    if known.log_level:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        log = logging.getLogger("sparsehist")
        log.handlers = [handler]
        log.setLevel(known.log_level.upper())
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return ["--version", *words[1:]] if words[:1] in (["version"], ["-V"]) else words


def _discard_output() -> None:
    """Send the rest to nowhere: Python would complain again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str], *, as_json: bool) -> int:
    """Run a command, print its answer or what is wrong with the line, and return the exit code."""
    warnings.simplefilter("ignore", CountsWarning)  # the answer states it
    if words and not words[0].startswith("-"):
        if words[0] not in app:
            return _refused(_unknown_command(words[0]), "UsageError", as_json=as_json)
        load(words[0])
    try:
        with redirect_stdout(StringIO()) if as_json else nullcontext() as explained:
            answer = app(words)
    except CycloptsError as problem:
        return _refused(_advice(problem), "UsageError", as_json=as_json)
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - its text may quote the log
        return _failed(problem, words, as_json=as_json)
    if isinstance(answer, Answer):
        print_answer(answer, as_json=as_json)
        sys.stdout.flush()
        if answer.complaint and not as_json:
            print_error(answer.complaint, "", as_json=False)
        return answer.exit_code
    if explained is not None:
        text = explained.getvalue()
        print_json({"version": text.strip()} if "--version" in words else {"help": text})
    return 0


def _failed(problem: Exception, words: list[str], *, as_json: bool) -> int:
    if interrupted():  # an engine may report Ctrl-C as a failure of its own
        return _interrupted(as_json=as_json)
    if isinstance(problem, SparsehistError):
        message = in_options(str(problem), _options(words))
        return _refused(message, type(problem).__name__, problem.exit_code, as_json=as_json)
    if isinstance(problem, PermissionError):
        from sparsehist.counting.log import shown  # a folder of a log may be named after a unit

        name = shown(str(problem.filename or "a file"))
        return _refused(f"{name}: permission is denied", "InputError", as_json=as_json)
    return _refused(_unforeseen(problem), "InternalError", INTERNAL, as_json=as_json)


def _refused(message: str, kind: str, code: int = BAD_INPUT, *, as_json: bool) -> int:
    print_error(message, kind, as_json=as_json)
    return code


def _interrupted(*, as_json: bool) -> int:
    message = "interrupted; what was committed stays, nothing else was kept"
    return _refused(message, "Interrupted", INTERRUPTED, as_json=as_json)


def _options(words: list[str]) -> set[str]:
    """The options of the command in `words`, and those of a series, which errors of any command may name."""
    from sparsehist.cli.declared import option_names

    _, apps, _ = app.parse_commands(words)
    own = {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
    return {*own, *option_names(), "--route"}


def _unknown_command(word: str) -> str:
    names = [name for name in app if not name.startswith("-")]
    close = difflib.get_close_matches(word, names, n=1)
    suggested = f" Did you mean {close[0]!r}?" if close else ""
    return f"there is no command {word!r}.{suggested} Commands: {', '.join(names)}. See --help."


def _advice(problem: CycloptsError) -> str:
    message = " ".join(str(problem).split()).replace(" requires an argument.", " is missing, or has no value.")
    if isinstance(problem, UnknownOptionError):
        given = problem.token.keyword or problem.token.value
        message, _, suggested = message.partition(" Did you mean ")
        close = suggested.strip('"?.')
        if difflib.SequenceMatcher(None, given, close).ratio() >= _CLOSE:
            message += f" Did you mean {close}?"
    if isinstance(problem, UnusedCliTokensError):
        message += " Quote a glob, so that the shell leaves it alone: --input 'log/*.parquet'."
    return f"{message} See --help."


def _unforeseen(problem: Exception) -> str:
    """Name an error that should not happen by type and place, without its text, which may hold secrets."""
    import traceback

    if isinstance(problem, MemoryError):
        return "out of memory; nothing was committed. Give --memory-limit, or a machine with more"
    frames = traceback.extract_tb(problem.__traceback__)
    place = next((frame for frame in reversed(frames) if "sparsehist" in Path(frame.filename).parts), frames[-1])
    where = f"{Path(place.filename).parent.name}/{Path(place.filename).name}:{place.lineno}"
    return f"internal error ({type(problem).__name__} at {where}); please report it. Its text is withheld"
