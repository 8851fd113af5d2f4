"""Read a statement of our own by the table of all forms; errors show the expected word and the position.

A form has first words, perhaps a name, and clauses in any order, each at most once.
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
    kind: str = ""  # the words of its form in lower case; empty for a statement of DuckDB
    values: Mapping[str, Any] = field(default_factory=dict)  # the values of its clauses, by field
    log: Any = field(default=None, repr=False, compare=False)  # the checked query of a log: a `LogQuery`

    @property
    def name(self) -> str:
        """The name of its series or release."""
        return str(self.values.get("name", ""))

    @property
    def query(self) -> str:
        """The query after AS; empty without one."""
        return str(self.values.get("query", ""))

    def outcome(self, message: str = "", frame: pl.DataFrame | None = None, **more: Any) -> Outcome:
        """Return the outcome of the statement."""
        return Outcome(self.piece.number, self.piece.line, self.kind or "duckdb", frame, message=message, **more)


class Words:
    """A cursor on the words of a statement, with values of parameters by lower-case name."""

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        end = piece.span.end
        self._end = Word("end", "the end of the statement", Span(end, end + 1))
        self._piece, self._parameters, self._next = piece, parameters, 0

    def peek(self, ahead: int = 0) -> Word:
        """Return a word ahead, or a word of kind "end"."""
        at = self._next + ahead
        return self._piece.words[at] if at < len(self._piece.words) else self._end

    def take(self) -> str:
        """Take the next word."""
        word = self.peek()
        self._next += 1
        return word.text

    def follow(self, *keywords: str) -> bool:
        """Return whether these words or symbols are next."""
        words = map(self.peek, range(len(keywords)))
        return all(
            word.kind in ("word", "symbol") and word.text.upper() == keyword
            for word, keyword in zip(words, keywords, strict=True)
        )

    def accept(self, *keywords: str) -> bool:
        """Take these words or symbols if they are next."""
        follows = self.follow(*keywords)
        self._next += follows * len(keywords)
        return follows

    def expect(self, *keywords: str) -> None:
        """Take these words or symbols, or raise an error that names the expected ones."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.expected(keyword)

    def expected(self, what: str) -> StatementError:
        """Return an error at the next word."""
        word = self.peek()
        return self._piece.error(f"expected {what}, found {word.text[:40]}", word.span)

    def error(self, message: str, start: Word) -> StatementError:
        """Return an error at the words from `start` to the last one taken."""
        return self._piece.error(message, Span(start.span.start, self.peek(-1).span.end))

    def name(self) -> str:
        """Take the name of a series, release or population, or a parameter with this name."""
        word = self.peek()
        name = self.value()
        if not isinstance(name, str):
            raise self.error("expected a name, and this is not text", word)
        return name.lower() if word.kind == "word" else name

    def column(self) -> str:
        """Take the name of a column or table, unchanged; parts joined by dots stay together."""
        parts: list[str] = []
        while not parts or self.accept("."):
            if self.peek().kind not in ("word", "name", "text"):
                raise self.expected("a name")
            parts.append(self.take())
        return ".".join(parts)

    def value(self) -> Any:
        """Take a value: a whole number, another number as its text, a bool, text, tuple of texts, or a parameter.

        A name means its text; a name with parentheses, such as strings(max_bytes=32), means the whole text. An entry
        of a tuple is a name, or a measure such as price CLIP 100 STEP 0.01.
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
        """Take the whole text of name(…) unchanged."""
        start, depth = self.peek(), 0
        while self.peek().kind != "end":
            depth += self.follow("(") - self.follow(")")
            if self.take() == ")" and depth == 0:
                return self._piece.script[start.span.start : self.peek(-1).span.end]
        raise self.error("this parenthesis is not closed", start)

    def query(self) -> str:
        """Take the rest of the statement, which is a query, unchanged."""
        if not any(map(self.follow, _STARTS_QUERY)):
            raise self.expected("a query after AS, such as SELECT user_id, query FROM …")
        start, self._next = self.peek().span.start, len(self._piece.words)
        return self._piece.script[start : self._piece.span.end]


@dataclass(frozen=True)
class Clause:
    """A clause of a statement."""

    pattern: str  # as in the reference: words in capitals, and a value between or after them
    field: str  # name of the value
    read: Callable[[Words], Any] = Words.value  # takes the value, and the words after it

    def __str__(self) -> str:
        """Return the clause as docs/sql_reference.md shows it."""
        return self.pattern

    @property
    def head(self) -> list[str]:
        """The words that the clause begins with."""
        return re.sub("[^A-Z ].*", "", self.pattern).split()


def _goal(words: Words) -> EpsilonDelta:
    """Take an (epsilon, delta) after AT EPSILON."""
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
    """Take a name, or a measure (price CLIP 100 STEP 0.01, temperature CLIP -40 TO 40) as its text."""
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
    """A kind of statement."""

    words: str  # first words
    clauses: tuple[Clause, ...] = ()  # clauses that may follow, in any order
    needs: tuple[str, ...] = ()  # required clauses, by field
    names: str = ""  # meaning of the name after `words`; empty if there is no name
    flag: str = ""  # optional words before the name

    def __str__(self) -> str:
        """Return the statement as the reference writes it."""
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
"""All statements of our own; docs/sql_reference.md is made from them."""


def read_statement(piece: Piece, parameters: Mapping[str, Any]) -> Statement:
    """Read a statement. Errors show the position.

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
