"""Settings of counting: memory, threads, and reports of progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparsehist.declaration.checks import checked_whole
from sparsehist.errors import DeclarationError, shown

ENGINES = ("auto", "memory", "spark")
Progress = bool | Callable[[str], None] | None


@dataclass(frozen=True)
class Counting:
    """Settings of counting.

    Attributes:
        engine: "auto": Spark counts its own frames, this process everything else; "memory" and "spark" require that
            engine.
        memory_limit: Bytes, or text such as "4GB". Rows use half of it; more rows are written to disk.
        threads: At most this many; the number of cores by default.
        progress: None shows phases on a terminal, True always, False never; or a function to be called with each
            phase.

    Example:
        >>> Counting(memory_limit="4GB").threads is None
        True
    """

    engine: str = "auto"
    memory_limit: str | int | None = None
    threads: int | None = None
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise DeclarationError(f"engine must be one of {', '.join(ENGINES)}, got {shown(self.engine)}")
        if self.threads is not None:
            checked_whole("threads", self.threads, 1, 2**16)

    def resources(self) -> dict[str, Any]:
        """Memory limit and threads, as arguments of `count_keys`."""
        return {"memory_limit": self.memory_limit, "threads": self.threads}


@contextmanager
def reporting(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Yield a function to be called with the name of each phase when it begins."""
    begin = time.perf_counter()

    def tell(phase: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - begin:8.1f} s  {phase}\n")

    if callable(progress):
        yield progress
    else:
        yield tell if progress or (progress is None and sys.stderr.isatty()) else lambda _: None
