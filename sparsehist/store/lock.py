"""One at a time: an exclusive lock on a store, across processes and threads."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreError, StoreInUseError
from sparsehist.store.private_files import PRIVATE, disk_errors

_SHORTEST_NAP, _LONGEST_NAP = 0.002, 0.05


@contextmanager
def exclusive_lock(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file at `path`, which stays there afterwards.

    Every entry opens the file anew, so that two threads exclude each other like two processes. A child made
    by a fork inside the block cannot give the lock away.

    Args:
        path: In the store; made if it was deleted.
        wait: How long to try, in seconds.

    Raises:
        StoreInUseError: If somebody else still holds it.
        NotFoundError: If the store is no longer there.
    """
    owner = os.getpid()
    descriptor = _locked_descriptor(path, time.monotonic() + wait)
    try:
        yield
    finally:
        if os.getpid() == owner:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked_descriptor(path: Path, deadline: float) -> int:
    nap = _SHORTEST_NAP
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise StoreInUseError(f"store {path.parent} is in use; try again later, or wait with wait=SECONDS")
        time.sleep(min(nap, remaining))
        nap = min(2 * nap, _LONGEST_NAP)


def _open(path: Path) -> int:
    try:
        with disk_errors(path):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except StoreError:
        if not path.parent.is_dir():
            raise NotFoundError(f"no store at {path.parent}") from None
        raise


def _still_at(path: Path, descriptor: int) -> bool:
    """Whether the file that is locked is the one others will find: the store may have been replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
