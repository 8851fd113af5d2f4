"""Read one of our statements by the table of all forms; errors show the expected word and the position.

A form has first words, perhaps a name, and clauses in any order, each at most once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import takewhile
from typing import Any

import polars as pl

from sparsehist.errors import DeclarationError, SparsehistError, StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.script import Piece, Place, Word, has_place, pointed

NO_VALUE = "the parameter ${0} has no value: give it with --param {0}=… or parameters={{…}}"
_NUMBER = re.compile(r"-?\s*(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?(\s*/\s*\d+)?", re.IGNORECASE)
_STARTS_QUERY = "( SELECT WITH FROM VALUES TABLE PIVOT UNPIVOT DESCRIBE SHOW SUMMARIZE".split()


@dataclass(frozen=True)
class Statement:
    """A statement of a script.

    Attributes:
        piece: The text of the statement.
        kind: Its kind, such as "create series"; empty if it goes to DuckDB unchanged.
        asked: The values of its clauses, by field.
        places: Positions of these values and of the options of WITH (…), by name.
        log: The query of a log with its reading options, after the statement was checked.
    """

    piece: Piece
    kind: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)
    log: Any = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of its series or release."""
        return str(self.asked.get("name", ""))

    @property
    def query(self) -> str:
        """The query after AS; empty without one."""
        return str(self.asked.get("query", ""))

    def error(self, message: str, field: str) -> StatementError:
        """Return an error that shows the position of a field, or the whole statement if it has no such field."""
        return self.piece.error(message, self.places.get(field))

    @contextmanager
    def errors_at(self, otherwise: str, **fields: str) -> Iterator[None]:
        """Add the position of the wrong parameter to errors; `fields` maps parameters to fields."""
        try:
            yield
        except SparsehistError as problem:
            named = problem.parameter or otherwise
            raise self.error(str(problem), fields.get(named, named)) from None

    def outcome(self, said: str = "", frame: pl.DataFrame | None = None, **more: Any) -> Outcome:
        """Return the outcome of the statement."""
        return Outcome(self.piece.number, self.piece.line, self.kind or "duckdb", frame, said=said, **more)

    def failed(self, problem: SparsehistError, said: str = "") -> Outcome:
        """Return the outcome of a failed statement; its error shows a position."""
        if not has_place(problem):
            problem.args = (pointed(str(problem), self.piece.script, self.piece.place),)
        return Outcome(self.piece.number, self.piece.line, "failed", said=said, error=problem)


