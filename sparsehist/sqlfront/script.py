"""A script cut into statements, by the rules DuckDB reads it with: quotes, dollar quotes, comments, parentheses.

The words come from sqlglot's tokenizer for DuckDB. Offsets count characters of the script, lines and columns from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import duckdb
from rich.cells import cell_len
from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from sparsehist.errors import StatementError, raise_alone
from sparsehist.guarantee.statement import line_and_column
from sparsehist.sqlfront.engine_words import parser_failure

# What DuckDB cannot be handed: it ends the text, or is half a character.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class _Tokenizer(DuckDB.Tokenizer):
    """DuckDB's words, without commands that swallow all up to the next semicolon, quoted or not."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True)
class Place:
    """Where a part of a text stands: characters from `start`, up to but not including `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Piece:
    """One statement as it was written: the whole script, its words without the semicolon, its number from 1."""

    script: str = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)
    number: int = 1

    @property
    def place(self) -> Place:
        """From its first word to its last."""
        return Place(self.tokens[0].start, self.tokens[-1].end + 1)

    @property
    def text(self) -> str:
        """What was written, comments inside and all."""
        return self.script[self.place.start : self.place.end]

    def error(self, message: str, place: Place | None = None) -> StatementError:
        """Return an error that shows a place of the script: the whole statement unless another one is given."""
        return StatementError(pointed(message, self.script, place or self.place))

    @property
    def line(self) -> int:
        """The line it begins in."""
        return line_and_column(self.script, self.place.start)[0]


def pieces(script: str) -> list[Piece]:
    r"""Cut a script at its semicolons; empty statements are left out.

    An error shows the quote or comment that is not closed.

    Example:
        >>> [piece.text for piece in pieces("select ';'; -- one; two\n from t;")]
        ["select ';'", 'from t']
    """
    found: list[Piece] = []
    words: list[Token] = []
    for token in [*_tokens(script), None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            words.append(token)
        elif words:
            found.append(Piece(script, tuple(words), len(found) + 1))
            words = []
    return found


def _tokens(script: str) -> list[Token]:
    no_text = _NO_TEXT.search(script)
    if no_text is not None:
        shown = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", script)
        raise StatementError(pointed("this character is not text", shown, Place(*no_text.span())))
    try:
        return list(_Tokenizer(dialect="duckdb").tokenize(script))
    except TokenError:
        raise_alone(StatementError(_unclosed(script)))


def _unclosed(script: str) -> str:
    """Say where a quote or comment begins that does not end."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("set errors_as_json = true")
        try:
            connection.extract_statements(script)
        except duckdb.Error as problem:
            message, at = parser_failure(script, problem)
            if at is not None and message.startswith("unterminated"):
                return pointed(message.split(" at or near")[0], script, Place(at, at + 1))
    return "a text in quotes or dollars, or a comment, is not closed at the end of the script"


def pointed(message: str, script: str, place: Place) -> str:
    r"""Return a message with its place: the line of the script and a caret under the text.

    Example:
        >>> print(pointed("no such word", "select 1;\nrelase x", Place(10, 16)))
        line 2, column 1: no such word
          relase x
          ^^^^^^
    """
    line, column = line_and_column(script, place.start)
    written = script.split("\n")[line - 1]
    caret = min(max(place.end - place.start, 1), max(len(written) - column + 1, 1))
    shown, first = _window(written, column)
    before = column - 1 - first
    # A tab is as wide under the text as in it.
    pad = "".join("\t" if character == "\t" else " " * cell_len(character) for character in shown[:before])
    marked = "^" * max(cell_len(shown[before : before + caret]), 1)
    return f"line {line}, column {column}: {message}\n  {shown}\n  {pad}{marked}"


def has_place(problem: Exception) -> bool:
    """Return whether an error shows its place already."""
    return str(problem).startswith("line ") and "\n" in str(problem)


def _window(written: str, column: int) -> tuple[str, int]:
    """Return the part of a long line around a column, and where it begins."""
    first = max(0, column - 1 - 60) if len(written) > 110 else 0
    return written[first : first + 110].rstrip(), first


def spelled(token: Token, script: str) -> str:
    """Return a token as it was written."""
    return script[token.start : token.end + 1]


def is_word(token: Any, script: str) -> bool:
    """Return whether a token is a name or keyword without quotes."""
    text = spelled(token, script)
    return bool(text) and (text[0].isalpha() or text[0] == "_" or not text[0].isascii())


def plain(token: Token, script: str) -> str:
    """Return a word; a name without its quotes."""
    return str(token.text) if token.token_type == TokenType.IDENTIFIER else spelled(token, script)
