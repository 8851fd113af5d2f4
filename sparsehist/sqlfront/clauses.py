"""The clauses of RELEASE and PLAN: one table says how each is written, what it sets and what it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlglot import TokenType

from sparsehist.errors import DeclarationError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.words import Words


@dataclass(frozen=True)
class Clause:
    """One clause; they may stand in any order, each once.

    Attributes:
        words: It begins with these; the first tells it from the others.
        shown: How it is written.
        field: Of `MakeRelease`, which it sets.
        read: Takes what follows its words.
        of_cells: Whether it belongs to releases of cells.
        of_workload: Whether it belongs to releases of workloads.
    """

    words: str
    shown: str
    field: str
    read: Callable[[Words], Any]
    of_cells: bool = True
    of_workload: bool = True


def _listed(read: Callable[[Words], Any]) -> Callable[[Words], tuple[Any, ...]]:
    def levels(words: Words) -> tuple[Any, ...]:
        found = [read(words)]
        while words.accept_symbol(TokenType.COMMA):
            words.accept("EPSILON")
            found.append(read(words))
        return tuple(found)

    return levels


def _goal(words: Words) -> EpsilonDelta:
    """EPSILON e DELTA d, which stands for a level: that DELTA belongs to it."""
    start = words.place()
    epsilon = words.level()
    words.expect("DELTA")
    try:
        return EpsilonDelta(epsilon, words.level())
    except DeclarationError as problem:
        raise words.error(str(problem), words.since(start)) from None


def _false_keys(words: Words) -> float:
    number = words.number("a number of false keys")
    words.expect("FALSE")
    if not words.accept("KEY"):
        words.expect("KEYS")
    return number


def _text(what: str) -> Callable[[Words], str]:
    return lambda words: words.text(what)


def _number(what: str) -> Callable[[Words], float]:
    return lambda words: words.number(what)


CLAUSES = (
    Clause("USING", "USING 'workload'", "workload", _text("a workload such as 'prefix(1024)'"), of_cells=False),
    Clause("STRATEGY", "STRATEGY 'name'", "strategy", _text("a strategy such as 'spectral'"), of_cells=False),
    Clause("AT LEVEL", "AT LEVEL", "levels", _listed(Words.level)),
    Clause("AT EPSILON", "AT LEVEL", "levels", _listed(_goal)),
    Clause("EXPECTING", "EXPECTING n FALSE KEYS", "false_keys", _false_keys, of_workload=False),
    Clause("THRESHOLD", "THRESHOLD", "threshold", _number("a threshold in counts"), of_workload=False),
    Clause("DELTA", "DELTA", "delta", _number("a probability such as 1e-6"), of_workload=False),
    Clause("TO", "TO 'file.parquet'", "target", _text("a file such as 'public.parquet'")),
)
_ONE_OF_THESE = ("false_keys", "threshold", "delta")


def read_clauses(words: Words, asked: dict[str, Any], *, of_workload: bool, only_plan: bool) -> None:
    """Read clauses up to the end of the statement.

    Args:
        words: Behind the name of the series.
        asked: What was read so far, by field of `MakeRelease`; what the clauses say is added.
        of_workload: Whether the release is one of a workload.
        only_plan: Whether only a plan is asked.

    Raises:
        StatementError: If a clause is unknown, stands for the second time, belongs to other releases or contradicts
            another one; says where and what was expected.
    """
    while not words.at_end():
        whole = (clause for clause in CLAUSES if words.follow(*clause.words.split()))
        begun = (clause for clause in CLAUSES if words.follow(clause.words.split()[0]))
        clause = next(whole, None) or next(begun, None)
        if clause is None:
            raise words.error(_expected(asked, of_workload=of_workload, only_plan=only_plan))
        _check(clause, words, asked, of_workload=of_workload, only_plan=only_plan)
        words.expect(*clause.words.split())
        start = words.place()
        asked[clause.field] = clause.read(words)
        asked["places"][clause.field] = words.since(start)
        if clause.field == "levels" and len(asked["levels"]) > 1 and not only_plan:
            raise words.error("a release has one level; a plan may have several", asked["places"]["levels"])


def _check(clause: Clause, words: Words, asked: Collection[str], *, of_workload: bool, only_plan: bool) -> None:
    if clause.field in asked:
        raise words.error(f"{clause.words} stands here for the second time")
    if clause.field == "target" and only_plan:
        raise words.error("a plan writes nothing: leave TO out")
    if of_workload and not clause.of_workload:
        raise words.error(f"a workload has no threshold, and all of it is released: leave {clause.words} out")
    if not of_workload and not clause.of_cells:
        raise words.error(f"{clause.words} belongs to RELEASE WORKLOAD name FROM series")
    if clause.field in _ONE_OF_THESE and any(field in asked for field in _ONE_OF_THESE):
        raise words.error("expected one of EXPECTING … FALSE KEYS, THRESHOLD and DELTA, not both")


def _expected(asked: Collection[str], *, of_workload: bool, only_plan: bool) -> str:
    chosen = any(field in asked for field in _ONE_OF_THESE)
    left = dict.fromkeys(
        clause.shown
        for clause in CLAUSES
        if clause.field not in asked
        and (clause.of_workload if of_workload else clause.of_cells)
        and not (chosen and clause.field in _ONE_OF_THESE)
        and not (only_plan and clause.field == "target")
    )
    return f"expected {', '.join([*left, 'or the end of the statement'])}"
