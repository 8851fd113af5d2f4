"""Scripts: checked whole, then run from the first statement to the last or to the first error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sparsehist.errors import SparsehistError, StatementError
from sparsehist.series.store_handle import Store
from sparsehist.sqlfront.checking import Problem
from sparsehist.sqlfront.heads import Statement
from sparsehist.sqlfront.results import Outcome, SqlResult
from sparsehist.sqlfront.session import Session

if TYPE_CHECKING:
    from sparsehist.sqlfront.dry_run import DryRun


def run_script(
    session: Session,
    script: str,
    *,
    keep_going: bool = False,
    dry_run: bool = False,
    told: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Check a script, then run it; `told` is called with each outcome as it comes.

    Unless `keep_going`, nothing runs if any statement is wrong, and nothing after the first that fails; a dry run
    says what each statement would spend. Returns what each did, failed ones included, in order.
    """
    statements, problems = session.check(script)
    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if told is not None:
            told(outcome)

    if problems and not keep_going:
        for problem in problems:
            note(_refused(problem))
        return outcomes
    foreseen = _foreseen(session) if dry_run else None
    steps: list[Statement | Problem] = [*statements, *problems]
    for step in sorted(steps, key=lambda step: step.number):
        if isinstance(step, Problem):
            note(_refused(step))
            continue
        outcome = _attempt(session, step) if foreseen is None else foreseen.outcome(step)
        note(outcome)
        if outcome.error is not None and not keep_going:
            break
    return outcomes


def _foreseen(session: Session) -> DryRun:
    from sparsehist.sqlfront.dry_run import DryRun  # workloads, and what of scipy they need, take a quarter second

    return DryRun(session.store)


def _refused(problem: Problem) -> Outcome:
    return Outcome(problem.number, problem.line, "not run", error=problem.error)


def _attempt(session: Session, statement: Statement) -> Outcome:
    try:
        return session.execute(statement)
    except SparsehistError as problem:
        return Outcome(statement.piece.number, statement.piece.line, "failed", error=problem)


def sql(
    script: str,
    *,
    store: Store | str | Any = None,
    parameters: Mapping[str, Any] | None = None,
    tables: Mapping[str, object] | None = None,
    wait: float = 0.0,
    who: str | None = None,
) -> SqlResult:
    """Run SQL: statements of sparsehist (CREATE SERIES, APPEND, RELEASE, PLAN, SHOW, DROP) and any of DuckDB's.

    The whole script is checked before any of it runs; it stops at the first error, and what was committed before
    stays. Each call is a session of its own: tables and views made in it end with it, releases are there as
    tables `series.release`.

    Args:
        script: Statements with semicolons between them.
        store: Directory of a store, or a `Store`; made by the first CREATE SERIES. Without one, only DuckDB's
            statements run.
        parameters: Values for $name; levels may be text, int, Decimal or Fraction.
        tables: What the statements see, by name: frames, Arrow tables, paths and URLs of files, `Files`, tables of
            Delta and Iceberg, which are read whole. Variables of your program are not seen.
        wait: Seconds to wait for a store in use, where `store` is a directory.
        who: Asks, for the ledger; the user of the operating system by default.

    Returns:
        What the statements did; `.frame` are the rows of the last one, `.release` its release.

    Raises:
        StatementError: If statements are wrong; the message shows each with its place, and nothing has run.
        SparsehistError: What a statement raised when it ran; the message shows the place.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> with sh.open(":memory:", seed=1) as store:
        ...     made = sh.sql('''
        ...         CREATE SERIES visits
        ...           WITH (unit = user_id, key = url, max_keys = 1, domain = 'strings(max_bytes=8)')
        ...           AS SELECT user_id, url FROM log;
        ...         RELEASE public FROM visits AT LEVEL 0.5 EXPECTING 1 FALSE KEYS;
        ...         SELECT url FROM visits.public ORDER BY noisy_count DESC LIMIT 1;
        ...     ''', store=store, tables={"log": pl.DataFrame({"user_id": range(500), "url": ["/home"] * 500})})
        >>> made.frame["url"].to_list()
        ['/home']
    """
    home = store if store is None or isinstance(store, Store) else Store(store, wait=wait)
    with Session(home, tables=tables, parameters=parameters, who=who) as session:
        outcomes = run_script(session, script)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(errors) > 1:
        raise StatementError("\n".join([f"{len(errors)} statements are wrong; nothing was run", *map(str, errors)]))
    if errors:
        raise errors[0]
    return SqlResult(outcomes)
