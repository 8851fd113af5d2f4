"""From the words of a statement to its record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlglot import TokenType

from sparsehist.guarantee.places import Place
from sparsehist.sqlfront.clauses import read_clauses
from sparsehist.sqlfront.heads import CreateSeries, DropSeries, Head, MakeRelease, Option, Show
from sparsehist.sqlfront.script import Piece
from sparsehist.sqlfront.words import Words

_TIME = "a time such as '2026-01-31'"
_OURS = ("CREATE SERIES", "RELEASE", "PLAN", "SHOW SERIES", "SHOW RELEASES", "SHOW LEDGER", "DROP SERIES")
_STARTS_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SHOW", "SUMMARIZE")


def read_head(piece: Piece, parameters: Mapping[str, Any]) -> Head | None:
    """Read a statement, if it is one of ours.

    Args:
        piece: The statement.
        parameters: Values for $name, by name in lower case.

    Returns:
        Its record; None if it goes to DuckDB as it is.

    Raises:
        StatementError: If it begins like one of ours and goes on otherwise; says where and what was expected.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> read_head(pieces("show releases from queries")[0], {})
        Show(what='releases', series='queries', delta=None, since=None, short=False)
    """
    words = Words(piece, parameters)
    if words.accept("CREATE", "SERIES"):
        return _create(words, piece)
    if words.follow("CREATE", "OR", "REPLACE", "SERIES"):
        raise words.error("a series cannot be replaced: its noise is spent. DROP it, or use another name")
    if words.accept("RELEASE"):
        return _release(words, only_plan=False)
    if words.accept("PLAN"):
        if words.keyword() == "RELEASE" and words.keyword(1) != "FROM":
            words.skip()
        return _release(words, only_plan=True)
    if words.accept("DROP", "SERIES"):
        if_exists = words.keyword() == "IF" and words.token(1) is not None
        if if_exists:
            words.expect("IF", "EXISTS")
        place = words.place()
        return _ended(words, DropSeries(words.name("series"), if_exists, place))
    if words.keyword() == "SHOW" and words.keyword(1) in ("SERIES", "RELEASES", "LEDGER"):
        return _show(words)
    return None


def meant(piece: Piece) -> str:
    """A hint for a statement that DuckDB does not take and that looks like one of ours, misspelt.

    Example:
        >>> from sparsehist.sqlfront.script import pieces
        >>> meant(pieces("relese a from b at level 1")[0]), meant(pieces("selct 1")[0])
        ('; did you mean RELEASE?', '')
    """
    from difflib import get_close_matches

    first, second = (words.keyword(ahead) for words in [Words(piece, {})] for ahead in (0, 1))
    for start in _OURS:
        one, _, two = start.partition(" ")
        if get_close_matches(first, [one], 1, 0.75) and (not two or get_close_matches(second, [two], 1, 0.75)):
            return f"; did you mean {start}?"
    return ""


def _show(words: Words) -> Head:
    words.skip()
    what = words.keyword().lower()
    words.skip()
    if what == "releases" and words.accept("FROM"):
        place = words.place()
        return _ended(words, Show(what, words.name("series"), place=place))
    if what == "ledger":
        return _show_ledger(words)
    further = "FROM series or " if what == "releases" else ""
    return _ended(words, Show(what), f"{further}the end of the statement")


def _show_ledger(words: Words) -> Head:
    asked: dict[str, Any] = {"short": words.accept("SHORT")}
    if words.accept("FROM"):
        asked |= {"place": words.place(), "series": words.name("series")}
    if words.accept("SINCE"):
        start = words.place()
        asked["since"] = words.text(_TIME)
        try:
            datetime.fromisoformat(asked["since"])
        except ValueError:
            raise words.error(f"expected {_TIME}", words.since(start)) from None
    if words.accept("DELTA"):
        place = words.place()
        asked["delta"] = words.number("a probability such as 1e-6")
        asked.setdefault("place", words.since(place))
    further = "" if "delta" in asked else "DELTA and a probability, or "
    if not any(asked.values()):
        further = f"SHORT, FROM series, SINCE 'time', {further}"
    return _ended(words, Show("ledger", **asked), f"{further}the end of the statement")


def _create(words: Words, piece: Piece) -> Head:
    reuse = words.keyword() == "IF" and words.keyword(1) not in ("", "WITH")
    if reuse:
        words.expect("IF", "NOT", "EXISTS")
    name_place, name = words.place(), words.name("series")
    words.expect("WITH")
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
        words.skip()
        words.expect_symbol(TokenType.EQ, f"= after {option}")
        start = words.place()
        value = words.value()
        options[option] = Option(value, words.since(start))
    words.expect("AS")
    if not _starts_query(words):
        raise words.error("expected a query after AS, such as SELECT user_id, query FROM …")
    place = Place(words.place().start, piece.place.end)
    return CreateSeries(name, name_place, reuse, options, piece.script[place.start : place.end], place)


def _starts_query(words: Words) -> bool:
    token = words.token()
    return token is not None and (token.token_type == TokenType.L_PAREN or words.keyword() in _STARTS_QUERY)


def _release(words: Words, *, only_plan: bool) -> Head:
    # WORKLOAD, and in a plan the name itself, may be left out: `release workload from …` is a release of that name.
    unnamed = only_plan and words.ahead("USING")
    of_workload = words.keyword() == "WORKLOAD" and (words.keyword(1) != "FROM" or unnamed)
    if of_workload:
        words.skip()
    places = {"name": words.place()}
    name = None if only_plan and words.keyword() == "FROM" else words.name("release")
    words.expect("FROM")
    places["series"] = words.place()
    asked: dict[str, Any] = {"name": name, "series": words.name("series"), "only_plan": only_plan, "places": places}
    read_clauses(words, asked, of_workload=of_workload, only_plan=only_plan)
    if of_workload and "workload" not in asked:
        raise words.error("expected USING and a workload such as 'prefix(1024)'")
    if only_plan and "levels" not in asked:
        raise words.error("expected AT LEVEL and one level or more")
    return MakeRelease(**asked)


def _ended(words: Words, head: Head, expected: str = "the end of the statement") -> Head:
    if not words.at_end():
        raise words.error(f"expected {expected}")
    return head
