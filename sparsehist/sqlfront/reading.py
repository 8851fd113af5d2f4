"""Parse the statements of the package. The table `FORMS` defines their syntax.

A statement begins with fixed words, such as CREATE SERIES, and perhaps a name. Clauses follow in any order, each at
most once. Errors show the expected word and the position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import polars as pl

from sparsehist.errors import DeclarationError, StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.script import Piece, Span, Word

NO_VALUE = "the parameter ${0} has no value: give it with --param {0}=… or parameters={{…}}"
_NUMBER = re.compile(r"-?\s*(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?(\s*/\s*\d+)?", re.IGNORECASE)
_STARTS_QUERY = "( SELECT WITH FROM VALUES TABLE PIVOT UNPIVOT DESCRIBE SHOW SUMMARIZE".split()


@dataclass(frozen=True)
class Statement:
    """A statement of a script."""

    piece: Piece
    kind: str = ""  # first words in lower case, such as "create series"; empty for a statement of DuckDB
    values: Mapping[str, Any] = field(default_factory=dict)  # values of the clauses, by `Clause.field`
    log: Any = field(default=None, repr=False, compare=False)  # a `LogQuery`, if the statement has a query of a log

    @property
    def name(self) -> str:
        """The name of the series or release; empty if the statement has none."""
        return str(self.values.get("name", ""))

    @property
    def query(self) -> str:
        """The query after AS; empty if the statement has none."""
        return str(self.values.get("query", ""))

    def outcome(self, message: str = "", frame: pl.DataFrame | None = None, **more: Any) -> Outcome:
        """Return an outcome of this statement, with its number, line and kind."""
        return Outcome(self.piece.number, self.piece.line, self.kind or "duckdb", frame, message=message, **more)


class Words:
    """A cursor on the words of a statement. `parameters` maps lower-case names to values."""

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        end = piece.span.end
        self._end = Word("end", "the end of the statement", Span(end, end + 1))
        self._piece, self._parameters, self._next = piece, parameters, 0

    def peek(self, ahead: int = 0) -> Word:
        """Return the next word, or the one `ahead` words later. After the last word, return a word of kind "end"."""
        at = self._next + ahead
        return self._piece.words[at] if at < len(self._piece.words) else self._end

    def take(self) -> str:
        """Return the text of the next word, and advance."""
        word = self.peek()
        self._next += 1
        return word.text

    def follow(self, *keywords: str) -> bool:
        """Return whether the next words or symbols are `keywords`."""
        words = map(self.peek, range(len(keywords)))
        return all(
            word.kind in ("word", "symbol") and word.text.upper() == keyword
            for word, keyword in zip(words, keywords, strict=True)
        )

    def accept(self, *keywords: str) -> bool:
        """Advance past `keywords` if they are next, and return whether they were."""
        follows = self.follow(*keywords)
        self._next += follows * len(keywords)
        return follows

    def expect(self, *keywords: str) -> None:
        """Advance past `keywords`, or raise an error that names the missing keyword."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.expected(keyword)

    def expected(self, what: str) -> StatementError:
        """Return an error that says what was expected at the next word."""
        word = self.peek()
        return self._piece.error(f"expected {what}, found {word.text[:40]}", word.span)

    def error(self, message: str, start: Word) -> StatementError:
        """Return an error that points at the words from `start` to the last word read."""
        return self._piece.error(message, Span(start.span.start, self.peek(-1).span.end))

    def name(self) -> str:
        """Read the name of a series, release or population, or a parameter whose value is the name."""
        word = self.peek()
        name = self.value()
        if not isinstance(name, str):
            raise self.error("expected a name, but the value of this parameter is not text", word)
        return name.lower() if word.kind == "word" else name

    def column(self) -> str:
        """Read the name of a column or table, which may have several parts joined by dots."""
        parts: list[str] = []
        while not parts or self.accept("."):
            if self.peek().kind not in ("word", "name", "text"):
                raise self.expected("a name")
            parts.append(self.take())
        return ".".join(parts)

    def value(self) -> Any:
        """Read a value: a whole number, a bool, a text, a tuple of texts, or the value of a parameter.

        Other numbers, names and calls such as strings(max_bytes=32) are returned as text. An entry of a tuple is a
        name, or a measure such as price CLIP 100 STEP 0.01.
        """
        word, script = self.peek(), self._piece.script
        if self.accept("$"):
            if self.peek().kind != "word":
                raise self.expected("the name of a parameter after $")
            name = self.take()
            if name.lower() not in self._parameters:
                raise self.error(NO_VALUE.format(name), word)
            return self._parameters[name.lower()]
        if number := _NUMBER.match(script, word.span.start, self._piece.span.end):
            while self.peek().span.start < number.end():
                self.take()
            text = re.sub(r"[_\s]", "", number[0])
            return int(text) if text.lstrip("-").isdecimal() else text
        if self.accept("("):
            entries = _several(_entry)(self)
            self.expect(")")
            return entries
        if word.kind not in ("word", "name", "text"):
            raise self.expected("a value")
        if word.kind == "word" and self.peek(1).text == "(":
            return self._call()
        text = self.take() if word.kind == "text" else self.column()
        return text.lower() == "true" if word.kind == "word" and text.lower() in ("true", "false") else text

    def _call(self) -> str:
        """Read a name with parentheses, such as strings(max_bytes=32), and return its text unchanged."""
        start, depth = self.peek(), 0
        while self.peek().kind != "end":
            depth += self.follow("(") - self.follow(")")
            if self.take() == ")" and depth == 0:
                return self._piece.script[start.span.start : self.peek(-1).span.end]
        raise self.error("this parenthesis is not closed", start)

    def query(self) -> str:
        """Read a query up to the end of the statement, and return its text unchanged."""
        if not any(map(self.follow, _STARTS_QUERY)):
            raise self.expected("a query after AS, such as SELECT user_id, query FROM …")
        start, self._next = self.peek().span.start, len(self._piece.words)
        return self._piece.script[start : self._piece.span.end]


