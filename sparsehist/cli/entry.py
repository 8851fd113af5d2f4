"""Run a command line: parse the arguments, call the command, print its result, and return the exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from cyclopts import CycloptsError, UnusedCliTokensError

from sparsehist.cli.answer import Answer, in_options, print_answer, print_error
from sparsehist.cli.app import app, load
from sparsehist.errors import CountsWarning, SparsehistError

INTERNAL, BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


def run(arguments: Sequence[str]) -> int:
    """Run a command, print its result, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the terminal may not support all characters of a key
    as_json = "--json" in arguments
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore", CountsWarning)  # the command's result contains these warnings
            try:
                words = [word for word in arguments if word != "--json"]
                if words and words[0] in app:
                    load(words[0])
                answer = app(words)
            except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - its text may quote the log
                answer = _explained(problem)
        for message in dict.fromkeys(str(each.message) for each in caught):
            print_error(message, "warning")
        if not isinstance(answer, Answer):  # cyclopts has printed the help or the version
            return 0
        print_answer(answer, as_json=as_json)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.flush()
    except (OSError, SystemExit) as problem:  # rich turns a closed pipe into SystemExit
        # Redirect stdout, or Python would fail again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, SystemExit | BrokenPipeError):
            return PIPE_CLOSED
        print_error(f"the output cannot be written: {os.strerror(problem.errno or 0)}. Changes by the command remain")
        return INTERNAL
    return answer.exit_code


def _explained(problem: BaseException) -> Answer:
    """Return the result to print for an error. The text of an unexpected error is hidden: it may quote the log."""
    kind, exit_code, message = "UsageError", BAD_INPUT, str(problem)
    if isinstance(problem, KeyboardInterrupt):
        kind, exit_code, message = "Interrupted", INTERRUPTED, "interrupted; committed changes remain"
    elif isinstance(problem, CycloptsError):
        message = " ".join(message.split()).replace(" requires an argument.", " is missing, or has no value.")
        if isinstance(problem, UnusedCliTokensError) and any("." in token for token in problem.unused_tokens or ()):
            message += " Quote a glob, so that the shell leaves it alone: --input 'log/*.parquet'."
        message += " See --help."
    elif isinstance(problem, SparsehistError):
        kind, exit_code, message = type(problem).__name__, problem.exit_code, in_options(message)
    elif isinstance(problem, PermissionError):
        from sparsehist.counting.log import shown  # in the folder user=42, hides 42, because it may be a unit

        kind, message = "InputError", f"{shown(str(problem.filename or 'a file'))}: permission is denied"
    else:
        frames = traceback.extract_tb(problem.__traceback__)
        frame = next((frame for frame in reversed(frames) if "sparsehist" in Path(frame.filename).parts), frames[-1])
        where = f"{type(problem).__name__} at {'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"
        message = f"internal error ({where}); please report it. Its message is withheld"
        if isinstance(problem, MemoryError):
            message = "out of memory; nothing was committed. Pass --memory-limit, or use a machine with more memory"
        kind, exit_code = "InternalError", INTERNAL
    return Answer({"error": {"type": kind, "message": message}}, [], exit_code, complaint=message)
