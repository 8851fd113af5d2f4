"""Progress of long work: phases on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[str], None] | None


@contextmanager
def reporting(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Give a function that is told the name of each phase as it begins.

    Args:
        progress: A function of your own; True to show phases on stderr, False never, None on a terminal only.
    """
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty()):
        with _on_terminal() as tell:
            yield tell
    else:
        yield lambda _: None


@contextmanager
def _on_terminal() -> Iterator[Callable[[str], None]]:
    from rich.console import Console

    console = Console(stderr=True)
    begun: list[tuple[str, float]] = []

    def finish() -> None:
        if begun:
            phase, since = begun.pop()
            console.print(f"  [green]✓[/] {phase} [dim]{time.perf_counter() - since:.1f} s[/]")

    with console.status("starting") as status:

        def tell(phase: str) -> None:
            finish()
            begun.append((phase, time.perf_counter()))
            status.update(phase)

        yield tell
        finish()
