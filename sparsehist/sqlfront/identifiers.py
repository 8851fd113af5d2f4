"""Names as DuckDB compares them: letters A to Z in either case, every other character as it is."""

from __future__ import annotations

import string

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    r"""A name as DuckDB compares it; Python's own folding takes names for one that are two to it.

    Example:
        >>> folded("User_ID"), folded("\u017fum"), "\u017fum".casefold()
        ('user_id', 'ſum', 'sum')
    """
    return name.translate(_SMALL)
