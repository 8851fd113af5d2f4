"""Read a statement of our own by the table of all forms; an error says what was expected and where.

A form is the words it begins with, a name, and clauses in any order, each at most once. `Words` is a position in the
tokens of a statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from typing import Any

from sqlglot import Token, TokenType

from sparsehist.errors import DeclarationError, StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.parameters import NO_VALUE
from sparsehist.sqlfront.script import Piece, Place, is_word, spelled

_TEXTS = (TokenType.STRING, TokenType.HEREDOC_STRING)
_NUMBERS = (TokenType.NUMBER, TokenType.DOT, TokenType.DASH)
_STARTS_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SHOW", "SUMMARIZE")


@dataclass(frozen=True)
class Option:
    """A value in WITH (…), a text, int, bool, Decimal, Fraction or tuple of texts, and where it stands."""

    value: Any
    place: Place


@dataclass(frozen=True)
class Statement:
    """A statement of a script.

    Attributes:
        piece: As it was written.
        kind: What it does, such as "create series"; empty where it goes to DuckDB as it is.
        asked: What its clauses say, by field.
        places: Where these stand.
        wanted: What the query of a log must satisfy, once the statement is checked.
    """

    piece: Piece
    kind: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)
    wanted: Any = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The series or release that it names."""
        return str(self.asked.get("name", ""))

    @property
    def options(self) -> Mapping[str, Option]:
        """What WITH (…) says."""
        return dict(self.asked.get("options", {}))

    @property
    def query(self) -> str:
        """The query after AS; empty without one."""
        return str(self.asked.get("query", ""))

    def error(self, message: str, field: str) -> StatementError:
        """Return an error that shows the place of a field; the whole statement if it does not have it."""
        return self.piece.error(message, self.places.get(field))