class Words:
    """A cursor on the words of a statement, with values of parameters by lower-case name."""

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        end = piece.place.end
        self._end = Word("end", "the end of the statement", Place(end, end + 1))
        self._piece, self._parameters, self._next = piece, parameters, 0
        self.places: dict[str, Place] = {}

    def peek(self, ahead: int = 0) -> Word:
        """Return a word ahead, or a word of kind "end"."""
        at = self._next + ahead
        return self._piece.words[at] if at < len(self._piece.words) else self._end

    def take(self) -> str:
        """Take the next word."""
        word = self.peek()
        self._next += 1
        return word.text

    def since(self, start: Place) -> Place:
        """Return the span from `start` to the end of the last word read."""
        return Place(start.start, self._piece.words[self._next - 1].place.end)

    def follow(self, *keywords: str) -> bool:
        """Return whether these words or symbols are next."""
        words = [self.peek(ahead) for ahead in range(len(keywords))]
        known = [word.text.upper() for word in words if word.kind in ("word", "symbol")]
        return known == list(keywords)

    def accept(self, *keywords: str) -> bool:
        """Take these words or symbols if they are next."""
        found = self.follow(*keywords)
        self._next += len(keywords) if found else 0
        return found

    def expect(self, *keywords: str) -> None:
        """Take these words or symbols, or raise an error that names the expected ones."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.error(f"expected {' '.join(keywords)}")

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """Return an error at the next word, or at a given position."""
        if place is None and message.startswith("expected"):
            message += f", found {self.peek().text[:40]}"
        return self._piece.error(message, place or self.peek().place)

    def noted(self, field: str, read: Callable[[Words], Any]) -> Any:
        """Take the value of a field, and record its position."""
        start = self.peek().place
        value = read(self)
        self.places[field] = self.since(start)
        return value

    def rest(self) -> str:
        """Take the rest of the statement unchanged."""
        start, self._next = self.peek().place.start, len(self._piece.words)
        return self._piece.script[start : self._piece.place.end]

    def name(self, what: str) -> str:
        """Take the name of a series or release, or a parameter with this name."""
        word = self.peek()
        if self.follow("$"):
            if isinstance(value := self.parameter(), str):
                return value
            raise self.error(f"expected the name of a {what}, and the parameter is not text", self.since(word.place))
        if word.kind not in ("word", "name"):
            raise self.error(f"expected the name of a {what}")
        return self.take() if word.kind == "name" else self.take().lower()

    def column(self) -> str:
        """Take the name of a column or table, as it was written; parts joined by dots stay together."""
        parts: list[str] = []
        while not parts or self.accept("."):
            if self.peek().kind not in ("word", "name", "text"):
                raise self.error("expected a name")
            parts.append(self.take())
        return ".".join(parts)

    def parameter(self) -> Any:
        """Take $name and return its value."""
        start = self.peek().place
        self.expect("$")
        if self.peek().kind != "word":
            raise self.error("expected the name of a parameter after $")
        name = self.take()
        if name.lower() not in self._parameters:
            raise self.error(NO_VALUE.format(name), self.since(start))
        return self._parameters[name.lower()]

    def value(self) -> Any:
        """Take a value: a whole number, another number as its text, a bool, text, tuple of texts, or a parameter.

        A name means its text; a name with parentheses, such as strings(max_bytes=32), means the whole text.
        """
        word, script = self.peek(), self._piece.script
        if self.follow("$"):
            return self.parameter()
        if number := _NUMBER.match(script, word.place.start, self._piece.place.end):
            while self.peek().place.start < number.end():
                self.take()
            text = re.sub(r"[_\s]", "", number[0])
            return int(text) if text.lstrip("-").isdecimal() else text
        if word.kind == "text":
            return self.take()
        if self.accept("("):
            found = _several(Words.column)(self)
            self.expect(")")
            return found
        if word.kind == "word" and self.peek(1).text == "(":
            return self._call()
        if self.follow("TRUE") or self.follow("FALSE"):
            return self.take().upper() == "TRUE"
        if word.kind not in ("word", "name"):
            raise self.error("expected a value")
        return self.column()

    def _call(self) -> str:
        """Take the whole text of name(…) unchanged."""
        start, opened, depth = self.peek().place, self.peek(1).place, 0
        while self.peek().kind != "end":
            depth += self.follow("(") - self.follow(")")
            closes = depth == 0 and self.follow(")")
            self.take()
            if closes:
                return self._piece.script[slice(*self.since(start))]
        raise self.error("this parenthesis is not closed", opened)


@dataclass(frozen=True)
class Clause:
    """A clause of a statement.

    Attributes:
        pattern: The clause as in the reference: words in capitals, and a value between or after them.
        field: The field that it sets.
        read: Function that takes the value.
    """

    pattern: str
    field: str
    read: Callable[[Words], Any]

    def __str__(self) -> str:
        """Return the clause as the reference writes it."""
        return self.pattern

    @property
    def head(self) -> list[str]:
        """The words that it begins with."""
        return list(takewhile(_is_keyword, self.pattern.split()))

    def take(self, words: Words) -> Any:
        """Take the value, and the words after it."""
        value, rest = self.read(words), self.pattern.split()[len(self.head) :]
        words.expect(*reversed(list(takewhile(_is_keyword, reversed(rest)))))
        return value


def _is_keyword(word: str) -> bool:
    return word.isalpha() and word.isupper()


def _goal(words: Words) -> EpsilonDelta:
    """Take an (epsilon, delta) instead of a level; EPSILON before further ones is optional."""
    words.accept("EPSILON")
    start = words.peek().place
    epsilon = words.value()
    words.expect("DELTA")
    try:
        return EpsilonDelta(epsilon, words.value())
    except DeclarationError as problem:
        raise words.error(str(problem), words.since(start)) from None


def _several(read: Callable[[Words], Any]) -> Callable[[Words], tuple[Any, ...]]:
    def read_all(words: Words) -> tuple[Any, ...]:
        found = [read(words)]
        while words.accept(","):
            found.append(read(words))
        return tuple(found)

    return read_all


def _number(what: str, *, whole: bool = False) -> Callable[[Words], float]:
    def read(words: Words) -> float:
        start = words.peek().place
        value = words.value()
        try:
            found = math.nan if isinstance(value, bool) else float(Fraction(value))
        except (TypeError, ValueError, ArithmeticError):
            found = math.nan
        if not math.isfinite(found) or (whole and found != int(found)):
            raise words.error(f"expected {what}", words.since(start))
        return int(found) if whole else found

    return read


def _name(what: str) -> Callable[[Words], str]:
    return lambda words: words.name(what)


def _query(words: Words) -> str:
    if not any(words.follow(start) for start in _STARTS_QUERY):
        raise words.error("expected a query after AS, such as SELECT user_id, query FROM …")
    return words.rest()


def _options(words: Words) -> dict[str, Any]:
    words.expect("(")
    found: dict[str, Any] = {}
    while not found or words.accept(","):
        start, option = words.peek().place, words.column().lower()
        if option in found:
            raise words.error(f"the option {option} stands here for the second time", start)
        words.expect("=")
        found[option] = words.noted(option, _measures if option == "measures" else Words.value)
    words.expect(")")
    return found


def _measures(words: Words) -> Any:
    """Take (price CLIP 100 STEP 0.01, temperature CLIP -40 TO 40, events CLIP 50) as texts of measures."""
    if not words.accept("("):
        return words.value()
    found = _several(_measure)(words)
    words.expect(")")
    return found


def _measure(words: Words) -> str:
    if words.peek().kind == "text":
        return words.take()
    column = words.column()
    words.expect("CLIP")
    bounds = str(words.value())
    if words.accept("TO"):
        bounds += f"..{words.value()}"
    return f"{column}:clip={bounds}" + (f",step={words.value()}" if words.accept("STEP") else "")


_WITH = Clause("WITH (option = value, …)", "options", _options)
_AS = Clause("AS query", "query", _query)
_FROM = Clause("FROM series", "series", _name("series"))
_BECAUSE = Clause("BECAUSE 'reason'", "reason", Words.value)
_PROBABILITY = _number("a probability such as 1e-6")
_LEVEL = Clause("AT LEVEL level", "levels", _several(Words.value))
_ONE_LEVEL = Clause("AT LEVEL level", "level", Words.value)
_STEP = Clause("STEP n", "step", _number("a step such as 12", whole=True))
_DELTA = Clause("DELTA d", "delta", _PROBABILITY)
_OF_RELEASE = (
    _FROM,
    _LEVEL,
    Clause("AT EPSILON e DELTA d", "levels", _several(_goal)),
    Clause("USING 'workload'", "workload", Words.value),
    Clause("STRATEGY 'name'", "strategy", Words.value),
    Clause("EXPECTING n FALSE KEYS", "false_keys", _number("a number of false keys")),
    Clause("THRESHOLD t", "threshold", _number("a threshold in counts")),
    Clause("OPEN DELTA d", "delta", _PROBABILITY),
    Clause("AT STEP n", "step", _STEP.read),
    Clause("MEASURES 'price=0.5'", "measures", Words.value),
)
_TO = Clause("TO 'file.parquet'", "target", Words.value)


@dataclass(frozen=True)
class Form:
    """A kind of statement.

    Attributes:
        words: The words that it begins with.
        clauses: Clauses that may follow, in any order.
        needs: Required clauses, by field.
        names: Meaning of the name after `words`; empty if there is no name.
        flag: Words that may come before the name.
        kind: The kind of the statement, if it is not `words` in lower case.
    """

    words: str
    clauses: tuple[Clause, ...] = ()
    needs: tuple[str, ...] = ()
    names: str = ""
    flag: str = ""
    kind: str = ""

    def __str__(self) -> str:
        """Return the statement as the reference writes it."""
        clauses = (str(one) if one.field in self.needs else f"[{one}]" for one in self.clauses)
        return " ".join(filter(None, (self.words, f"[{self.flag}]" if self.flag else "", self.names, *clauses)))


_CREATE = "IF NOT EXISTS"
_OVER = Clause("OVER n STEPS", "steps", _number("a number of steps such as 365", whole=True))
FORMS = (
    Form("CREATE SERIES", (_WITH, _AS), ("options",), "series", _CREATE),
    Form("CREATE RUNNING SERIES", (_WITH, _OVER, _AS), ("options", "steps"), "series", _CREATE, kind="create series"),
    Form("APPEND TO", (
        _WITH, _STEP, Clause("PERIOD '2026-W12'", "period", Words.value), _AS,
    ), ("query",), "series", kind="append"),
    Form("RELEASE", (*_OF_RELEASE, _TO), ("series",), "release"),
    Form("PLAN", _OF_RELEASE, ("series", "levels")),
    Form("CHOOSE KEYS", (_WITH, _ONE_LEVEL, _TO, _AS), ("options", "level", "query"), "discovery"),
    Form("SHOW SERIES"),
    Form("SHOW RELEASES", (_FROM,)),
    Form("SHOW LEDGER", (Clause("SHORT", "short", lambda _: True), _FROM, _DELTA)),
    Form("REPORT STORE", (Clause("TO 'report.html'", "target", Words.value), _DELTA), ("target",)),
    Form("DROP SERIES", names="series", flag="IF EXISTS"),
    Form("SET BUDGET", (
        Clause("FOR population", "population", _name("population")),
        Clause("EPSILON e", "epsilon", Words.value),
        Clause("DELTA d", "delta", Words.value),
        Clause("RHO r", "rho", Words.value),
        Clause("ROUTE 'name'", "route", Words.value),
        Clause("OPEN SHARE s", "open_share", Words.value),
        _BECAUSE,
    )),
    Form("SET CAP", (_ONE_LEVEL, _BECAUSE), ("level", "reason"), "series"),
    Form("DECLARE DISJOINT", (
        Clause("population, population", "populations", _several(_name("population"))), _BECAUSE,
    ), ("populations", "reason")),
)  # fmt: skip
"""All statements of our own; docs/sql_reference.md is made from them."""


def read_statement(piece: Piece, parameters: Mapping[str, Any]) -> Statement:
    """Read a statement. Errors show the place.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> read_statement(pieces("show releases from queries")[0], {}).asked
        {'series': 'queries'}
    """
    words = Words(piece, parameters)
    form = next((form for form in FORMS if words.accept(*form.words.split())), None)
    if form is None:
        return Statement(piece)
    asked: dict[str, Any] = {}
    if form.flag and words.accept(*form.flag.split()):
        asked["flag"] = True
    if form.names:
        asked["name"] = words.noted("name", _name(form.names))
    while words.peek().kind != "end":
        left = [one for one in form.clauses if one.field not in asked]
        clause = next((one for one in left if words.accept(*one.head)), None)
        if clause is None:
            words.expect(*next((one.head for one in left if words.follow(*one.head[:1])), ()))
            raise words.error(f"expected {', '.join([*map(str, left), 'the end of the statement'])}")
        asked[clause.field] = words.noted(clause.field, clause.take)
    missing = next((one for one in form.clauses if one.field in form.needs and one.field not in asked), None)
    if missing is not None:
        raise words.error(f"expected {missing}")
    return Statement(piece, form.kind or form.words.lower(), asked, words.places)
