"""The statements of our own, as records; everything else is DuckDB's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparsehist.sqlfront.script import Piece, Place


@dataclass(frozen=True)
class Option:
    """A value in WITH (…), a text, int, bool, Decimal, Fraction or tuple of texts, and where it stands."""

    value: Any
    place: Place


@dataclass(frozen=True)
class Counted:
    """What counts a log into a series, which it names: WITH (option = value, …) and AS query."""

    name: str
    name_place: Place
    options: Mapping[str, Option]
    query: str = field(repr=False)
    query_place: Place


@dataclass(frozen=True)
class CreateSeries(Counted):
    """CREATE [RUNNING] SERIES [IF NOT EXISTS] name WITH (option = value, …) [OVER n STEPS] [AS query].

    A running series has steps, and its query, which may be left out, is the log of the first one. A series with the
    option `every` has no query; others need one.
    `reuse` is IF NOT EXISTS: a series of this name is kept if declaration, query and log are the same.
    """

    reuse: bool
    steps: int | None = None


@dataclass(frozen=True)
class AppendStep(Counted):
    """APPEND TO name [WITH (public_tables = …)] STEP n | PERIOD '2026-W12' AS query.

    Steps are numbered from 1; of a step and a period, one is None.
    """

    step: int | None = None
    period: str | None = None


@dataclass(frozen=True)
class MakeRelease:
    """RELEASE [WORKLOAD] name FROM series …, PLAN [RELEASE] [WORKLOAD] [name] FROM series ….

    Attributes:
        name: Of the release; a plan may have none.
        levels: Exact, or an (epsilon, delta) that stands for one; one for a release, none for a release that was
            made before, any number for a plan.
        target: TO 'file.parquet'.
        measures: MEASURES 0.5, or by name: MEASURES 'price=0.5, events=0.1'.
        step, what: AT STEP n, COUNTING 'new', of a running series.
        only_plan: PLAN: nothing is drawn and nothing is spent.
        places: Where the values of these stand.
    """

    name: str | None
    series: str
    levels: tuple[Any, ...] = ()
    threshold: float | None = None
    false_keys: float | None = None
    delta: float | None = None
    target: str | None = None
    workload: str | None = None
    strategy: str | None = None
    measures: Any = None
    step: int | None = None
    what: str | None = None
    only_plan: bool = False
    places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Show:
    """SHOW SERIES, SHOW RELEASES [FROM series], SHOW LEDGER [SHORT] [FROM series] [SINCE 'time'] [DELTA d].

    `what` is in lower case.
    """

    what: str
    series: str | None = None
    delta: float | None = None
    since: str | None = None
    short: bool = False
    place: Place | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class DropSeries:
    """DROP SERIES [IF EXISTS] name."""

    name: str
    if_exists: bool
    place: Place | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class SetBudget:
    """SET BUDGET [FOR population] EPSILON e DELTA d | RHO r [ROUTE 'name'] [OPEN SHARE s] [BECAUSE 'reason'].

    `asked` has the parameters of `Store.set_budget`.
    """

    asked: Mapping[str, Any]


@dataclass(frozen=True)
class DeclareDisjoint:
    """DECLARE DISJOINT population, population, … BECAUSE 'reason'."""

    populations: tuple[str, ...]
    reason: str


Head = CreateSeries | AppendStep | MakeRelease | Show | DropSeries | SetBudget | DeclareDisjoint


@dataclass(frozen=True)
class Statement:
    """A statement of a script; `head` is None where it goes to DuckDB as it is."""

    piece: Piece
    head: Head | None

    @property
    def number(self) -> int:
        """Its number in the script, from 1."""
        return self.piece.number