class Words:
    """A position in the words of a statement, and the values of parameters by name in lower case."""

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        self._piece, self._parameters, self._next = piece, parameters, 0

    def token(self, ahead: int = 0) -> Token | None:
        """Return a word ahead, if there is one."""
        at = self._next + ahead
        return self._piece.tokens[at] if at < len(self._piece.tokens) else None

    def take(self) -> Token:
        """Take the next word, which must be there."""
        self._next += 1
        return self._piece.tokens[self._next - 1]

    def is_next(self, *kinds: TokenType) -> bool:
        """Return whether the next word is of one of these kinds."""
        token = self.token()
        return token is not None and token.token_type in kinds

    def spelled(self, token: Token) -> str:
        """Return a word as it was written."""
        return spelled(token, self._piece.script)

    def place(self, ahead: int = 0) -> Place:
        """Return where a word ahead stands; behind the last one if there is none."""
        token, end = self.token(ahead), self._piece.place.end
        return Place(end, end + 1) if token is None else Place(token.start, token.end + 1)

    def since(self, start: Place) -> Place:
        """Return the span from `start` to the end of the last word read."""
        return Place(start.start, self._piece.tokens[self._next - 1].end + 1)

    def keyword(self, ahead: int = 0) -> str:
        """Return a word ahead in capitals; empty if it is not a word, or stands in quotes."""
        token = self.token(ahead)
        return self.spelled(token).upper() if token is not None and is_word(token, self._piece.script) else ""

    def follow(self, *keywords: str) -> bool:
        """Return whether these words are next."""
        return all(self.keyword(ahead) == keyword for ahead, keyword in enumerate(keywords))

    def accept(self, *keywords: str) -> bool:
        """Take these words if they are next."""
        found = self.follow(*keywords)
        self._next += len(keywords) if found else 0
        return found

    def expect(self, *keywords: str) -> None:
        """Take these words, or say what was expected."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.error(f"expected {' '.join(keywords)}")

    def symbol(self, kind: TokenType, expected: str = "") -> bool:
        """Take a symbol if it is next; if it is not, say that it was expected, where `expected` names it."""
        found = self.is_next(kind)
        if expected and not found:
            raise self.error(f"expected {expected}")
        self._next += int(found)
        return found

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """Return an error at the next word, or at a place."""
        if place is None and message.startswith("expected"):
            token = self.token()
            message += ", found " + ("the end of the statement" if token is None else self.spelled(token)[:40])
        return self._piece.error(message, place or self.place())

    def rest(self) -> str:
        """Take all that is left, as it is written."""
        start, self._next = self.place().start, len(self._piece.tokens)
        return self._piece.script[start : self._piece.place.end]

    def name(self, what: str) -> str:
        """Take the name of a series or release, or a parameter that is one."""
        place = self.place()
        if self.is_next(TokenType.PARAMETER):
            if not isinstance(value := self.parameter(), str):
                raise self.error(f"expected the name of a {what}, and the parameter is not text", self.since(place))
            return value
        if self.is_next(TokenType.IDENTIFIER):
            return str(self.take().text)
        if not self.keyword():
            raise self.error(f"expected the name of a {what}")
        return self.spelled(self.take()).lower()

    def column(self) -> str:
        """Take the name of a column or table, as it is written; parts joined by dots stay together."""
        parts: list[str] = []
        while not parts or self.symbol(TokenType.DOT):
            if self.is_next(TokenType.IDENTIFIER, *_TEXTS):
                parts.append(str(self.take().text))
            elif self.keyword():
                parts.append(self.spelled(self.take()))
            else:
                raise self.error("expected a name")
        return ".".join(parts)

    def parameter(self) -> Any:
        """Take $name and return its value."""
        start = self.place()
        self.take()
        if not self.keyword():
            raise self.error("expected the name of a parameter after $")
        name = self.spelled(self.take())
        if name.lower() not in self._parameters:
            raise self.error(NO_VALUE.format(name), self.since(start))
        return self._parameters[name.lower()]

    def number(self, what: str, *, whole: bool = False) -> float:
        """Take a finite number, or a parameter that is one."""
        place = self.place()
        if not self.is_next(TokenType.PARAMETER, *_NUMBERS):
            raise self.error(f"expected {what}")
        value = self.value()
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found) or (whole and found != int(found)):
            rule = "a whole number from 1" if whole else "a finite number"
            raise self.error(f"expected {what}, {rule}", self.since(place))
        return int(found) if whole else found

    def value(self) -> Any:
        """Take a value: an int, Decimal, Fraction such as 1/3, bool, text or tuple of texts, or that of a parameter.

        A name stands for its text; a name with parentheses, such as strings(max_bytes=32), for all of it.
        """
        if self.token() is None:
            raise self.error("expected a value")
        if self.is_next(TokenType.PARAMETER):
            return self.parameter()
        if self.is_next(*_TEXTS):
            return str(self.take().text)
        if self.is_next(*_NUMBERS):
            return self._number()
        if self.symbol(TokenType.L_PAREN):
            found = _several(Words.column)(self)
            self.symbol(TokenType.R_PAREN, "a comma or the closing parenthesis")
            return found
        after = self.token(1)
        if after is not None and after.token_type == TokenType.L_PAREN and self.keyword():
            return self._call()
        if self.keyword() in ("TRUE", "FALSE"):
            return self.spelled(self.take()).upper() == "TRUE"
        return self.column()

    def _number(self) -> int | Decimal | Fraction:
        sign = "-" if self.symbol(TokenType.DASH) else ""
        place = self.place()
        number = sign + self._digits()
        try:
            if self.symbol(TokenType.SLASH):
                return Fraction(f"{number}/{self._digits()}")
            return int(number) if number.lstrip("-").isdecimal() else Decimal(number)
        except (ValueError, ArithmeticError):
            raise self.error("expected a number", place) from None

    def _digits(self) -> str:
        """Take an unsigned number, as it is written; .5 comes in two tokens."""
        start = self.place().start
        self.symbol(TokenType.DOT)
        token = self.token()
        if token is None or token.token_type != TokenType.NUMBER or self.spelled(token)[0].isalpha():
            raise self.error("expected a number")
        return self._piece.script[start : self.take().end + 1].replace("_", "")

    def _call(self) -> str:
        """Take all of name(…), as it is written."""
        start, opened, depth = self.place().start, self.place(1), 0
        while self.token() is not None:
            token = self.take()
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth == 0 and token.token_type == TokenType.R_PAREN:
                return self._piece.script[start : token.end + 1]
        raise self.error("this parenthesis is not closed", opened)


@dataclass(frozen=True)
class Clause:
    """A clause of a statement.

    Attributes:
        pattern: How the reference writes it: words in capitals, and a value between or behind them.
        field: What it sets.
        read: Takes the value.
        choice: Clauses of one choice exclude each other.
    """

    pattern: str
    field: str
    read: Callable[[Words], Any]
    choice: str = ""

    def __str__(self) -> str:
        """How the reference writes it."""
        return self.pattern

    @property
    def head(self) -> list[str]:
        """The words that it begins with."""
        return list(takewhile(_is_keyword, self.pattern.split()))

    def take(self, words: Words) -> Any:
        """Take the value, and the words behind it."""
        value, rest = self.read(words), self.pattern.split()[len(self.head) :]
        words.expect(*reversed(list(takewhile(_is_keyword, reversed(rest)))))
        return value


def _is_keyword(word: str) -> bool:
    return word.isalpha() and word.isupper()


def _goal(words: Words) -> EpsilonDelta:
    """EPSILON e DELTA d, which stands for a level: that DELTA belongs to it."""
    start = words.place()
    epsilon = words.value()
    words.expect("DELTA")
    try:
        return EpsilonDelta(epsilon, words.value())
    except DeclarationError as problem:
        raise words.error(str(problem), words.since(start)) from None


def _several(read: Callable[[Words], Any], again: str = "") -> Callable[[Words], tuple[Any, ...]]:
    def read_all(words: Words) -> tuple[Any, ...]:
        found = [read(words)]
        while words.symbol(TokenType.COMMA):
            words.accept(*again.split())
            found.append(read(words))
        return tuple(found)

    return read_all


def _options(words: Words) -> dict[str, Option]:
    words.symbol(TokenType.L_PAREN, "( after WITH")
    options: dict[str, Option] = {}
    while not words.symbol(TokenType.R_PAREN):
        if options:
            words.symbol(TokenType.COMMA, "a comma or ) between the options")
        option = words.keyword().lower()
        if not option:
            raise words.error("expected an option such as unit = user_id")
        if option in options:
            raise words.error(f"the option {option} stands here for the second time")
        words.take()
        words.symbol(TokenType.EQ, f"= after {option}")
        start = words.place()
        value = _measures(words) if option == "measures" else words.value()
        options[option] = Option(value, words.since(start))
    return options


def _measures(words: Words) -> Any:
    """(price CLIP 100 STEP 0.01, temperature CLIP -40 TO 40, events CLIP 50) as texts of measures."""
    if not words.symbol(TokenType.L_PAREN):
        return words.value()
    found: list[str] = []
    while not found or words.symbol(TokenType.COMMA):
        if words.is_next(*_TEXTS):
            found.append(str(words.take().text))
            continue
        column = words.column()
        words.expect("CLIP")
        bounds = [str(words.value())]
        if words.accept("TO"):
            bounds.append(str(words.value()))
        step = f",step={words.value()}" if words.accept("STEP") else ""
        found.append(f"{column}:clip={'..'.join(bounds)}{step}")
    words.symbol(TokenType.R_PAREN, "a comma or the closing parenthesis")
    return tuple(found)


def _query(words: Words) -> str:
    if not words.is_next(TokenType.L_PAREN) and words.keyword() not in _STARTS_QUERY:
        raise words.error("expected a query after AS, such as SELECT user_id, query FROM …")
    return words.rest()


def _number(what: str, *, whole: bool = False) -> Callable[[Words], float]:
    return lambda words: words.number(what, whole=whole)


def _name(what: str) -> Callable[[Words], str]:
    return lambda words: words.name(what)


_WITH = Clause("WITH (option = value, …)", "options", _options)
_AS = Clause("AS query", "query", _query)
_FROM = Clause("FROM series", "series", _name("series"))
_BECAUSE = Clause("BECAUSE 'reason'", "reason", Words.value)
_PROBABILITY = _number("a probability such as 1e-6")
_LEVEL = Clause("AT LEVEL level", "levels", _several(Words.value))
_ONE_LEVEL = Clause("AT LEVEL level", "level", Words.value)
_AT_EPSILON = Clause("AT EPSILON e DELTA d", "levels", _several(_goal, "EPSILON"))
_OF_RELEASE = (
    Clause("USING 'workload'", "workload", Words.value),
    Clause("STRATEGY 'name'", "strategy", Words.value),
    Clause("EXPECTING n FALSE KEYS", "false_keys", _number("a number of false keys"), choice="threshold"),
    Clause("THRESHOLD t", "threshold", _number("a threshold in counts"), choice="threshold"),
    Clause("OPEN DELTA d", "delta", _PROBABILITY, choice="threshold"),
    Clause("AT STEP n", "step", _number("a step such as 12", whole=True)),
    Clause("MEASURES 'price=0.5'", "measures", Words.value),
    Clause("COUNTING 'new'", "what", Words.value),
)
_TO = Clause("TO 'file.parquet'", "target", Words.value)
_OVER = Clause("OVER n STEPS", "steps", _number("a number of steps such as 365", whole=True))
_DELTA = Clause("DELTA d", "delta", _PROBABILITY)


@dataclass(frozen=True)
class Form:
    """A kind of statement.

    Attributes:
        words: The words that it begins with.
        clauses: What may follow, in any order.
        needs: Clauses that must be there, by field.
        names: What the name after `words` is one of; empty without a name.
        flag: Words that may stand before the name.
        kind: Of the statement, where it is not `words` in lower case.
    """

    words: str
    clauses: tuple[Clause, ...] = ()
    needs: tuple[str, ...] = ()
    names: str = ""
    flag: str = ""
    kind: str = ""

    def __str__(self) -> str:
        """How the reference writes it."""
        clauses = (str(one) if one.field in self.needs else f"[{one}]" for one in self.clauses)
        return " ".join(filter(None, (self.words, f"[{self.flag}]" if self.flag else "", self.names, *clauses)))


_CREATE = "IF NOT EXISTS"
FORMS = (
    Form("CREATE SERIES", (_WITH, _AS), ("options",), "series", _CREATE),
    Form("CREATE RUNNING SERIES", (_WITH, _OVER, _AS), ("options", "steps"), "series", _CREATE, kind="create series"),
    Form("APPEND TO", (
        _WITH,
        Clause("STEP n", "step", _number("a step such as 12", whole=True), choice="where"),
        Clause("PERIOD '2026-W12'", "period", Words.value, choice="where"),
        _AS,
    ), ("query",), "series", kind="append"),
    Form("RELEASE", (_FROM, _LEVEL, _AT_EPSILON, *_OF_RELEASE, _TO), ("series",), "release"),
    Form("PLAN", (_FROM, _LEVEL, _AT_EPSILON, *_OF_RELEASE), ("series", "levels")),
    Form("CHOOSE KEYS", (_WITH, _ONE_LEVEL, _TO, _AS), ("options", "level", "query"), "discovery"),
    Form("SHOW SERIES"),
    Form("SHOW RELEASES", (_FROM,)),
    Form("SHOW LEDGER", (Clause("SHORT", "short", lambda _: True), _FROM, _DELTA)),
    Form("REPORT STORE", (
        Clause("TO 'report.html'", "target", Words.value), _DELTA,
    ), ("target",)),
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
    places: dict[str, Place] = {}

    def take(name: str, read: Callable[[Words], Any]) -> None:
        start = words.place()
        asked[name] = read(words)
        places[name] = words.since(start)

    if form.flag and words.accept(*form.flag.split()):
        asked["flag"] = True
    if form.names:
        take("name", _name(form.names))
    while words.token() is not None:
        taken = {one.choice or one.field for one in form.clauses if one.field in asked}
        left = [one for one in form.clauses if (one.choice or one.field) not in taken]
        clause = next((one for one in left if words.accept(*one.head)), None)
        if clause is None:
            begun = (one.head for one in left if words.follow(*one.head[:1]))
            words.expect(*next(begun, ()))
            raise words.error(f"expected {', '.join([*map(str, left), 'the end of the statement'])}")
        take(clause.field, clause.take)
    missing = next((one for one in form.clauses if one.field in form.needs and one.field not in asked), None)
    if missing is not None:
        raise words.error(f"expected {missing}")
    return Statement(piece, form.kind or form.words.lower(), asked, places)
