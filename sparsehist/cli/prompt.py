"""The prompt: a line is read until its semicolon, run, and drawn; as people know it from other databases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist.cli.answer import Answer, print_error, print_shown, was_interrupted
from sparsehist.cli.tables import rows_table
from sparsehist.errors import SparsehistError, StatementError, needing, printable, without_credentials
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.release_tables import releases
from sparsehist.sqlfront.script import pieces
from sparsehist.store import is_store
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    import polars as pl
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer

    from sparsehist.sqlfront.analyst import AnalystSession
    from sparsehist.sqlfront.session import Session

WRITING = """\
Statements end with a semicolon; they may take several lines.
  CREATE SERIES name WITH (unit = …, key = …, max_keys = …, domain = '…')
    AS SELECT …;
  CREATE RUNNING SERIES name WITH (…) OVER 365 STEPS AS SELECT …;
  APPEND TO name STEP 2 AS SELECT …;
  RELEASE name FROM series AT LEVEL 0.01 EXPECTING 1 FALSE KEYS
    TO 'file.parquet';
  RELEASE WORKLOAD name FROM series USING 'ranges()' AT LEVEL 0.01;
  PLAN FROM series AT LEVEL 0.01, 0.1;
  SHOW SERIES; SHOW RELEASES FROM series; SHOW LEDGER; DROP SERIES name;
  SELECT * FROM series.release LIMIT 20;   and all of DuckDB's SQL
  .tables   the series, releases, tables and views there are
Tab completes, the arrow keys bring back earlier statements.
Ctrl-C cancels a line or a statement, Ctrl-D or .quit leaves."""
READING = """\
Queries end with a semicolon; they may take several lines.
  .tables                                     the releases and their rows, and the ledger
  SELECT * FROM series.release LIMIT 20;      DuckDB's SQL, for reading only
Tab completes, the arrow keys bring back earlier queries.
Ctrl-C cancels a line or a query, Ctrl-D or .quit leaves."""
_WORD = re.compile(r"[\w.$\"]+")
_OURS = (
    "CREATE RUNNING SERIES OVER STEPS APPEND STEP COUNTING "
    "RELEASE RELEASES WORKLOAD PLAN SHOW LEDGER DROP LEVEL EPSILON EXPECTING FALSE KEYS THRESHOLD "
    "DELTA TO SHORT SINCE USING STRATEGY"
).split()
_READING = "SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN USING WITH DESCRIBE SUMMARIZE SHOW COUNT SUM".split()
_INTERRUPTED = "interrupted; what was committed stays"
# What people type who come from other prompts.
_ALSO = {"help": ".help", "\\?": ".help", "\\h": ".help", "\\d": ".tables", "\\dt": ".tables"}
_ALSO |= dict.fromkeys((".exit", "exit", "quit", "\\q"), ".quit")


def converse(
    run: Callable[[str], Answer],
    words: Callable[[], Iterable[str]],
    *,
    title: str,
    aid: str = WRITING,
    tables: Callable[[], pl.DataFrame] | None = None,
) -> None:
    """Read statements and run them until the user leaves; `words`, for Tab to complete, are looked up each time."""
    from rich.console import Console

    session = _prompt_session(words)
    console = Console(highlight=False, emoji=False)
    console.print(f"{printable(title)}: statements end with a semicolon; .help explains, Ctrl-D leaves", markup=False)
    while True:
        try:
            text = session.prompt("sql> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        command = text.rstrip("; ").lower()
        command = _ALSO.get(command, command)
        if command == ".quit":
            return
        if command == ".help":
            console.print(aid, markup=False)
        elif command == ".tables" and tables is not None:
            _told(console, lambda _: Answer({}, [rows_table(tables())]), text)
        elif command.startswith((".", "\\")):
            console.print(f"there is no {printable(command)}; .help explains", markup=False)
        elif text:
            _told(console, run, text)


def _told(console: Any, run: Callable[[str], Answer], text: str) -> None:
    try:
        answer = run(text)
    except KeyboardInterrupt:
        answer = Answer({}, [], complaint=_INTERRUPTED)
    except SparsehistError as problem:
        answer = Answer({}, [], complaint=str(problem))
    print_shown(console, answer.shown)
    # An engine that was stopped may say so in its own way.
    stopped = was_interrupted()
    if answer.complaint:
        print_error(_INTERRUPTED if stopped else answer.complaint, "", as_json=False)


def is_complete(text: str) -> bool:
    """Whether what was typed is to be run: nothing, a command with a dot, or statements up to a semicolon.

    Example:
        >>> is_complete("select ';'"), is_complete("select 1;"), is_complete(".help")
        (False, True, True)
    """
    typed = text.strip()
    if not typed or typed.startswith((".", "\\")) or typed.rstrip("; ").lower() in _ALSO:
        return True
    try:
        pieces(typed)
        # With a word behind it, an ended text has one statement more.
        return len(pieces(f"{typed}\nx")) > len(pieces(typed))
    except StatementError:
        return False


def history_file() -> Path:
    """The file of earlier statements, which nobody else may read: they may name keys."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sparsehist"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = state / "history"
    os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    file.chmod(0o600)
    return file


