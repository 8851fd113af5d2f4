"""The words of one statement, read from left to right, with errors that say what was expected and where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import Token, TokenType

from sparsehist.errors import StatementError, present
from sparsehist.guarantee.places import Place
from sparsehist.sqlfront.reserved import RESERVED
from sparsehist.sqlfront.script import Piece, is_word, pointed, spelled

_TEXTS = (TokenType.STRING, TokenType.HEREDOC_STRING)
_OPENING = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}


class Words:
    """A position in the words of a statement.

    Args:
        piece: The statement.
        parameters: Values for $name, by name in lower case.
    """

    def __init__(self, piece: Piece, parameters: Mapping[str, Any]) -> None:
        self._piece = piece
        self._parameters = parameters
        self._next = 0

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._next >= len(self._piece.tokens)

    def token(self, ahead: int = 0) -> Token | None:
        """A word ahead."""
        at = self._next + ahead
        return self._piece.tokens[at] if at < len(self._piece.tokens) else None

    def skip(self) -> None:
        """Go to the next word."""
        self._next += 1

    def spelled(self, token: Token) -> str:
        """A word as it was written."""
        return spelled(token, self._piece.script)

    def place(self, ahead: int = 0) -> Place:
        """Where a word ahead stands; behind the last one where there is none."""
        token = self.token(ahead)
        if token is None:
            end = self._piece.place.end
            return Place(end, end + 1)
        return Place(token.start, token.end + 1)

    def since(self, start: Place) -> Place:
        """From a place to the end of the word that was taken last."""
        return Place(start.start, self._piece.tokens[self._next - 1].end + 1)

    def keyword(self, ahead: int = 0) -> str:
        """A word ahead in capitals; empty if it is no word or stands in quotes."""
        token = self.token(ahead)
        return self.spelled(token).upper() if token is not None and is_word(token, self._piece.script) else ""

    def follow(self, *keywords: str) -> bool:
        """Whether these words are next."""
        return all(self.keyword(ahead) == keyword for ahead, keyword in enumerate(keywords))

    def ahead(self, keyword: str) -> bool:
        """Whether this word stands anywhere ahead."""
        return any(self.keyword(ahead) == keyword for ahead in range(len(self._piece.tokens) - self._next))

    def accept(self, *keywords: str) -> bool:
        """Take these words if they are next."""
        found = self.follow(*keywords)
        self._next += len(keywords) if found else 0
        return found

    def expect(self, *keywords: str) -> None:
        """Take these words.

        Raises:
            StatementError: If something else is next.
        """
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.error(f"expected {' '.join(keywords)}")

    def expect_symbol(self, kind: TokenType, symbol: str) -> None:
        """Take a symbol."""
        token = self.token()
        if token is None or token.token_type != kind:
            raise self.error(f"expected {symbol}")
        self.skip()

    def accept_symbol(self, kind: TokenType) -> bool:
        """Take a symbol if it is next."""
        token = self.token()
        found = token is not None and token.token_type == kind
        self._next += int(found)
        return found

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """An error at the next word, or at a place."""
        found = ""
        if place is None and message.startswith("expected"):
            token = self.token()
            found = ", found the end of the statement" if token is None else f", found {self.spelled(token)[:40]}"
        return StatementError(pointed(message + found, self._piece.script, place or self.place()))

    def name(self, what: str) -> str:
        """Take the name of a series or release, or a parameter that is one.

        Raises:
            StatementError: If there is none, or a reserved word without quotes.
        """
        token = self.token()
        if token is not None and token.token_type == TokenType.PARAMETER:
            return self.text(f"the name of a {what}")
        if token is not None and token.token_type == TokenType.IDENTIFIER:
            self.skip()
            return str(token.text)
        word = self.keyword()
        if token is None or not word:
            raise self.error(f"expected the name of a {what}")
        if word.lower() in RESERVED:
            raise self.error(
                f"expected the name of a {what}, found the reserved word {word}; as a name it stands in quotes: "
                f'"{word.lower()}"',
                self.place(),
            )
        self.skip()
        return self.spelled(token).lower()

    def column(self) -> str:
        """Take the name of a column or table, as it is written; parts joined by dots stay together."""
        parts = []
        while True:
            token = self.token()
            if token is not None and token.token_type in (TokenType.IDENTIFIER, *_TEXTS):
                parts.append(str(token.text))
            elif token is not None and is_word(token, self._piece.script):
                parts.append(self.spelled(token))
            else:
                raise self.error("expected a name")
            self.skip()
            if not self.accept_symbol(TokenType.DOT):
                return ".".join(parts)

    def text(self, what: str) -> str:
        """Take text in quotes, or a parameter that is text."""
        token = self.token()
        if token is not None and token.token_type in _TEXTS:
            self.skip()
            return str(token.text)
        if token is not None and token.token_type == TokenType.PARAMETER:
            place = self.place()
            value = self.parameter()
            if isinstance(value, str):
                return value
            raise self.error(f"expected {what}, and the parameter is no text", self.since(place))
        raise self.error(f"expected {what} in quotes")

    def parameter(self) -> Any:
        """Take $name and return its value."""
        start = self.place().start
        self.skip()
        token = self.token()
        if token is None or not is_word(token, self._piece.script):
            raise self.error("expected the name of a parameter after $")
        name = self.spelled(token)
        if name.lower() not in self._parameters:
            place = Place(start, token.end + 1)
            raise self.error(
                f"the parameter ${name} has no value: give it with --param {name}=… or parameters={{…}}", place
            )
        self.skip()
        return self._parameters[name.lower()]

    def level(self) -> Any:
        """Take an exact level: a number, a fraction such as 1/3, either in quotes, or a parameter."""
        token = self.token()
        if token is not None and token.token_type == TokenType.PARAMETER:
            return self.parameter()
        if token is not None and token.token_type in _TEXTS:
            self.skip()
            return str(token.text)
        number = self._digits("a level such as 0.01 or 1/3")
        if self.accept_symbol(TokenType.SLASH):
            return f"{number}/{self._digits('a whole number after /')}"
        return number

    def number(self, what: str) -> float:
        """Take a number, or a parameter that is one."""
        token, place = self.token(), self.place()
        if token is not None and token.token_type == TokenType.PARAMETER:
            value: Any = self.parameter()
        else:
            sign = "-" if self.accept_symbol(TokenType.DASH) else ""
            value = sign + self._digits(what)
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise self.error(f"expected {what}, a finite number", self.since(place))
        return found

    def _digits(self, what: str) -> str:
        """Take an unsigned number, as it is written; .5 comes in two tokens."""
        token = self.token()
        start = token.start if token is not None else 0
        if token is not None and token.token_type == TokenType.DOT:
            self.skip()
            token = self.token()
        if token is None or token.token_type != TokenType.NUMBER or (self.spelled(token)[0].isalpha()):
            raise self.error(f"expected {what}")
        self.skip()
        return self._piece.script[start : token.end + 1].replace("_", "")

    def value(self) -> Any:
        """Take the value of an option.

        Returns:
            An int, Decimal, Fraction, bool, text or tuple of texts. A name stands for its text; a name with
            parentheses, such as strings(max_bytes=32), for all of it.
        """
        token = self.token()
        if token is None:
            raise self.error("expected a value")
        if token.token_type == TokenType.PARAMETER:
            return self.parameter()
        if token.token_type in _TEXTS:
            self.skip()
            return str(token.text)
        if token.token_type in _OPENING:
            return self._tuple()
        if token.token_type in (TokenType.NUMBER, TokenType.DOT, TokenType.DASH):
            return self._number()
        after = self.token(1)
        if after is not None and after.token_type == TokenType.L_PAREN and self.keyword():
            return self._call()
        if token.token_type != TokenType.IDENTIFIER and self.keyword() in ("TRUE", "FALSE"):
            self.skip()
            return self.spelled(token).upper() == "TRUE"
        return self.column()

    def _number(self) -> int | Decimal | Fraction:
        sign = "-" if self.accept_symbol(TokenType.DASH) else ""
        place = self.place()
        number = sign + self._digits("a value")
        try:
            if self.accept_symbol(TokenType.SLASH):
                return Fraction(f"{number}/{self._digits('a whole number after /')}")
            return int(number) if number.lstrip("-").isdecimal() else Decimal(number)
        except (ValueError, ArithmeticError):
            raise self.error("expected a number", place) from None

    def _tuple(self) -> tuple[str, ...]:
        opened = present(self.token())
        self.skip()
        found = []
        while True:
            found.append(self.column())
            if not self.accept_symbol(TokenType.COMMA):
                break
        self.expect_symbol(_OPENING[opened.token_type], "a comma or the closing parenthesis")
        return tuple(found)

    def _call(self) -> str:
        """All of name(…), as it is written."""
        start, opened = self.place().start, self.place(1)
        depth = 0
        while (token := self.token()) is not None:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.skip()
            if depth == 0 and token.token_type == TokenType.R_PAREN:
                return self._piece.script[start : token.end + 1]
        raise self.error("this parenthesis is not closed", opened)
