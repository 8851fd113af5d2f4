"""Settings for counting: memory, threads, and reports of progress."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsehist.declaration.checks import checked_whole
from sparsehist.errors import DeclarationError, shown

ENGINES = ("auto", "memory", "spark")
Progress = bool | Callable[[str], None] | None


@dataclass(frozen=True)
class Counting:
    """Settings for counting a log.

    Attributes:
        engine: "auto" counts Spark frames with Spark and other logs in this process; "spark" accepts only Spark
            frames, and "memory" only other logs.
        memory_limit: Bytes, or a string such as "4GB"; by default half of the memory of this machine or container.
            Rows fill at most half of the limit; further rows are written to disk. Distinct strings stay in memory.
        threads: Largest number of threads; by default the number of cores.
        progress: Whether to show phases, by default on a terminal; or a function called with the name of each phase.

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
        """Return the memory limit and the number of threads as keyword arguments for `count_keys`."""
        return {"memory_limit": self.memory_limit, "threads": self.threads}


def memory_bytes(limit: str | int | None) -> int:
    """Return a memory limit in bytes; by default half of the memory of this machine or container."""
    if limit is None:
        of_container = Path("/sys/fs/cgroup/memory.max")
        text = of_container.read_text(encoding="ascii").strip() if of_container.exists() else ""
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return min(machine, int(text) if text.isdigit() else machine) // 2
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    pattern = r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B\s*"
    match = re.fullmatch(pattern, limit, re.IGNORECASE) if isinstance(limit, str) else None
    if match is None:
        raise DeclarationError(f'memory_limit must be bytes or a string such as "4GB", not {shown(limit)}')
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix.upper() or " "))


@contextmanager
def reporting(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports progress. Call it with the name of each phase when the phase begins."""
    begin = time.perf_counter()

    def show(phase: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - begin:8.1f} s  {phase}\n")

    if callable(progress):
        yield progress
    else:
        yield show if progress or (progress is None and sys.stderr.isatty()) else lambda _: None
