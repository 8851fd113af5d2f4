"""Names in the words of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import Token, TokenType

from sparsehist.sqlfront.identifiers import folded
from sparsehist.sqlfront.script import Piece, is_word, spelled


def plain(token: Token, script: str) -> str:
    """A word; a name without its quotes."""
    return str(token.text) if token.token_type == TokenType.IDENTIFIER else spelled(token, script)


def qualified(piece: Piece, at: int) -> tuple[str, int]:
    """The name that begins at a word, parts joined by dots, and the word behind it."""
    parts = []
    while at < len(piece.tokens):
        parts.append(folded(plain(piece.tokens[at], piece.script)))
        at += 1
        if at >= len(piece.tokens) or piece.tokens[at].token_type != TokenType.DOT:
            break
        at += 1
    return ".".join(parts), at


def last(name: str) -> str:
    """A qualified name without what stands before its last dot."""
    return name.rsplit(".", 1)[-1]


def names(tokens: Iterable[Token], script: str) -> set[str]:
    """All words that may be names; a text in quotes may name a table, too."""
    quoted = (TokenType.IDENTIFIER, TokenType.STRING)
    return {
        folded(str(token.text) if token.token_type in quoted else spelled(token, script))
        for token in tokens
        if token.token_type in quoted or is_word(token, script)
    }


def brackets(words: Sequence[str]) -> list[int]:
    """How many parentheses are open at each word."""
    depths, depth = [], 0
    for word in words:
        depth -= word == ")"
        depths.append(depth)
        depth += word == "("
    return depths
