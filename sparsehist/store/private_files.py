"""Write files atomically, readable by the owner only, and synchronised before anything refers to them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store.records import RegisteredFile

PRIVATE = 0o600
PUBLIC = 0o666  # minus the umask of the process
NEW = ".new"
"""Suffix of files being written; unfinished ones may be deleted."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT)
_LARGEST = 1 << 26  # bytes; enough for a public ledger of 250,000 releases


def read_regular(path: Path) -> bytes:
    """Read a small regular file that anybody may have written; else raise OSError, without waiting for a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, "too large for such a file")
    return content


def read_json(path: Path) -> Any:
    """Read a JSON file that anybody may have written; OSError as in `read_regular`, ValueError if it is not JSON."""
    try:
        return json.loads(str(read_regular(path), "utf-8"))
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Replace errors of the operating system with a StoreError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            reason = "the disk is full or a quota is reached; make room and repeat"
        elif error.errno == errno.EROFS:
            reason = "the file system is read-only"
        elif error.errno in _UNWRITABLE:
            reason = "it cannot be read or written; check that the directory exists, its owner and its mode"
        else:
            reason = os.strerror(error.errno) if error.errno else "the operating system refused"
        raise StoreError(f"{path}: {reason}") from None


class HashedFile:
    """A file being written by `atomic_file`, with its size and digest so far."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self._name, self._file, self._digest, self.size = name, file, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self.size += self._file.write(data)

    @property
    def registered(self) -> RegisteredFile:
        return RegisteredFile(self._name, self.size, self._digest.hexdigest())


@contextmanager
def atomic_file(
    path: Path, *, durable: bool, mode: int = PRIVATE, temporary: Path | None = None
) -> Iterator[HashedFile]:
    """Write a file under a temporary name, synchronise it, and rename it: completely or not at all.

    The default temporary name is always the same, so killed runs leave at most one, which the next run overwrites.
    The caller holds the lock of the directory.
    """
    temporary = temporary or path.with_name(path.name + NEW)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with disk_errors(path):
        try:
            with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
                yield HashedFile(path.name, file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        if durable:
            synchronise(path.parent)


def write_file(
    path: Path, content: bytes | memoryview, *, durable: bool, mode: int = PRIVATE, temporary: Path | None = None
) -> RegisteredFile:
    with atomic_file(path, durable=durable, mode=mode, temporary=temporary) as file:
        file.write(content)
    return file.registered


def synchronise(path: Path) -> None:
    """Make the content of a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file(directory: Path, registered: RegisteredFile) -> Path:
    """Return the path of a registered file; refuse a missing file and a file of the wrong size."""
    path = directory / registered.name
    try:
        size = path.stat().st_size
    except OSError:
        raise StoreDamagedError(f"{path} is missing; restore the store from a backup") from None
    if size != registered.size:
        # The difference is secret: sizes reveal numbers of keys and units.
        raise StoreDamagedError(f"{path} does not have the size that was recorded; restore the store from a backup")
    return path


def verify_file(directory: Path, registered: RegisteredFile) -> None:
    """Compare the content of a registered file with its digest, in little memory."""
    path = check_file(directory, registered)
    with disk_errors(path), path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != registered.digest:
            raise altered(path)


def verified(directory: Path, registered: RegisteredFile) -> bytes:
    """Return the content of a registered file, compared with its digest."""
    path = check_file(directory, registered)
    with disk_errors(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != registered.digest:
        raise altered(path)
    return content


def altered(path: Path) -> StoreDamagedError:
    return StoreDamagedError(f"{path} was altered; restore the store from a backup")
