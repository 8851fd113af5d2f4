"""Split a script into statements at semicolons, except those in quotes, dollar quotes and comments.

sqlglot's tokenizer for DuckDB splits the script into words. Offsets count characters; lines and columns begin at 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from sparsehist.errors import StatementError, raise_alone

# DuckDB accepts neither zero bytes nor lone surrogates.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_KINDS = {TokenType.IDENTIFIER: "name", TokenType.STRING: "text", TokenType.HEREDOC_STRING: "text"}


class _Tokenizer(DuckDB.Tokenizer):
    """sqlglot's tokenizer for DuckDB. It also splits the text of commands such as SHOW into words."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class Span(NamedTuple):
    """A slice of a text: the characters from `start` up to, but not including, `end`."""

    start: int
    end: int


class Word(NamedTuple):
    """A word of a script. Its kind is "word", "name" (in double quotes), "text", or "symbol" (including numbers)."""

    kind: str
    text: str  # without quotes
    span: Span


@dataclass(frozen=True)
class Piece:
    """A statement of a script: its words, its number (from 1), and the text of the whole script."""

    script: str = field(repr=False)
    words: tuple[Word, ...] = field(repr=False)
    number: int = 1

    @property
    def span(self) -> Span:
        """The span from the first word of the statement to its last."""
        return Span(self.words[0].span.start, self.words[-1].span.end)

    @property
    def text(self) -> str:
        """The text of the statement, including comments between its words."""
        return self.script[slice(*self.span)]

    @property
    def line(self) -> int:
        """Line number where the statement begins."""
        return _line_and_column(self.script, self.span.start)[0]

    def error(self, message: str, span: Span | None = None) -> StatementError:
        """Return an error that points at a part of the script, by default at the whole statement."""
        return StatementError(pointed(message, self.script, span or self.span))


def pieces(script: str) -> list[Piece]:
    r"""Split a script at its semicolons, and drop empty statements.

    Example:
        >>> [piece.text for piece in pieces("select ';'; -- one; two\n from t;")]
        ["select ';'", 'from t']
    """
    statements: list[Piece] = []
    words: list[Word] = []
    for word in [*_words(script), None]:
        if word is not None and (word.kind, word.text) != ("symbol", ";"):
            words.append(word)
        elif words:
            statements.append(Piece(script, tuple(words), len(statements) + 1))
            words = []
    return statements


def _words(script: str) -> list[Word]:
    if _NO_TEXT.search(script):
        raise StatementError("the script has a character that is not text: a zero byte, or half of a surrogate pair")
    try:
        tokens = _Tokenizer(dialect="duckdb").tokenize(script)
    except TokenError:
        raise_alone(StatementError("the script ends inside a comment or a text in quotes or dollars"))
    words = []
    for token in tokens:
        first = script[token.start]
        plain = "word" if first.isalpha() or first == "_" or not first.isascii() else "symbol"
        words.append(Word(_KINDS.get(token.token_type, plain), token.text, Span(token.start, token.end + 1)))
    return words


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def pointed(message: str, script: str, span: Span) -> str:
    r"""Add a position to a message: line and column, the line of the script, and carets under the wrong text.

    Example:
        >>> print(pointed("no such word", "select 1;\nrelase x", Span(10, 16)))
        line 2, column 1: no such word
          relase x
          ^^^^^^
    """
    line, column = _line_and_column(script, span.start)
    shown = script.split("\n")[line - 1].replace("\t", " ")
    marked = max(1, min(span.end - span.start, len(shown) - column + 1))
    return f"line {line}, column {column}: {message}\n  {shown}\n  {' ' * (column - 1)}{'^' * marked}"
