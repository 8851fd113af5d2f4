"""Domains without known keys: a catalogue without its file, or a number of cells."""

from __future__ import annotations

from sparsehist.domain.base import Domain


class UnreadDomain(Domain):
    """The text of a domain whose keys are not loaded; it can be shown, compared and planned, but not counted."""

    def __init__(self, text: str, columns: int = 1, *, size: int | None = None) -> None:
        self._text, self._columns, self._size = text, columns, size

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def size(self) -> int:
        return self._refuse() if self._size is None else self._size

    def describe_size(self) -> str:
        return "keys of a file" if self._size is None else super().describe_size()

    def __str__(self) -> str:
        return self._text
