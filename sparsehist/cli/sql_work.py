"""What `run` and `sql` do: run statements and describe what came out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist.cli.answer import Answer
from sparsehist.cli.commands import MOST_ROWS, check_place
from sparsehist.cli.tables import escape, rows_table
from sparsehist.errors import DeclarationError, InputError, NotFoundError, StatementError
from sparsehist.release.home import Home
from sparsehist.sqlfront.reading import parameters_from
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.script import asked_for, pieces, pointed
from sparsehist.sqlfront.session import Session

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from sparsehist.sqlfront.analyst import AnalystSession

_STDIN = "-"
_SELDOM_USED = ("workload", "strategy", "refused")


def run_file(
    script: Path,
    store: Path | None,
    param: Sequence[str],
    table: Sequence[str],
    *,
    keep_going: bool,
    dry_run: bool,
    rows: int,
    who: str | None,
    wait: float,
) -> Answer:
    """Run a script from a file."""
    text, parameters, tables = _read(script), parameters_from(param), _tables(table)
    for name in parameters.keys() - asked_for(text, parameters):
        raise DeclarationError(f"the script does not name the parameter ${name}")
    home = _home(store, wait, who)
    with Session(home, parameters=parameters, tables=tables, rows=_checked_rows(rows)) as session:
        outcomes = run_script(session, text, keep_going=keep_going, dry_run=dry_run)
    return described(outcomes, script=str(script))


def _tables(words: Sequence[str]) -> dict[str, str]:
    """What --table says: name=source."""
    pairs = [word.partition("=") for word in words]
    if not all(name.isidentifier() and source for name, _, source in pairs):
        raise DeclarationError("--table is a name, = and where it is read from, as in --table log=delta:logs/visits")
    return {name: source for name, _, source in pairs}


def open_prompt(
    store: Path | None, analyst: Path | None, *, rows: int, who: str | None, wait: float, **of_readers: Any
) -> Answer:
    """Open a prompt, or run what comes on standard input; `of_readers` are options of `open_analyst`."""
    if (store is None) == (analyst is None):
        raise DeclarationError("name a store, or a directory of published files with --analyst")
    if analyst is not None:
        return _for_analyst(analyst, of_readers, _checked_rows(rows))
    wrong = [name for name, value in of_readers.items() if value is not None]
    if wrong:
        option = wrong[0].replace("_", "-")
        raise DeclarationError(f"--{option} is for published files, named by --analyst")
    with Session(_home(store, wait, who), rows=_checked_rows(rows)) as session:
        from sparsehist.cli.prompt import WRITING, converse, of_session, tables_of

        def run(text: str) -> Answer:
            return described(run_script(session, text), script=None if sys.stdin.isatty() else _STDIN)

        if not sys.stdin.isatty():
            return _piped(run, WRITING, lambda: tables_of(session))
        converse(
            run,
            of_session(session),
            title=str(store),
            tables=lambda: tables_of(session),
        )
    return Answer({"store": str(store)}, [])


def _for_analyst(directory: Path, asked: dict[str, Any], rows: int) -> Answer:
    """A prompt, or a script on standard input, on published files."""
    from sparsehist.sqlfront.analyst import open_analyst

    with open_analyst(directory, **asked) as session:

        def run(text: str) -> Answer:
            return described(list(_read_only(session, text, rows)), script=None)

        from sparsehist.cli.prompt import READING, converse, of_tables

        if not sys.stdin.isatty():
            return _piped(run, READING, session.tables)
        converse(run, of_tables(session), title=str(directory), aid=READING, tables=session.tables)
    return Answer({"directory": str(directory)}, [])


def _piped(run: Callable[[str], Answer], aid: str, tables: Callable[[], pl.DataFrame]) -> Answer:
    """Run what comes on standard input: a script, or nothing but commands with a dot, as the prompt has them."""
    text = _read(Path(_STDIN))
    commands = [line.strip().rstrip(";").lower() for line in text.splitlines() if line.strip()]
    if not commands or not all(command.startswith(".") for command in commands):
        return run(text)
    shown: list[RenderableType] = []
    for command in commands:
        if command in (".quit", ".exit"):
            break
        if command not in (".help", ".tables"):
            raise DeclarationError(f"there is no {command}; .help explains")
        shown.append(escape(aid) if command == ".help" else rows_table(tables()))
    return Answer({"commands": commands}, shown)


def _read_only(session: AnalystSession, script: str, rows: int) -> Iterator[Outcome]:
    """Run queries on published tables, up to the first that fails."""
    try:
        for piece in pieces(script):
            try:
                frame = session.sql(piece.text)
            except StatementError as problem:
                problem.args = (pointed(str(problem), script, piece.place),)
                yield Outcome(piece.number, piece.line, "failed", error=problem)
                return
            yield Outcome(piece.number, piece.line, "duckdb", _copied(frame.head(rows)), more=frame.height > rows)
    except StatementError as problem:
        yield Outcome(0, 1, "not run", error=problem)


def _copied(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows by themselves: a slice would keep the whole results of all statements."""
    import polars as pl

    if not frame.width:
        return frame
    stream = frame.write_ipc_stream(None, compat_level=pl.CompatLevel.oldest())
    return pl.read_ipc_stream(stream.getvalue())


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


def _as_shown(outcome: Outcome) -> list[RenderableType]:
    shown: list[RenderableType] = []
    if outcome.said:
        shown.append(escape(f"line {outcome.line}: {outcome.said}"))
    if outcome.frame is not None and outcome.kind != "release":
        if outcome.frame.width:
            of_user = outcome.kind == "duckdb"
            first = outcome.frame.head(MOST_ROWS)
            shown.append(rows_table(first if of_user else _for_people(first), exact=of_user))
        if outcome.more:
            shown.append(f"… the first {outcome.frame.height:,} rows; --rows prints more")
        elif not outcome.frame.height:
            shown.append("no rows")
    return shown


def _for_people(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Our own tables have more columns than a terminal: fewer, shorter and in words."""
    from sparsehist.cli.plan_command import levels_for_people
    from sparsehist.ledger.table import SCHEMA, for_people

    rows = frame.to_dicts()
    if frame.columns == list(SCHEMA):
        return for_people(rows)
    shown = levels_for_people(rows) if "population_epsilon" in frame.columns else rows
    unused = {name for name in _SELDOM_USED if all(row.get(name) is None for row in shown)}
    return [{name: value for name, value in row.items() if name not in unused} for row in shown]


def _home(store: Path | None, wait: float, who: str | None) -> Home | None:
    if store is None:
        return None
    check_place(store, wait)
    return Home(store, wait=wait, who=who)


def _checked_rows(rows: int) -> int:
    if not 1 <= rows <= MOST_ROWS:
        raise DeclarationError(f"--rows takes a number from 1 to {MOST_ROWS}, got {rows}")
    return rows


def _read(script: Path) -> str:
    if str(script) == _STDIN:
        # In bytes, where it has any: text is UTF-8 here, whatever the locale says.
        raw = getattr(sys.stdin, "buffer", None)
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
