"""Scripts: checked whole, then run from the first statement to the last or to the first error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparsehist.errors import SparsehistError, StatementError
from sparsehist.release.home import Home
from sparsehist.sqlfront.checking import Problem
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.results import Outcome, SqlResult
from sparsehist.sqlfront.session import Session


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
    foreseen = None
    if dry_run:
        from sparsehist.sqlfront.dry_run import DryRun  # workloads, and what of scipy they need

        foreseen = DryRun(session.store)
    steps: list[Statement | Problem] = [*statements, *problems] if keep_going or not problems else [*problems]
    for step in sorted(steps, key=lambda step: step.number):
        if isinstance(step, Problem):
            outcome = Outcome(step.number, step.line, "not run", error=step.error)
        elif foreseen is not None:
            outcome = foreseen.outcome(step)
        else:
            try:
                outcome = session.execute(step)
            except SparsehistError as problem:
                outcome = Outcome(step.number, step.piece.line, "failed", error=problem)
        outcomes.append(outcome)
        if told is not None:
            told(outcome)
        if outcome.error is not None and not keep_going and not isinstance(step, Problem):
            break
    return outcomes


def run_sql(
    script: str,
    home: Home | None,
    *,
    parameters: Mapping[str, Any] | None = None,
    tables: Mapping[str, object] | None = None,
) -> SqlResult:
    """Run SQL in a session of its own; see `sparsehist.sql`."""
    with Session(home, tables=tables, parameters=parameters) as session:
        outcomes = run_script(session, script)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(errors) > 1:
        raise StatementError("\n".join([f"{len(errors)} statements are wrong; nothing was run", *map(str, errors)]))
    if errors:
        raise errors[0]
    return SqlResult(outcomes)
