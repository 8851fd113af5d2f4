"""Objects that must draw in one process alone: a forked copy would draw other noise for the same question."""

from __future__ import annotations

import os
from typing import NoReturn

from sparsehist.entropy import generator
from sparsehist.errors import InputError, StoreError
from sparsehist.interactive.noise_supply import NoiseSupply


class OwnProcess:
    """Remembers where it was made; refuses to go on elsewhere, and to be copied."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    def require_own_process(self) -> None:
        """Refuse in a forked process."""
        if os.getpid() != self._process:
            raise StoreError(
                f"this process was forked from the one that holds the {type(self).__name__}, and both would draw "
                "different noise; ask in one process"
            )

    def __reduce__(self) -> NoReturn:
        raise InputError(f"a {type(self).__name__} cannot be copied: two copies would cost twice")


def drawn(supply: NoiseSupply) -> int:
    """The next value of a supply, of a new block where the last one is used up."""
    return supply.take() if supply.left else supply.refilled(rng=generator()).take()
