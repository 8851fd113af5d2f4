"""The commands `run` and `sql`, which run SQL from a file, from standard input, or from a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

import sparsehist as sh
from sparsehist.cli.answer import Answer, print_answer, print_error, rows_table
from sparsehist.cli.options import DEFAULT, Using, arguments
from sparsehist.cli.releasing import MOST_ROWS
from sparsehist.errors import DeclarationError, InputError, SparsehistError, StatementError
from sparsehist.ledger.table import for_people
from sparsehist.sqlfront.parameters import parameters_from
from sparsehist.sqlfront.results import Outcome, failed
from sparsehist.sqlfront.script import pieces
from sparsehist.sqlfront.session import Session, named_parameters, run_script

Rows = Annotated[
    int, Parameter(validator=Number(gte=1, lte=MOST_ROWS), help="Print at most this many rows of each result.")
]


def run(
    script: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    store: Path | None = None,
    param: list[str] | None = None,
    table: list[str] | None = None,
    keep_going: bool = False,
    dry_run: bool = False,
    rows: Rows = 40,
    using: Using = DEFAULT,
) -> Answer:
    """Run an SQL script.

    Statements such as CREATE SERIES and RELEASE use the store; DuckDB runs all others.
    Releases can be read as tables named series.release. The whole script is checked, and
    then run up to the first error; earlier changes remain. Values of --param are
    numbers, true, false, null or 'text' as in SQL; any other value is read as text.

    For example:
      sparsehist run script.sql --store logs.sparsehist --param level=0.01

    Args:
        script: File of statements; - reads standard input.
        store: Directory of the store; CREATE SERIES creates a missing store.
        param: name=value for $name in the script; may be repeated.
        table: name=source for a table in files or at URLs of s3, gs, az or https; may be repeated.
        keep_going: If a statement is wrong or fails, still run the other statements.
        dry_run: Run nothing; show what each statement would spend.
    """
    text, parameters = _read(script), parameters_from(param or ())
    for name in parameters.keys() - named_parameters(text, parameters):
        raise DeclarationError(f"the script does not use the parameter ${name}")
    pairs = [word.partition("=") for word in table or ()]
    if not all(name.isidentifier() and source for name, _, source in pairs):
        raise DeclarationError("--table must be name=source, such as --table log=s3://lake/log/*.parquet")
    tables = {name: source for name, _, source in pairs}
    home = None if store is None else using.home(store)
    with Session(home, parameters=parameters, tables=tables, rows=rows) as session:
        return described(run_script(session, text, keep_going=keep_going, dry_run=dry_run), script=str(script))


def sql(
    store: Path | None = None,
    /,
    *,
    analyst: Path | None = None,
    memory_limit: str | None = None,
    time_limit: float | None = None,
    rows: Rows = 40,
    using: Using = DEFAULT,
) -> Answer:
    """Open a prompt for SQL on a store, or on published files.

    A semicolon at the end of a line runs the typed statements. If standard input is not
    a terminal, it is run as a script.

    For example:
      sparsehist sql logs.sparsehist

    Args:
        store: Directory of the store; CREATE SERIES creates a missing store.
        analyst: Instead of a store: a directory of published Parquet files and their ledger, read-only.
        memory_limit: With --analyst: memory for queries, such as 4GB.
        time_limit: With --analyst: seconds that a query may take.
    """
    limits = arguments(memory_limit=memory_limit, time_limit=time_limit)
    if store is None and analyst is not None:
        with sh.open_analyst(analyst, **limits) as reading:
            return _converse(lambda text: described(_read_only(reading, text, rows)))
    if store is None or analyst is not None or limits:
        raise DeclarationError(
            "pass either a store, or --analyst with a directory of published files; "
            "--memory-limit and --time-limit are only for --analyst"
        )
    with Session(using.home(store), rows=rows) as session:
        return _converse(lambda text: described(run_script(session, text)))


def _read(script: Path) -> str:
    """Read a file as UTF-8, whatever the locale; if the name is -, read standard input instead."""
    try:
        if str(script) != "-":
            return script.read_text(encoding="utf-8-sig")
        raw = getattr(sys.stdin, "buffer", None)
        return sys.stdin.read() if raw is None else str(raw.read(), "utf-8-sig")
    except OSError as problem:
        raise InputError(f"{script} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{script} is not UTF-8 text") from None


def _converse(run_text: Callable[[str], Answer]) -> Answer:
    """Run statements as the user types them, or run standard input as a script if it is not a terminal."""
    if not sys.stdin.isatty():
        return run_text(_read(Path("-")))
    import readline  # noqa: F401 - gives `input` line editing and recall

    sys.stdout.write("A semicolon at the end of a line runs the typed statements; Ctrl-D leaves\n")
    typed = ""
    while True:
        try:
            typed += input("...> " if typed else "sql> ") + "\n"
            if typed.strip() and not typed.rstrip().endswith(";"):
                continue
            print_answer(run_text(typed), as_json=False)
        except KeyboardInterrupt:
            sys.stdout.write("\ninterrupted; committed changes remain\n")
        except EOFError:
            return Answer({}, [])
        except SparsehistError as problem:
            print_error(str(problem))
        typed = ""


def _read_only(session: sh.AnalystSession, script: str, rows: int) -> Iterator[Outcome]:
    """Run the queries of a script on published tables, up to the first query that fails."""
    for piece in pieces(script):
        try:
            frame = session.sql(piece.text)
        except StatementError as problem:
            yield failed(piece, problem)
            return
        yield Outcome(piece.number, piece.line, "duckdb", frame.head(rows), more=frame.height > rows)


def described(outcomes: Iterable[Outcome], *, script: str | None = None) -> Answer:
    """Convert the outcomes of SQL statements to the result of a command, both as JSON and as tables."""
    outcomes = list(outcomes)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    data: dict[str, Any] = {"script": script, "statements": [_as_data(outcome) for outcome in outcomes]}
    if errors:
        data["error"] = _error(errors[0])
    shown = [part for outcome in outcomes for part in _as_shown(outcome)]
    complaint = "\n".join(map(str, errors))
    if errors and all(outcome.kind == "not run" for outcome in outcomes):
        complaint += "\nNothing was run."
    return Answer(data, shown, errors[0].exit_code if errors else 0, complaint)


def _error(problem: SparsehistError) -> dict[str, str]:
    return {"type": type(problem).__name__, "message": str(problem)}


def _as_data(outcome: Outcome) -> dict[str, Any]:
    data: dict[str, Any] = {"number": outcome.number, "line": outcome.line, "kind": outcome.kind}
    if outcome.message:
        data["message"] = outcome.message
    if outcome.release is not None:
        status = "repeated" if outcome.release.repeated else "released"
        data |= {"status": status, "rows": len(outcome.release), "metadata": outcome.release.metadata}
    elif outcome.frame is not None:
        data |= {"rows": outcome.frame.to_dicts(), "more": outcome.more}
    if outcome.error is not None:
        data["error"] = _error(outcome.error)
    return data


def _as_shown(outcome: Outcome) -> Iterator[Any]:
    if outcome.message:
        yield f"line {outcome.line}: {outcome.message}"
    if outcome.frame is None or outcome.release is not None:
        return
    rows = outcome.frame.head(MOST_ROWS).to_dicts()
    if outcome.kind == "show ledger":
        rows = for_people(rows)
    yield rows_table(rows, exact=outcome.kind == "duckdb", seldom=("workload", "strategy")) if rows else "no rows"
    if outcome.more:
        yield f"… the first {outcome.frame.height:,} rows; --rows prints more"
