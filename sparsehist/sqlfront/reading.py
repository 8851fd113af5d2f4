"""Read the words of a statement into its record; an error says what was expected and where.

`Words` is a position in the tokens of a statement. `CLAUSES` says how each clause of RELEASE and PLAN is written,
which field it sets and what it belongs to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from typing import Any

from sqlglot import Token, TokenType

from sparsehist.errors import DeclarationError, StatementError, shown
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.heads import (
    AppendStep,
    CreateSeries,
    DeclareDisjoint,
    DropSeries,
    Head,
    MakeRelease,
    Option,
    SetBudget,
    Show,
)
from sparsehist.sqlfront.script import Piece, Place, is_word, spelled

NO_VALUE = "the parameter ${0} has no value: give it with --param {0}=… or parameters={{…}}"
_TEXTS = (TokenType.STRING, TokenType.HEREDOC_STRING)
_CLOSING = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}


class Words:
    """A position in the words of a statement, and the values of parameters by name in lower case."""

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        self._piece, self._parameters, self._next = piece, parameters, 0

    def token(self, ahead: int = 0) -> Token | None:
        """Return a word ahead, if there is one."""
        at = self._next + ahead
        return self._piece.tokens[at] if at < len(self._piece.tokens) else None

    def at_end(self) -> bool:
        """Return whether nothing is left."""
        return self.token() is None

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
        """Return the place from `start` to the end of the word that was taken last."""
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

    def accept_symbol(self, kind: TokenType) -> bool:
        """Take a symbol if it is next."""
        found = self.is_next(kind)
        self._next += int(found)
        return found

    def expect_symbol(self, kind: TokenType, symbol: str) -> None:
        """Take a symbol, or say that it was expected."""
        if not self.accept_symbol(kind):
            raise self.error(f"expected {symbol}")

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """Return an error at the next word, or at a place."""
        if place is None and message.startswith("expected"):
            token = self.token()
            message += ", found " + ("the end of the statement" if token is None else self.spelled(token)[:40])
        return self._piece.error(message, place or self.place())

    def name(self, what: str) -> str:
        """Take the name of a series or release, or a parameter that is one."""
        if self.is_next(TokenType.PARAMETER):
            return self.text(f"the name of a {what}")
        if self.is_next(TokenType.IDENTIFIER):
            return str(self.take().text)
        if not self.keyword():
            raise self.error(f"expected the name of a {what}")
        return self.spelled(self.take()).lower()

    def column(self) -> str:
        """Take the name of a column or table, as it is written; parts joined by dots stay together."""
        parts: list[str] = []
        while not parts or self.accept_symbol(TokenType.DOT):
            if self.is_next(TokenType.IDENTIFIER, *_TEXTS):
                parts.append(str(self.take().text))
            elif self.keyword():
                parts.append(self.spelled(self.take()))
            else:
                raise self.error("expected a name")
        return ".".join(parts)

    def text(self, what: str) -> str:
        """Take text in quotes, or a parameter that is text."""
        if self.is_next(*_TEXTS):
            return str(self.take().text)
        if not self.is_next(TokenType.PARAMETER):
            raise self.error(f"expected {what} in quotes")
        place = self.place()
        value = self.parameter()
        if not isinstance(value, str):
            raise self.error(f"expected {what}, and the parameter is not text", self.since(place))
        return value

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

    def level(self) -> Any:
        """Take an exact level: a number, a fraction such as 1/3, either in quotes, or a parameter."""
        if self.is_next(TokenType.PARAMETER, *_TEXTS):
            return self.value()
        number = self._digits("a level such as 0.01 or 1/3")
        if self.accept_symbol(TokenType.SLASH):
            return f"{number}/{self._digits('a whole number after /')}"
        return number

    def number(self, what: str) -> float:
        """Take a finite number, or a parameter that is one."""
        place = self.place()
        if self.is_next(TokenType.PARAMETER):
            value = self.parameter()
        else:
            value = ("-" if self.accept_symbol(TokenType.DASH) else "") + self._digits(what)
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise self.error(f"expected {what}, a finite number", self.since(place))
        return found

    def whole(self, what: str) -> int:
        """Take a whole number."""
        place = self.place()
        found = self.number(what)
        if found != int(found):
            raise self.error(f"expected {what}, a whole number from 1", self.since(place))
        return int(found)

    def _digits(self, what: str) -> str:
        """Take an unsigned number, as it is written; .5 comes in two tokens."""
        start = self.place().start
        self.accept_symbol(TokenType.DOT)
        token = self.token()
        if token is None or token.token_type != TokenType.NUMBER or self.spelled(token)[0].isalpha():
            raise self.error(f"expected {what}")
        return self._piece.script[start : self.take().end + 1].replace("_", "")

    def value(self) -> Any:
        """Take the value of an option: an int, Decimal, Fraction, bool, text or tuple of texts.

        A name stands for its text; a name with parentheses, such as strings(max_bytes=32), for all of it.
        """
        if self.at_end():
            raise self.error("expected a value")
        if self.is_next(TokenType.PARAMETER):
            return self.parameter()
        if self.is_next(*_TEXTS):
            return str(self.take().text)
        if self.is_next(*_CLOSING):
            closing = _CLOSING[self.take().token_type]
            found = [self.column()]
            while self.accept_symbol(TokenType.COMMA):
                found.append(self.column())
            self.expect_symbol(closing, "a comma or the closing parenthesis")
            return tuple(found)
        if self.is_next(TokenType.NUMBER, TokenType.DOT, TokenType.DASH):
            return self._exact()
        after = self.token(1)
        if after is not None and after.token_type == TokenType.L_PAREN and self.keyword():
            return self._call()
        if self.keyword() in ("TRUE", "FALSE"):
            return self.spelled(self.take()).upper() == "TRUE"
        return self.column()

    def _exact(self) -> int | Decimal | Fraction:
        sign = "-" if self.accept_symbol(TokenType.DASH) else ""
        place = self.place()
        number = sign + self._digits("a value")
        try:
            if self.accept_symbol(TokenType.SLASH):
                return Fraction(f"{number}/{self._digits('a whole number after /')}")
            return int(number) if number.lstrip("-").isdecimal() else Decimal(number)
        except (ValueError, ArithmeticError):
            raise self.error("expected a number", place) from None

    def _call(self) -> str:
        """Take all of name(…), as it is written."""
        start, opened, depth = self.place(), self.place(1), 0
        while not self.at_end():
            kind = self.take().token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0 and kind == TokenType.R_PAREN:
                place = self.since(start)
                return self._piece.script[place.start : place.end]
        raise self.error("this parenthesis is not closed", opened)


@dataclass(frozen=True)
class Clause:
    """How one clause is written and which field of `MakeRelease` it sets; clauses stand in any order, each once.

    Attributes:
        words: The words that it begins with.
        shown: How the reference writes it.
        field: What it sets.
        read: Takes its value.
        of: What it belongs to: "cells", "workloads", or both.
        plans: Whether PLAN takes it too.
        choice: Clauses of one choice exclude each other.
    """

    words: str
    shown: str
    field: str
    read: Callable[[Words], Any]
    of: str = "cells workloads"
    plans: bool = True
    choice: str = ""


def _goal(words: Words) -> EpsilonDelta:
    """EPSILON e DELTA d, which stands for a level: that DELTA belongs to it."""
    start = words.place()
    epsilon = words.level()
    words.expect("DELTA")
    try:
        return EpsilonDelta(epsilon, words.level())
    except DeclarationError as problem:
        raise words.error(str(problem), words.since(start)) from None


def _levels(words: Words, read: Callable[[Words], Any]) -> tuple[Any, ...]:
    found = [read(words)]
    while words.accept_symbol(TokenType.COMMA):
        words.accept("EPSILON")
        found.append(read(words))
    return tuple(found)


def _false_keys(words: Words) -> float:
    number = words.number("a number of false keys")
    words.expect("FALSE")
    if not words.accept("KEY"):
        words.expect("KEYS")
    return number


CLAUSES = (
    Clause("USING", "USING 'workload'", "workload", lambda words: words.text("a workload such as 'prefix(1024)'"),
           of="workloads"),
    Clause("STRATEGY", "STRATEGY 'name'", "strategy", lambda words: words.text("a strategy such as 'spectral'"),
           of="workloads"),
    Clause("AT LEVEL", "AT LEVEL", "levels", lambda words: _levels(words, Words.level)),
    Clause("AT EPSILON", "AT EPSILON … DELTA …", "levels", lambda words: _levels(words, _goal)),
    Clause("EXPECTING", "EXPECTING n FALSE KEYS", "false_keys", _false_keys, of="cells", choice="threshold"),
    Clause("THRESHOLD", "THRESHOLD", "threshold", lambda words: words.number("a threshold in counts"), of="cells",
           choice="threshold"),
    Clause("OPEN DELTA", "OPEN DELTA", "delta", lambda words: words.number("a probability such as 1e-6"), of="cells",
           choice="threshold"),
    Clause("MEASURES", "MEASURES 'price=0.5'", "measures", Words.level, of="cells"),
    Clause("AT STEP", "AT STEP n", "step", lambda words: words.whole("a step such as 12"), of="cells"),
    Clause("COUNTING", "COUNTING 'new'", "what", lambda words: words.text("what is counted such as 'new'"),
           of="cells"),
    Clause("TO", "TO 'file.parquet'", "target", lambda words: words.text("a file such as 'public.parquet'"),
           plans=False),
)  # fmt: skip


def _read_clauses(words: Words, asked: dict[str, Any], *, of: str, only_plan: bool) -> None:
    """Read clauses up to the end of the statement into `asked`, by field of `MakeRelease`; errors show the place."""
    while not words.at_end():
        whole = (clause for clause in CLAUSES if words.follow(*clause.words.split()))
        begun = (clause for clause in CLAUSES if words.follow(clause.words.split()[0]))
        clause = next(whole, None) or next(begun, None)
        if clause is None:
            left = [one.shown for one in CLAUSES if _objection(one, asked, of=of, only_plan=only_plan) is None]
            raise words.error(f"expected {', '.join([*dict.fromkeys(left), 'or the end of the statement'])}")
        if (objection := _objection(clause, asked, of=of, only_plan=only_plan)) is not None:
            raise words.error(objection)
        words.expect(*clause.words.split())
        start = words.place()
        asked[clause.field] = clause.read(words)
        asked["places"][clause.field] = words.since(start)
        if clause.field == "levels" and len(asked["levels"]) > 1 and not only_plan:
            raise words.error("a release has one level; a plan may have several", asked["places"]["levels"])


def _objection(clause: Clause, asked: Collection[str], *, of: str, only_plan: bool) -> str | None:
    """Return why a clause may not stand here; None if it may."""
    if clause.field in asked:
        return f"{clause.words} stands here for the second time"
    if only_plan and not clause.plans:
        return f"a plan writes nothing: leave {clause.words} out"
    if of not in clause.of and of == "workloads":
        return f"a workload has no threshold, and all of it is released: leave {clause.words} out"
    if of not in clause.of:
        return f"{clause.words} belongs to RELEASE WORKLOAD name FROM series"
    if clause.choice and any(one.choice == clause.choice and one.field in asked for one in CLAUSES):
        return "expected one of EXPECTING … FALSE KEYS, THRESHOLD and OPEN DELTA, not several"
    return None


_STARTS_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SHOW", "SUMMARIZE")
_END = "the end of the statement"


def _show(words: Words, _: Piece, what: str = "series") -> Head:
    if what == "releases" and words.accept("FROM"):
        place = words.place()
        return _ended(words, Show(what, words.name("series"), place=place))
    return _ended(words, Show(what), f"FROM series or {_END}" if what == "releases" else _END)


def _show_ledger(words: Words, _: Piece) -> Head:
    asked: dict[str, Any] = {"short": words.accept("SHORT")}
    if words.accept("FROM"):
        asked |= {"place": words.place(), "series": words.name("series")}
    if words.accept("SINCE"):
        start = words.place()
        asked["since"] = words.text("a time such as '2026-01-31'")
        try:
            datetime.fromisoformat(asked["since"])
        except ValueError:
            raise words.error("expected a time such as '2026-01-31'", words.since(start)) from None
    if words.accept("DELTA"):
        place = words.place()
        asked["delta"] = words.number("a probability such as 1e-6")
        asked.setdefault("place", words.since(place))
    further = "" if "delta" in asked else f"SHORT, FROM series, SINCE 'time', DELTA and a probability, or {_END}"
    return _ended(words, Show("ledger", **asked), further or _END)


def _create(words: Words, piece: Piece, *, running: bool = False) -> Head:
    reuse = words.keyword() == "IF" and words.keyword(1) not in ("", "WITH")
    if reuse:
        words.expect("IF", "NOT", "EXISTS")
    name_place, name = words.place(), words.name("series")
    words.expect("WITH")
    options = _options(words)
    steps = None
    if running:
        words.expect("OVER")
        steps = words.whole("a number of steps such as 365")
        words.expect("STEPS")
    if "every" in options or (running and words.at_end()):
        return _ended(words, CreateSeries(name, name_place, options, "", name_place, reuse, steps))
    return CreateSeries(name, name_place, options, *_query(words, piece), reuse, steps)


def _replace(words: Words, piece: Piece) -> Head:
    raise words.error("a series cannot be replaced: its noise is spent. DROP it, or use another name", piece.place)


def _append(words: Words, piece: Piece) -> Head:
    name_place, name = words.place(), words.name("series")
    options = _options(words) if words.accept("WITH") else {}
    if words.accept("PERIOD"):
        period = words.text("a period such as '2026-W12'")
        return AppendStep(name, name_place, options, *_query(words, piece), period=period)
    if not words.accept("STEP"):
        raise words.error("expected STEP or PERIOD")
    step = words.whole("a step such as 12")
    return AppendStep(name, name_place, options, *_query(words, piece), step=step)


def _drop(words: Words, _: Piece) -> Head:
    if_exists = words.keyword() == "IF" and words.token(1) is not None
    if if_exists:
        words.expect("IF", "EXISTS")
    place = words.place()
    return _ended(words, DropSeries(words.name("series"), if_exists, place))


_BUDGET: dict[str, tuple[str, Callable[[Words], Any]]] = {
    "FOR": ("population", lambda words: words.name("population")),
    "EPSILON": ("epsilon", Words.level),
    "DELTA": ("delta", Words.level),
    "RHO": ("rho", Words.level),
    "ROUTE": ("route", lambda words: words.text("a route such as 'gaussian'")),
    "OPEN SHARE": ("open_share", Words.level),
    "BECAUSE": ("reason", lambda words: words.text("a reason")),
}


def _budget(words: Words, _: Piece) -> Head:
    asked: dict[str, Any] = {}
    while not words.at_end():
        left = [clause for clause, (field, _) in _BUDGET.items() if field not in asked]
        clause = next((clause for clause in left if words.accept(*clause.split())), None)
        if clause is None:
            raise words.error(f"expected {', '.join(left)}, or {_END}")
        field, read = _BUDGET[clause]
        asked[field] = read(words)
    return SetBudget(asked)


def _disjoint(words: Words, _: Piece) -> Head:
    populations = [words.name("population")]
    while words.accept_symbol(TokenType.COMMA):
        populations.append(words.name("population"))
    words.expect("BECAUSE")
    return _ended(words, DeclareDisjoint(tuple(populations), words.text("a reason")))


def _options(words: Words) -> dict[str, Option]:
    words.expect_symbol(TokenType.L_PAREN, "( after WITH")
    options: dict[str, Option] = {}
    while not words.accept_symbol(TokenType.R_PAREN):
        if options:
            words.expect_symbol(TokenType.COMMA, "a comma or ) between the options")
        option = words.keyword().lower()
        if not option:
            raise words.error("expected an option such as unit = user_id")
        if option in options:
            raise words.error(f"the option {option} stands here for the second time")
        words.take()
        words.expect_symbol(TokenType.EQ, f"= after {option}")
        start = words.place()
        value = _measures(words) if option == "measures" else words.value()
        options[option] = Option(value, words.since(start))
    return options


def _measures(words: Words) -> Any:
    """(price CLIP 100 STEP 0.01, temperature CLIP -40 TO 40, events CLIP 50) as texts of measures."""
    if not words.accept_symbol(TokenType.L_PAREN):
        return words.value()
    found: list[str] = []
    while not found or words.accept_symbol(TokenType.COMMA):
        if words.is_next(*_TEXTS):
            found.append(words.text("a measure"))
            continue
        column = words.column()
        words.expect("CLIP")
        bounds = [str(words.value())]
        if words.accept("TO"):
            bounds.append(str(words.value()))
        step = f",step={words.value()}" if words.accept("STEP") else ""
        found.append(f"{column}:clip={'..'.join(bounds)}{step}")
    words.expect_symbol(TokenType.R_PAREN, "a comma or the closing parenthesis")
    return tuple(found)


def _query(words: Words, piece: Piece) -> tuple[str, Place]:
    words.expect("AS")
    if not words.is_next(TokenType.L_PAREN) and words.keyword() not in _STARTS_QUERY:
        raise words.error("expected a query after AS, such as SELECT user_id, query FROM …")
    place = Place(words.place().start, piece.place.end)
    return piece.script[place.start : place.end], place


def _plan(words: Words, piece: Piece) -> Head:
    if words.keyword() == "RELEASE" and words.keyword(1) != "FROM":
        words.take()
    return _release(words, piece, only_plan=True)


def _release(words: Words, _: Piece, *, only_plan: bool = False) -> Head:
    # WORKLOAD, and in a plan the name itself, may be left out: `release workload from …` is a release of that name.
    ahead = 0
    while only_plan and words.token(ahead) is not None and words.keyword(ahead) != "USING":
        ahead += 1
    unnamed = only_plan and words.token(ahead) is not None
    of_workload = words.keyword() == "WORKLOAD" and (words.keyword(1) != "FROM" or unnamed)
    if of_workload:
        words.take()
    places = {"name": words.place()}
    name = None if only_plan and words.keyword() == "FROM" else words.name("release")
    words.expect("FROM")
    places["series"] = words.place()
    asked: dict[str, Any] = {"name": name, "series": words.name("series"), "only_plan": only_plan, "places": places}
    _read_clauses(words, asked, of="workloads" if of_workload else "cells", only_plan=only_plan)
    if of_workload and "workload" not in asked:
        raise words.error("expected USING and a workload such as 'prefix(1024)'")
    if only_plan and "levels" not in asked:
        raise words.error("expected AT LEVEL and one level or more")
    return MakeRelease(**asked)


def _ended(words: Words, head: Head, expected: str = _END) -> Head:
    if not words.at_end():
        raise words.error(f"expected {expected}")
    return head


_STATEMENTS: dict[str, Callable[[Words, Piece], Head]] = {
    "CREATE SERIES": _create,
    "CREATE RUNNING SERIES": partial(_create, running=True),
    "CREATE OR REPLACE SERIES": _replace,
    "APPEND TO": _append,
    "RELEASE": _release,
    "PLAN": _plan,
    "SHOW SERIES": _show,
    "SHOW RELEASES": partial(_show, what="releases"),
    "SHOW LEDGER": _show_ledger,
    "DROP SERIES": _drop,
    "SET BUDGET": _budget,
    "DECLARE DISJOINT": _disjoint,
}
"""How the statements of our own begin, and what reads the rest of each."""


def read_head(piece: Piece, parameters: Mapping[str, Any]) -> Head | None:
    """Read a statement, if it is one of ours; None if it goes to DuckDB as it is. Errors show the place.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> read_head(pieces("show releases from queries")[0], {})
        Show(what='releases', series='queries', delta=None, since=None, short=False)
    """
    words = Words(piece, parameters)
    for start, read in _STATEMENTS.items():
        if words.accept(*start.split()):
            return read(words, piece)
    return None


def meant(piece: Piece) -> str:
    """Return a hint for a statement that DuckDB does not take and that looks like one of ours, misspelt.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> meant(pieces("relese a from b at level 1")[0]), meant(pieces("selct 1")[0])
        ('; did you mean RELEASE?', '')
    """
    words = Words(piece, {})
    for start in _STATEMENTS:
        pairs = enumerate(start.split())
        if all(get_close_matches(words.keyword(ahead), [word], 1, 0.75) for ahead, word in pairs):
            return f"; did you mean {start}?"
    return ""


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words, each name once.

    A value that is written like a SQL number, true, false, null or text in single quotes is that; everything else is
    text as it stands: 007 and 2014-05-01 are text.

    Example:
        >>> parameters_from(["n=5", "level=0.10", "day=2014-05-01", "code='5'"])
        {'n': 5, 'level': Decimal('0.10'), 'day': '2014-05-01', 'code': '5'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise DeclarationError(f"a parameter is a name, = and its value, as in --param n=20; got {shown(word)}")
        if name.lower() in found:
            raise DeclarationError(f"the parameter {name} is given twice")
        found[name.lower()] = _value(value)
    return found


def _value(text: str) -> Any:
    if re.fullmatch(r"-?(0|[1-9]\d*)", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)?\.\d+", text):
        return Decimal(text)
    if text.lower() in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text.lower()]
    if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1].replace("''", ""):
        return text[1:-1].replace("''", "'")
    return text


def bindable(value: Any) -> Any:
    """Return a value as DuckDB binds it; a fraction is a number there."""
    return float(value) if isinstance(value, Fraction) else value
