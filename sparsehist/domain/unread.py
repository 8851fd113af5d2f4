"""Domains whose keys are unknown, such as a catalogue whose file was not read."""

from __future__ import annotations

from sparsehist.domain.base import Domain


class UnreadDomain(Domain):
    """A domain whose keys are not loaded. It can be displayed, compared and used in plans, but cannot count a log."""

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
