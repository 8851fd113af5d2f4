"""Scripts: checked whole, then run from the first statement to the last or to the first error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparsehist.errors import SparsehistError, StatementError
from sparsehist.release.home import Home
from sparsehist.sqlfront.results import Outcome, SqlResult
from sparsehist.sqlfront.script import has_place, pointed
from sparsehist.sqlfront.session import Session


def run_script(session: Session, script: str, *, keep_going: bool = False, dry_run: bool = False) -> list[Outcome]:
    """Check a script, then run it, and return what each statement did, failed ones included, in order.

    Unless `keep_going`, nothing runs if any statement is wrong, and nothing after the first that fails; a dry run
    says what each statement would spend.
    """
    steps = session.check(script)
    wrong = [step for step in steps if isinstance(step, Outcome)]
    run, outcomes = session.execute, list[Outcome]()
    if dry_run:
        from sparsehist.sqlfront.dry_run import DryRun  # workloads, and what of scipy they need

        run = DryRun(session.store).foreseen
    for step in steps if keep_going or not wrong else wrong:
        if isinstance(step, Outcome):
            outcomes.append(step)
            continue
        piece = step.piece
        try:
            outcomes.append(run(step))
        except SparsehistError as problem:
            if not has_place(problem):
                problem.args = (pointed(str(problem), piece.script, piece.place),)
            said = "would be refused" if dry_run else ""
            outcomes.append(Outcome(piece.number, piece.line, "failed", said=said, error=problem))
            if not keep_going:
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
    return SqlResult(tuple(outcomes))
