"""The commands run and sql: statements from a file, from standard input, or typed at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli.answer import Answer, interrupted, print_error, print_shown
from sparsehist.cli.options import DEFAULT, Using, on_disk
from sparsehist.cli.releasing import MOST_ROWS, levels_for_people
from sparsehist.cli.tables import escape, rows_table
from sparsehist.errors import DeclarationError, InputError, NotFoundError, SparsehistError, StatementError
from sparsehist.ledger.table import SCHEMA, for_people
from sparsehist.release.home import Home
from sparsehist.sqlfront.reading import parameters_from
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.script import asked_for, pieces, pointed
from sparsehist.sqlfront.session import Session

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

_STDIN = "-"
_SELDOM_USED = ("workload", "strategy", "refused")
_INTERRUPTED = "interrupted; what was committed stays"
_HELP = """\
Statements end with a semicolon; they may take several lines.
  CREATE SERIES name WITH (unit = …, key = …, max_keys = …, domain = '…')
    AS SELECT …;
  RELEASE name FROM series AT LEVEL 0.01 EXPECTING 1 FALSE KEYS
    TO 'file.parquet';
  RELEASE WORKLOAD name FROM series USING 'ranges()' AT LEVEL 0.01;
  PLAN FROM series AT LEVEL 0.01, 0.1;
  SHOW SERIES; SHOW RELEASES FROM series; SHOW LEDGER; DROP SERIES name;
  SELECT * FROM series.release LIMIT 20;   and all of DuckDB's SQL
Ctrl-C cancels a line or a statement, Ctrl-D or .quit leaves."""
_HELP_FOR_READERS = """\
Queries end with a semicolon; they may take several lines.
  SHOW TABLES;                                the releases and the ledger
  SELECT * FROM series.release LIMIT 20;      DuckDB's SQL, for reading only
