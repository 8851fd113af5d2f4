"""Split a script into statements as DuckDB does, with quotes, dollar quotes, comments and parentheses.

The words come from sqlglot's tokenizer for DuckDB. Offsets count characters of the script, lines and columns from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from sparsehist.errors import StatementError, raise_alone

# DuckDB accepts no zero byte, which ends a text, and no lone surrogate.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_KINDS = {TokenType.IDENTIFIER: "name", TokenType.STRING: "text", TokenType.HEREDOC_STRING: "text"}


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's tokens, without commands whose text up to the next semicolon would be one token."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class Place(NamedTuple):
    """A part of a text: characters from `start` up to, but not including, `end`."""

    start: int
    end: int


class Word(NamedTuple):
    """A word of a script; its kind is "word", "name" (in double quotes), "text" or "symbol" (also numbers)."""

    kind: str
    text: str  # without quotes
    place: Place


@dataclass(frozen=True)
class Piece:
    """One statement as it was written: the whole script, its words without the semicolon, its number from 1."""

    script: str = field(repr=False)
    words: tuple[Word, ...] = field(repr=False)
    number: int = 1

    @property
    def place(self) -> Place:
        """The span from its first word to its last."""
        return Place(self.words[0].place.start, self.words[-1].place.end)

    @property
    def text(self) -> str:
        """The text of the statement, with comments inside."""
        return self.script[slice(*self.place)]

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return _line_and_column(self.script, self.place.start)[0]

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """Return an error that shows a position of the script, by default the whole statement."""
        return StatementError(pointed(message, self.script, place or self.place))


def pieces(script: str) -> list[Piece]:
    r"""Split a script at its semicolons, and drop empty statements.

    Example:
        >>> [piece.text for piece in pieces("select ';'; -- one; two\n from t;")]
        ["select ';'", 'from t']
    """
    found: list[Piece] = []
    words: list[Word] = []
    for word in [*_words(script), None]:
        if word is not None and (word.kind, word.text) != ("symbol", ";"):
            words.append(word)
        elif words:
            found.append(Piece(script, tuple(words), len(found) + 1))
            words = []
    return found


def _words(script: str) -> list[Word]:
    if _NO_TEXT.search(script):
        raise StatementError("the script has a character that is not text: a zero byte or half of a pair")
    try:
        tokens = _Tokenizer(dialect="duckdb").tokenize(script)
    except TokenError:
        raise_alone(StatementError("at the end of the script, a text in quotes or dollars or a comment is open"))
    found = []
    for token in tokens:
        first = script[token.start]
        plain = "word" if first.isalpha() or first == "_" or not first.isascii() else "symbol"
        found.append(Word(_KINDS.get(token.token_type, plain), token.text, Place(token.start, token.end + 1)))
    return found


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def pointed(message: str, script: str, place: Place) -> str:
    r"""Return a message with its position: the line of the script, and a caret under the wrong text.

    Example:
        >>> print(pointed("no such word", "select 1;\nrelase x", Place(10, 16)))
        line 2, column 1: no such word
          relase x
          ^^^^^^
    """
    line, column = _line_and_column(script, place.start)
    shown = script.split("\n")[line - 1].replace("\t", " ")
    marked = max(1, min(place.end - place.start, len(shown) - column + 1))
    return f"line {line}, column {column}: {message}\n  {shown}\n  {' ' * (column - 1)}{'^' * marked}"
