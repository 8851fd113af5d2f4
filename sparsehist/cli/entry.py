"""From the words of the command line to an exit code."""

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

from sparsehist.cli.answer import Answer, in_options, print_answer, print_error, print_json
from sparsehist.cli.app import app, load
from sparsehist.errors import CountsWarning, SparsehistError

INTERNAL, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
_interrupted = threading.Event()


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by >&- or 2>&-
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key need not exist in the terminal's encoding
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _note_interrupt)
    as_json = "--json" in arguments
    try:
        code = _run(_common_options(arguments), as_json=as_json)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _refused("interrupted; what was committed stays", "Interrupted", INTERRUPTED, as_json=as_json)
    except argparse.ArgumentError as problem:
        return _refused(str(problem), "UsageError", as_json=as_json)
    except (BrokenPipeError, SystemExit):  # rich, which prints the help, turns the first into the second
        _discard_output()
        return PIPE_CLOSED
    except OSError as problem:
        _discard_output()
        told = os.strerror(problem.errno or 0)
        message = f"the output cannot be written: {told}. What the command did is kept"
        return _refused(message, "", INTERNAL, as_json=False)
    return code


def interrupted() -> bool:
    """Whether Ctrl-C came since this was last asked: an engine may report it as a failure of its own."""
    came = _interrupted.is_set()
    _interrupted.clear()
    return came


def _note_interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted.set()
    signal.default_int_handler(number, frame)


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
    return words


def _discard_output() -> None:
    """Send the rest to nowhere: Python would complain again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str], *, as_json: bool) -> int:
    """Run a command, print its answer or what is wrong with the line, and return the exit code."""
    warnings.simplefilter("ignore", CountsWarning)  # the answer states it
    named = bool(words) and not words[0].startswith("-")
    if named and words[0] not in app:
        names = [name for name in app if not name.startswith("-")]
        close = "".join(f" Did you mean {name!r}?" for name in difflib.get_close_matches(words[0], names, n=1))
        message = f"there is no command {words[0]!r}.{close} Commands: {', '.join(names)}. See --help."
        return _refused(message, "UsageError", as_json=as_json)
    try:
        if named:
            load(words[0])
        with redirect_stdout(StringIO()) if as_json else nullcontext() as explained:
            answer = app(words)
    except CycloptsError as problem:
        message = " ".join(str(problem).split()).replace(" requires an argument.", " is missing, or has no value.")
        if isinstance(problem, UnusedCliTokensError) and any("." in token for token in problem.unused_tokens or ()):
            message += " Quote a glob, so that the shell leaves it alone: --input 'log/*.parquet'."
        return _refused(f"{message} See --help.", "UsageError", as_json=as_json)
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - its text may quote the log
        return _failed(problem, as_json=as_json)
    if isinstance(answer, Answer):
        print_answer(answer, as_json=as_json)
        if answer.complaint and not as_json:
            print_error(answer.complaint, "", as_json=False)
        return answer.exit_code
    if explained is not None:
        text = explained.getvalue()
        print_json({"version": text.strip()} if "--version" in words else {"help": text})
    return 0


def _failed(problem: Exception, *, as_json: bool) -> int:
    if interrupted():
        raise KeyboardInterrupt from None
    if isinstance(problem, SparsehistError):
        message = in_options(str(problem))
        return _refused(message, type(problem).__name__, problem.exit_code, as_json=as_json)
    if isinstance(problem, PermissionError):
        from sparsehist.counting.log import shown  # a folder of a log may be named after a unit

        name = shown(str(problem.filename or "a file"))
        return _refused(f"{name}: permission is denied", "InputError", as_json=as_json)
    if isinstance(problem, MemoryError):
        message = "out of memory; nothing was committed. Give --memory-limit, or a machine with more"
        return _refused(message, "InternalError", INTERNAL, as_json=as_json)
    # An error that should not happen is named by type and place, without its text, which may hold secrets.
    frames = traceback.extract_tb(problem.__traceback__)
    place = next((frame for frame in reversed(frames) if "sparsehist" in Path(frame.filename).parts), frames[-1])
    where = f"{'/'.join(Path(place.filename).parts[-2:])}:{place.lineno}"
    message = f"internal error ({type(problem).__name__} at {where}); please report it. Its text is withheld"
    return _refused(message, "InternalError", INTERNAL, as_json=as_json)


def _refused(message: str, kind: str, code: int = BAD_INPUT, *, as_json: bool) -> int:
    print_error(message, kind, as_json=as_json)
    return code