@dataclass(frozen=True)
class Clause:
    """A clause of a statement."""

    pattern: str  # syntax of the clause, as in docs/sql_reference.md, with keywords in capitals
    field: str  # key of the value in `Statement.values`
    read: Callable[[Words], Any] = Words.value  # function that reads the value and any keywords after it

    def __str__(self) -> str:
        """Return the clause as docs/sql_reference.md shows it."""
        return self.pattern

    @property
    def head(self) -> list[str]:
        """The keywords at the beginning of the clause."""
        return re.sub("[^A-Z ].*", "", self.pattern).split()


def _goal(words: Words) -> EpsilonDelta:
    """Read the values of AT EPSILON e DELTA d, beginning with the word after EPSILON."""
    start, epsilon = words.peek(), words.value()
    words.expect("DELTA")
    try:
        return EpsilonDelta(epsilon, words.value())
    except DeclarationError as problem:
        raise words.error(str(problem), start) from None


def _several(read: Callable[[Words], Any]) -> Callable[[Words], tuple[Any, ...]]:
    def read_all(words: Words) -> tuple[Any, ...]:
        values = [read(words)]
        while words.accept(","):
            values.append(read(words))
        return tuple(values)

    return read_all


def _entry(words: Words) -> str:
    """Read a name, or a measure such as price CLIP 100 STEP 0.01, and return it as text for a declaration."""
    column = words.column()
    if not words.accept("CLIP"):
        return column
    bounds = str(words.value()) + (f"..{words.value()}" if words.accept("TO") else "")
    return f"{column}:clip={bounds}" + (f",step={words.value()}" if words.accept("STEP") else "")


def _number(words: Words) -> float:
    start, value = words.peek(), words.value()
    try:
        return value if isinstance(value, int) else float(Fraction(value))
    except (TypeError, ValueError, ArithmeticError):
        raise words.error("expected a number", start) from None


def _false_keys(words: Words) -> float:
    number = _number(words)
    words.expect("FALSE", "KEYS")
    return number


def _options(words: Words) -> dict[str, Any]:
    words.expect("(")
    options: dict[str, Any] = {}
    while not options or words.accept(","):
        start, option = words.peek(), words.column().lower()
        if option in options:
            raise words.error(f"the option {option} occurs twice", start)
        words.expect("=")
        options[option] = words.value()
    words.expect(")")
    return options


