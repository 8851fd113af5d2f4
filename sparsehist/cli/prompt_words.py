"""What Tab completes at the prompt: keywords, series, releases, tables and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sparsehist.errors import SparsehistError
from sparsehist.sqlfront.released import releases
from sparsehist.store import is_store
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    import polars as pl
    from prompt_toolkit.completion import Completer

    from sparsehist.sqlfront.analyst import AnalystSession
    from sparsehist.sqlfront.session import Session

_WORD = re.compile(r"[\w.$\"]+")
_OURS = (
    "CREATE SERIES RELEASE RELEASES WORKLOAD PLAN SHOW LEDGER DROP LEVEL EPSILON EXPECTING FALSE KEYS THRESHOLD "
    "DELTA TO SHORT SINCE USING STRATEGY"
).split()
_READING = "SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN USING WITH DESCRIBE SUMMARIZE SHOW COUNT SUM".split()


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
        series = [session.store.series(name) for name in session.store.series_names()]
        made = [f"{one.name}.{name}" for one in series for name in releases(session.store, one.name)["name"]]
    except SparsehistError:  # none yet, or in use by somebody else: there is nothing to suggest
        return []
    return [*(one.name for one in series), *made, *(column for one in series for column in one.declaration.key)]


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