Ctrl-C cancels a line or a query, Ctrl-D or .quit leaves."""

Rows = Annotated[int, Parameter(help="Print at most this many rows of a result.")]
StorePath = Annotated[Path | None, Parameter(help="Directory of the store; CREATE SERIES makes it if there is none.")]


def run(
    script: Annotated[Path, Parameter(help="File of statements; - reads standard input.", allow_leading_hyphen=True)],
    /,
    *,
    store: StorePath = None,
    param: Annotated[
        list[str] | None,
        Parameter(
            help="name=value for $name in the script; may be repeated. A number, true, false, null and 'text' are "
            "read as in SQL; everything else is text.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        Parameter(
            help="name=source: a table of the script read from s3, gs, az or https, delta:path, iceberg:path or "
            "files; may be repeated."
        ),
    ] = None,
    keep_going: Annotated[
        bool, Parameter(help="Leave out statements that are wrong or fail; run the others.")
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Run nothing: show each statement and what it would spend.")] = False,
    rows: Rows = 40,
    using: Using = DEFAULT,
) -> Answer:
    """Run a script of SQL.

    CREATE SERIES, RELEASE, PLAN, SHOW SERIES | RELEASES | LEDGER and DROP SERIES
    work on the store, all else goes to DuckDB; a release is the table
    series.release. The whole script is checked first: if anything is wrong,
    nothing runs. It stops at the first error; what was committed before stays.

    For example:
      sparsehist run script.sql --store logs.sparsehist --param level=0.01
    """
    text, parameters = _read(script), parameters_from(param or ())
    for name in parameters.keys() - asked_for(text, parameters):
        raise DeclarationError(f"the script does not name the parameter ${name}")
    pairs = [word.partition("=") for word in table or ()]
    if not all(name.isidentifier() and source for name, _, source in pairs):
        raise DeclarationError("--table is a name, = and where it is read from, as in --table log=delta:logs/visits")
    tables = {name: source for name, _, source in pairs}
    with Session(_home(store, using), parameters=parameters, tables=tables, rows=_checked(rows)) as session:
        return described(run_script(session, text, keep_going=keep_going, dry_run=dry_run), script=str(script))


def sql(
    store: StorePath = None,
    /,
    *,
    analyst: Annotated[
        Path | None,
        Parameter(help="Instead of a store: a directory of published Parquet files and their ledger, read-only."),
    ] = None,
    memory_limit: Annotated[str | None, Parameter(help="With --analyst: of the queries, such as 4GB.")] = None,
    time_limit: Annotated[float | None, Parameter(help="With --analyst: seconds that a query may take.")] = None,
    rows: Rows = 40,
    using: Using = DEFAULT,
) -> Answer:
    """Open a prompt for SQL on a store, or on published files.

    Statements end with a semicolon and may take several lines; .help explains. A
    script on standard input is run.

    For example:
      sparsehist sql logs.sparsehist
    """
    limits = {"memory_limit": memory_limit, "time_limit": time_limit}
    asked: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if (store is None) == (analyst is None):
        raise DeclarationError("name a store, or a directory of published files with --analyst")
    if store is not None and asked:
        raise DeclarationError(f"--{next(iter(asked)).replace('_', '-')} is for published files, named by --analyst")
    if analyst is not None:
        with sh.open_analyst(analyst, **asked) as reading:
            return _converse(
                lambda text: described(list(_read_only(reading, text, _checked(rows)))), _HELP_FOR_READERS
            )
    with Session(_home(store, using), rows=_checked(rows)) as session:
        return _converse(lambda text: described(run_script(session, text)), _HELP)


def _home(store: Path | None, using: Using) -> Home | None:
    return None if store is None else Home(on_disk(store), wait=using.wait, who=using.who)


def _checked(rows: int) -> int:
    if not 1 <= rows <= MOST_ROWS:
        raise DeclarationError(f"--rows takes a number from 1 to {MOST_ROWS}, got {rows}")
    return rows


def _read(script: Path) -> str:
    if str(script) == _STDIN:
        raw = getattr(sys.stdin, "buffer", None)  # bytes, as text is UTF-8 here whatever the locale
        try:
            return sys.stdin.read() if raw is None else str(raw.read(), "utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("standard input is not UTF-8 text") from None
    if script.is_dir():
        raise InputError(f"{script} is a directory: name a file of SQL in it")
    if not script.is_file():
        raise NotFoundError(f"there is no file {script}")
    try:
        return script.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise InputError(f"{script} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{script} is not UTF-8 text") from None


def _converse(run_text: Callable[[str], Answer], about: str) -> Answer:
    """Run statements as they are typed, until the user leaves; or a script on standard input."""
    if not sys.stdin.isatty():
        return run_text(_read(Path(_STDIN)))
    import readline  # noqa: F401 - gives `input` line editing and recall

    sys.stdout.write("Statements end with a semicolon; .help explains, Ctrl-D leaves\n")
    typed = ""
    while True:
        try:
            typed += input("...> " if typed else "sql> ") + "\n"
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            typed = ""
            continue
        except EOFError:
            return Answer({}, [])
        command = typed.strip().rstrip(";").lower()
        if command in (".quit", ".exit", "exit", "quit"):
            return Answer({}, [])
        if command in (".help", "help"):
            sys.stdout.write(about + "\n")
        elif command and not is_complete(typed):
            continue
        elif command:
            _print_result(run_text, typed)
        typed = ""


def _print_result(run_text: Callable[[str], Answer], typed: str) -> None:
    from rich.console import Console

    answer = Answer({}, [])
    try:
        answer = run_text(typed)
        complaint = answer.complaint
    except KeyboardInterrupt:
        complaint = _INTERRUPTED
    except SparsehistError as problem:
        complaint = str(problem)
    print_shown(Console(highlight=False, emoji=False), answer.shown)
    stopped = interrupted()  # an engine reports it in its own way
    if complaint:
        print_error(_INTERRUPTED if stopped else complaint, "", as_json=False)


def is_complete(typed: str) -> bool:
    """Whether every statement typed so far has ended.

    Example:
        >>> is_complete("select ';'"), is_complete("select 1;")
        (False, True)
    """
    try:
        return len(pieces(f"{typed}\nx")) > len(pieces(typed))  # a further word begins a further statement
    except StatementError:
        return False


def _read_only(session: sh.AnalystSession, script: str, rows: int) -> Iterator[Outcome]:
    """Run queries on published tables, up to the first that fails."""
    try:
        for piece in pieces(script):
            try:
                frame = session.sql(piece.text)
            except StatementError as problem:
                problem.args = (pointed(str(problem), script, piece.place),)
                yield Outcome(piece.number, piece.line, "failed", error=problem)
                return
            yield Outcome(piece.number, piece.line, "duckdb", frame.head(rows), more=frame.height > rows)
    except StatementError as problem:
        yield Outcome(0, 1, "not run", error=problem)


def described(outcomes: Sequence[Outcome], *, script: str | None = None) -> Answer:
    """What statements did, for machines and for people."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    data: dict[str, Any] = {"script": script, "statements": [_as_data(outcome) for outcome in outcomes]}
    if errors:
        data["error"] = {"type": type(errors[0]).__name__, "message": str(errors[0])}
    shown = [part for outcome in outcomes for part in _as_shown(outcome)]
    complaint = "\n".join(map(str, errors))
    if errors and all(outcome.kind == "not run" for outcome in outcomes):
        complaint += "\nNothing was run."
    return Answer(data, shown, errors[0].exit_code if errors else 0, complaint)


def _as_data(outcome: Outcome) -> dict[str, Any]:
    said: dict[str, Any] = {"number": outcome.number, "line": outcome.line, "kind": outcome.kind}
    if outcome.said:
        said["said"] = outcome.said
    if outcome.frame is not None and outcome.kind != "release":
        said |= {"rows": outcome.frame.to_dicts(), "more": outcome.more}
    if outcome.release is not None:
        status = "repeated" if outcome.release.repeated else "released"
        said |= {"status": status, "rows": len(outcome.release), "metadata": dict(outcome.release.metadata)}
    if outcome.error is not None:
        said["error"] = {"type": type(outcome.error).__name__, "message": str(outcome.error)}
    return said


def _as_shown(outcome: Outcome) -> Iterator[RenderableType]:
    if outcome.said:
        yield escape(f"line {outcome.line}: {outcome.said}")
    if outcome.frame is None or outcome.kind == "release":
        return
    if outcome.frame.width:
        of_user = outcome.kind == "duckdb"
        first = outcome.frame.head(MOST_ROWS)
        yield rows_table(first if of_user else _for_people(first), exact=of_user)
    if outcome.more:
        yield f"… the first {outcome.frame.height:,} rows; --rows prints more"
    elif not outcome.frame.height:
        yield "no rows"


def _for_people(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Our own tables have more columns than a terminal: fewer, shorter and in words."""
    rows = frame.to_dicts()
    if frame.columns == list(SCHEMA):
        return for_people(rows)
    shown = levels_for_people(rows) if "population_epsilon" in frame.columns else rows
    unused = {name for name in _SELDOM_USED if all(row.get(name) is None for row in shown)}
    return [{name: value for name, value in row.items() if name not in unused} for row in shown]
