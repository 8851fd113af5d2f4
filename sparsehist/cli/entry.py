"""From words on the command line to an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from importlib.util import find_spec, module_from_spec
from io import StringIO, TextIOWrapper
from pathlib import Path
from types import FrameType, ModuleType

from cyclopts import CycloptsError, UnknownCommandError, UnusedCliTokensError

from sparsehist import __version__
from sparsehist.cli.answer import (
    CTRL_C,
    Answer,
    in_words_of_the_command_line,
    print_answer,
    print_error,
    print_json,
)
from sparsehist.cli.app import app
from sparsehist.errors import CountsWarning, DeclarationError, SparsehistError

_LOG_LEVEL, _LOG_LEVELS = "--log-level", ("debug", "info", "warning", "error")
BAD_INPUT, INTERNAL, INTERRUPTED, PIPE_CLOSED = 2, 1, 130, 141


def exit_with(arguments: Sequence[str]) -> None:
    """Run a command as all that this process does, and exit with its code."""
    gc.set_threshold(100_000)  # imports make many objects and next to no garbage
    for library in ("numpy", "polars"):
        _load_when_used(library)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key need not exist in the terminal's encoding
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process
    # Python has None for what was closed by >&- or 2>&-.
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    signal.signal(signal.SIGINT, _interrupt)
    code = run(arguments)
    # Taking the interpreter down object by object costs more than many a command; nothing here waits for it.
    atexit._run_exitfuncs()  # noqa: SLF001 - what was to happen at the end does
    sys.stderr.flush()
    os._exit(code)


class _LoadedWhenUsed(ModuleType):
    """A module whose code runs when something of it is first used: many commands need it imported, few need it."""

    def __getattr__(self, name: str) -> object:
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def _load_when_used(name: str) -> None:
    """Let imports of a library bind a module that loads when something of it is first used."""
    spec = find_spec(name)
    if name not in sys.modules and spec is not None:
        sys.modules[name] = module_from_spec(spec)
        sys.modules[name].__class__ = _LoadedWhenUsed


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    words, as_json = _without_json(arguments)
    warnings.simplefilter("ignore", CountsWarning)  # the answer says it
    try:
        words = _logging(words)
    except DeclarationError as problem:
        print_error(str(problem), type(problem).__name__, as_json=as_json)
        return BAD_INPUT
    try:
        code = _run(words, as_json=as_json)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich, which prints the help, turns the one into the other
        _discard_output()  # whoever read it has gone
        return PIPE_CLOSED
    except OSError:
        _discard_output()
        return INTERNAL
    return code


def _discard_output() -> None:
    """Send what is left to nowhere: Python would complain once more when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str], *, as_json: bool) -> int:
    try:
        with redirect_stdout(StringIO()) if as_json else nullcontext() as explained:
            answer = app(words)
        if isinstance(answer, Answer):
            return _told(answer, as_json=as_json)
        if explained is not None:
            print_json({"help": explained.getvalue()} if "--version" not in words else {"version": __version__})
    except CycloptsError as problem:
        print_error(_advice(problem), "UsageError", as_json=as_json)
        return BAD_INPUT
    except SparsehistError as problem:
        if CTRL_C.is_set():
            return _interrupted(as_json=as_json)
        message = in_words_of_the_command_line(str(problem))
        print_error(message, type(problem).__name__, as_json=as_json)
        return problem.exit_code
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except BrokenPipeError:
        raise
    except PermissionError as problem:
        from sparsehist.counting.sources import shown  # a folder of a log may be named after a unit

        name = shown(str(problem.filename or "a file"))
        print_error(f"{name}: permission is denied", "InputError", as_json=as_json)
        return BAD_INPUT
    except Exception as problem:  # noqa: BLE001 - the text of an unforeseen error may quote the log
        print_error(_unforeseen(problem), "InternalError", as_json=as_json)
        return INTERNAL
    return 0


def _told(answer: Answer, *, as_json: bool) -> int:
    """Print an answer; the exit code."""
    try:
        print_answer(answer, as_json=as_json)
        sys.stdout.flush()
        if answer.complaint and not as_json:
            print_error(answer.complaint, "", as_json=False)
    except BrokenPipeError:
        raise
    except OSError as problem:
        _discard_output()
        message = f"the output cannot be written: {os.strerror(problem.errno or 0)}. What the command did is kept"
        print_error(message, "OutputError", as_json=False)
        return INTERNAL
    return answer.exit_code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Remember Ctrl-C: an engine that it stops may report it as a failure of its own."""
    CTRL_C.set()
    signal.default_int_handler(number, frame)


def _interrupted(*, as_json: bool) -> int:
    print_error("interrupted; what was committed stays, nothing else was kept", "Interrupted", as_json=as_json)
    return INTERRUPTED


def _without_json(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Take --json out, wherever it stands before a `--`."""
    words = _usual(list(arguments))
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word != "--json"] + words[end:], "--json" in words[:end]


def _logging(words: list[str]) -> list[str]:
    """Take --log-level out, wherever it stands before a `--`, and send the package's log to stderr."""
    end = words.index("--") if "--" in words else len(words)
    place = next((i for i in range(end) if words[i].partition("=")[0] == _LOG_LEVEL), None)
    if place is None:
        return words
    _, joined, level = words[place].partition("=")
    taken = 1 if joined else 2
    level = level if joined else "".join(words[place + 1 : min(place + 2, end)])
    if level not in _LOG_LEVELS:
        raise DeclarationError(f"{_LOG_LEVEL} is one of {', '.join(_LOG_LEVELS)}, got {level!r}")
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    log = logging.getLogger("sparsehist")
    log.handlers = [handler]
    log.setLevel(level.upper())
    return words[:place] + words[place + taken :]


def _usual(words: list[str]) -> list[str]:
    """Read `help`, `help release`, `version` and -V as the options that they stand for."""
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return ["--version", *words[1:]] if words[:1] in (["version"], ["-V"]) else words


def _advice(problem: CycloptsError) -> str:
    message = " ".join(str(problem).split()).replace(" requires an argument.", " is missing, or has no value.")
    if isinstance(problem, UnknownCommandError):
        commands = ", ".join(name for name in app if not name.startswith("-"))
        message = f"{message.split(' Available commands:')[0]} Commands: {commands}."
    if isinstance(problem, UnusedCliTokensError):
        message += " Quote a glob, so that the shell leaves it alone: --input 'log/*.parquet'."
    return f"{message} See --help."


def _unforeseen(problem: Exception) -> str:
    """Name an error that should not happen by its type and place, without its text, which may hold secrets."""
    import traceback

    if isinstance(problem, MemoryError):
        return "out of memory; nothing was committed. Give --memory-limit, or a machine with more"
    frames = traceback.extract_tb(problem.__traceback__)
    place = next((frame for frame in reversed(frames) if "sparsehist" in Path(frame.filename).parts), frames[-1])
    where = f"{Path(place.filename).parent.name}/{Path(place.filename).name}:{place.lineno}"
    return f"internal error ({type(problem).__name__} at {where}); please report it. Its text is withheld"
