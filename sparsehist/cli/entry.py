"""Run the command line: parse the arguments, call the command, return an exit code."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO, TextIOWrapper
from pathlib import Path
from types import FrameType

from cyclopts import CycloptsError, UnusedCliTokensError

from sparsehist.cli.answer import Answer, in_options, print_answer, print_error
from sparsehist.cli.app import app, load
from sparsehist.errors import CountsWarning, SparsehistError

INTERNAL, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
_interrupted = threading.Event()


def run(arguments: Sequence[str]) -> int:
    """Run a command, print its answer, and return its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by >&- or 2>&-
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key may not fit the terminal's encoding
    _interrupted.clear()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _note_interrupt)
    warnings.simplefilter("ignore", CountsWarning)  # the answer states it
    as_json = "--json" in arguments
    try:
        try:
            answer = _called(_common_options(arguments), as_json=as_json)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - its text may quote the log
            answer = _explained(problem)
        print_answer(answer, as_json=as_json)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the first into the second when it prints the help
        _discard_output()
        return PIPE_CLOSED
    except OSError as problem:
        _discard_output()
        print_error(f"the output cannot be written: {os.strerror(problem.errno or 0)}. What the command did is kept")
        return INTERNAL
    return answer.exit_code


def _note_interrupt(number: int, frame: FrameType | None) -> None:
    """Remember Ctrl-C, because an engine may report it as its own failure."""
    _interrupted.set()
    signal.default_int_handler(number, frame)


def _common_options(arguments: Sequence[str]) -> list[str]:
    """Read --json and --log-level at any position; return the other arguments."""
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
    return words


def _discard_output() -> None:
    """Discard further output: Python would fail again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _called(words: list[str], *, as_json: bool) -> Answer:
    """Call a command; print its help at once, or return it as an answer."""
    if words and not words[0].startswith("-"):
        if words[0] not in app:
            names = [name for name in app if not name.startswith("-")]
            close = "".join(f" Did you mean {name!r}?" for name in difflib.get_close_matches(words[0], names, n=1))
            message = f"there is no command {words[0]!r}.{close} Commands: {', '.join(names)}. See --help."
            return _error(message, "UsageError")
        load(words[0])
    with redirect_stdout(StringIO()) if as_json else nullcontext() as explained:
        answer = app(words)
    if isinstance(answer, Answer):
        return answer
    text = explained.getvalue() if explained is not None else ""
    return Answer({"version": text.strip()} if "--version" in words else {"help": text}, [])


def _explained(problem: BaseException) -> Answer:
    """Return the answer to a failure; an unexpected error is shown by type and place, without its text."""
    if isinstance(problem, KeyboardInterrupt) or _interrupted.is_set():
        return _error("interrupted; what was committed stays", "Interrupted", INTERRUPTED)
    if isinstance(problem, argparse.ArgumentError):
        return _error(str(problem), "UsageError")
    if isinstance(problem, CycloptsError):
        message = " ".join(str(problem).split()).replace(" requires an argument.", " is missing, or has no value.")
        if isinstance(problem, UnusedCliTokensError) and any("." in token for token in problem.unused_tokens or ()):
            message += " Quote a glob, so that the shell leaves it alone: --input 'log/*.parquet'."
        return _error(f"{message} See --help.", "UsageError")
    if isinstance(problem, SparsehistError):
        return _error(in_options(str(problem)), type(problem).__name__, problem.exit_code)
    if isinstance(problem, PermissionError):
        from sparsehist.counting.log import shown  # names of folders may contain units

        return _error(f"{shown(str(problem.filename or 'a file'))}: permission is denied", "InputError")
    if isinstance(problem, MemoryError):
        message = "out of memory; nothing was committed. Pass --memory-limit, or use a machine with more memory"
        return _error(message, "InternalError", INTERNAL)
    frames = traceback.extract_tb(problem.__traceback__)
    place = next((frame for frame in reversed(frames) if "sparsehist" in Path(frame.filename).parts), frames[-1])
    where = f"{'/'.join(Path(place.filename).parts[-2:])}:{place.lineno}"
    message = f"internal error ({type(problem).__name__} at {where}); please report it. Its text is withheld"
    return _error(message, "InternalError", INTERNAL)


def _error(message: str, kind: str, exit_code: int = BAD_INPUT) -> Answer:
    return Answer({"error": {"type": kind, "message": message}}, [], exit_code, complaint=message)
