"""What a fork leaves behind: Polars' threads do not survive it, and whoever needs them would wait for ever.

A store itself survives forks: no connection, lock or generator outlives a call. But a child forked after Polars
has begun to work hangs in the first parallel operation, perhaps with the store locked; so it is refused before
it takes the lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from sparsehist.errors import StoreError

_THREADS = Path("/proc/self/task")
_lost = False
_running = False


def _polars_runs() -> bool:
    """Whether Polars has started its threads; where the system does not say, it is taken to have."""
    try:
        names = [(thread / "comm").read_text().strip() for thread in _THREADS.iterdir()]
    except OSError:
        return True
    return any(name.removeprefix("polars-").isdigit() for name in names)


def _before() -> None:
    global _running  # noqa: PLW0603 - threads belong to the process, and so does what is known of them
    _running = _polars_runs()


def _in_child() -> None:
    global _lost  # noqa: PLW0603
    _lost = _lost or _running


os.register_at_fork(before=_before, after_in_child=_in_child)


def refuse_in_broken_child() -> None:
    """Refuse to work in a process that was forked while Polars was running.

    Raises:
        StoreError: Saying how to start processes instead.
    """
    if _lost:
        raise StoreError(
            "this process was forked after Polars had started its threads, which a fork does not carry over; "
            "start workers by multiprocessing's 'spawn' or 'forkserver', or fork before the first release"
        )