_WITH = Clause("WITH (option = value, …)", "options", _options)
_AS = Clause("AS query", "query", Words.query)
_FROM = Clause("FROM series", "series", Words.name)
_TO = Clause("TO 'file.parquet'", "target")
_LEVEL = Clause("AT LEVEL level", "level", _several(Words.value))
_OF_RELEASE = (
    _FROM,
    _LEVEL,
    Clause("AT EPSILON e DELTA d", "level", _several(_goal)),
    Clause("USING 'workload'", "workload"),
    Clause("STRATEGY 'name'", "strategy"),
    Clause("EXPECTING n FALSE KEYS", "false_keys", _false_keys),
    Clause("THRESHOLD t", "threshold", _number),
    Clause("OPEN DELTA d", "open_delta", _number),
    Clause("AT STEP n", "step", _number),
    Clause("MEASURES 'price=0.5'", "measures"),
)


@dataclass(frozen=True)
class Form:
    """The syntax of a statement."""

    words: str  # first words
    clauses: tuple[Clause, ...] = ()  # clauses that may follow, in any order
    needs: tuple[str, ...] = ()  # fields of the required clauses
    names: str = ""  # what kind of name follows `words`, such as "series"; empty if none follows
    flag: str = ""  # optional words before the name, such as IF EXISTS

    def __str__(self) -> str:
        """Return the syntax as docs/sql_reference.md shows it."""
        clauses = (str(one) if one.field in self.needs else f"[{one}]" for one in self.clauses)
        return " ".join(filter(None, (self.words, f"[{self.flag}]" if self.flag else "", self.names, *clauses)))


FORMS = (
    Form("CREATE SERIES", (_WITH, _AS), ("options",), "series", "IF NOT EXISTS"),
    Form("APPEND TO", (
        _WITH, Clause("STEP n", "step", _number), Clause("PERIOD '2026-W12'", "period"), _AS,
    ), ("query",), "series"),
    Form("RELEASE", (*_OF_RELEASE, _TO), ("series",), "release"),
    Form("PLAN", _OF_RELEASE, ("series", "level")),
    Form("CHOOSE KEYS", (_WITH, _LEVEL, _TO, _AS), ("options", "level", "query"), "discovery"),
    Form("SHOW SERIES"),
    Form("SHOW RELEASES", (_FROM,)),
    Form("SHOW LEDGER", (_FROM, Clause("DELTA d", "delta", _number))),
    Form("DROP SERIES", names="series", flag="IF EXISTS"),
    Form("SET BUDGET", (
        Clause("FOR population", "population", Words.name),
        Clause("EPSILON e", "epsilon"),
        Clause("DELTA d", "delta"),
        Clause("RHO r", "rho"),
        Clause("ROUTE 'name'", "route"),
        Clause("OPEN SHARE s", "open_share"),
        Clause("BECAUSE 'reason'", "reason"),
    )),
    Form("REPORT STORE", (Clause("TO 'file.html'", "target"), Clause("DELTA d", "delta", _number)), ("target",)),
)  # fmt: skip
"""All statements of the package; docs/sql_reference.md is generated from this table."""


def read_statement(piece: Piece, parameters: Mapping[str, Any]) -> Statement:
    """Parse a sparsehist statement; return a DuckDB statement unparsed. Errors show the position.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> read_statement(pieces("show releases from queries")[0], {}).values
        {'series': 'queries'}
    """
    words = Words(piece, parameters)
    form = next((form for form in FORMS if words.accept(*form.words.split())), None)
    if form is None:
        return Statement(piece)
    values: dict[str, Any] = {}
    if form.flag and words.accept(*form.flag.split()):
        values["flag"] = True
    if form.names:
        values["name"] = words.name()
    while words.peek().kind != "end":
        left = [one for one in form.clauses if one.field not in values]
        clause = next((one for one in left if words.accept(*one.head)), None)
        if clause is None:
            words.expect(*next((one.head for one in left if words.follow(*one.head[:1])), ()))
            raise words.expected(", ".join([*map(str, left), "the end of the statement"]))
        values[clause.field] = clause.read(words)
    missing = next((one for one in form.clauses if one.field in form.needs and one.field not in values), None)
    if missing is not None:
        raise words.expected(str(missing))
    return Statement(piece, form.words.lower(), values)