def _prompt_session(words: Callable[[], Iterable[str]]) -> PromptSession[str]:
    script = ". A script runs without it: sparsehist run, or on standard input"
    with needing("the prompt", "'sparsehist[sql]'", instead=script):
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings
    keys = KeyBindings()
    session: PromptSession[str]

    @Condition
    def ended() -> bool:
        return is_complete(session.default_buffer.text)

    @keys.add("enter", filter=~ended)
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter", filter=ended)
    def _(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    class Statements(FileHistory):
        """Those that hold no credentials are kept."""

        def store_string(self, string: str) -> None:
            if without_credentials(string) == string:
                super().store_string(string)

    try:
        history: Any = Statements(str(history_file()))
    except OSError:  # a home that cannot be written
        history = InMemoryHistory()
    session = PromptSession(
        multiline=True,
        history=history,
        completer=completer(words),
        complete_while_typing=False,
        key_bindings=keys,
        prompt_continuation="...> ",
    )
    return session


def of_session(session: Session) -> Callable[[], list[str]]:
    """All words a session knows at the moment; asks the store."""
    keywords = [word for (word,) in session.connection.execute(statement("session_keywords")).fetchall()]

    def words() -> list[str]:
        from sparsehist.sqlfront.declaring import options

        names = session.connection.execute(statement("session_names")).fetchall()
        return [*_OURS, *map(str.upper, keywords), *options(), *_of_store(session), *(name for (name,) in names)]

    return words


def tables_of(session: Session) -> pl.DataFrame:
    """What a statement may name: series, releases, and the tables and views of the session."""
    import polars as pl

    made, store = [], session.store
    if store is not None and is_store(store.path):
        for series in store.series_names():
            made.append((series, "series"))
            for name, workload, level in releases(store, series)["name", "workload", "level"].iter_rows():
                made.append((f"{series}.{name}", f"release of {workload or 'cells'} at level {level}"))
    known = {name for name, _ in made}
    there = session.connection.execute(statement("session_tables")).fetchall()
    made += [(name, kind) for name, kind in there if name not in known]
    return pl.DataFrame(made, schema={"name": pl.String, "what": pl.String}, orient="row")


def of_tables(session: AnalystSession) -> Callable[[], list[str]]:
    """All words a reader's session knows."""
    return lambda: [*_READING, *session.tables()["name"], "noisy_count"]


def _of_store(session: Session) -> list[str]:
    if session.store is None:
        return []
    try:
        with session.store.hold() as state:
            series = [declaration_of(record) for record in state.all_series()]
        made = [f"{one.name}.{name}" for one in series for name in releases(session.store, one.name)["name"]]
    except SparsehistError:  # none yet, or in use by somebody else: there is nothing to suggest
        return []
    return [*(one.name for one in series), *made, *(column for one in series for column in one.key)]


def completer(words: Callable[[], Iterable[str]]) -> Completer:
    """Complete the word before the cursor from `words`, whatever its case."""
    from prompt_toolkit.completion import Completer, Completion

    class _Completer(Completer):
        """Asks for the words each time."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:  # noqa: ARG002
            typed = document.get_word_before_cursor(pattern=_WORD)
            for word in sorted(set(words()), key=str.casefold):
                if word.casefold().startswith(typed.casefold()):
                    yield Completion(word, start_position=-len(typed))

    return _Completer()
