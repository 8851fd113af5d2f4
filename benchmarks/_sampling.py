"""Charging CPU time to the parts of the package and the libraries they call, by a timer that rings."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EVERY_S = 0.001
IMPORTS = "imports"
_OWN = ("numpy", "scipy", "randomgen")
"""What these do in C has no frame: they count as the part's own, except while they are imported."""
_NO_LIBRARY = frozenset(sys.stdlib_module_names) | {"__main__", __name__}


class Sampler:
    """CPU seconds of all threads by part of the package and library, and how often the timer rang."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.rings = 0
        self._last = 0.0

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Watch the main thread in a block."""
        before = signal.signal(signal.SIGALRM, self._ring)
        signal.siginterrupt(signal.SIGALRM, 0)  # engines should not see their reading and writing interrupted
        self._last = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._charge(None)
            signal.signal(signal.SIGALRM, before)

    def _ring(self, _number: int, frame: FrameType | None) -> None:
        self.rings += 1
        self._charge(frame)

    def _charge(self, frame: FrameType | None) -> None:
        now = time.process_time()
        self.seconds[where(frame)] += now - self._last
        self._last = now


def where(frame: FrameType | None) -> str:
    """The part of the package whose frame is innermost, and the library that it has called."""
    library = ""
    while frame is not None:
        package, _, rest = frame.f_globals.get("__name__", "").partition(".")
        if package == "sparsehist":
            part = IMPORTS if frame.f_code.co_name == "<module>" else rest or package
            named = library and (part == IMPORTS or library not in _OWN)
            return f"{part}, in {library}" if named else part
        if package not in _NO_LIBRARY:
            library = package
        frame = frame.f_back
    return "outside"
