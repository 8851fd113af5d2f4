"""Read and write files of a store. A file is written completely or not at all."""

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
PUBLIC = 0o666  # mode of published files, before the umask of the process is applied
NEW = ".new"
"""Suffix of the names of unfinished files, which may be deleted."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT)
_LARGEST = 1 << 26  # size limit for `read_regular`, in bytes; a public ledger of 250,000 releases fits


def read_regular(path: Path) -> bytes:
    """Read a regular file of up to 64 MiB. Raise OSError for larger files, pipes and devices; never wait for data."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, f"the file is larger than {_LARGEST} bytes")
    return content


def read_json(path: Path) -> Any:
    """Read a small JSON file. Raise ValueError if its content is not JSON, and OSError as `read_regular` does."""
    try:
        return json.loads(str(read_regular(path), "utf-8"))
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Replace any OSError that the block raises with a StoreError that says what to do."""
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
    """A file that `atomic_file` is writing, with the size and the digest of its content so far."""

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
    """Write a file completely or not at all: write it under a temporary name, synchronise it, then rename it.

    The default temporary name depends only on `path`, so killed processes leave at most one temporary file, which
    the next call overwrites. The caller must hold the lock of the directory.
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
    """Flush (fsync) a file, or the entries of a directory, to disk, so that they survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file(directory: Path, registered: RegisteredFile) -> Path:
    """Return the path of a file that the state lists. Raise an error if it is missing or has the wrong size."""
    path = directory / registered.name
    try:
        size = path.stat().st_size
    except OSError:
        raise StoreDamagedError(f"{path} is missing; restore the store from a backup") from None
    if size != registered.size:
        # The message must not show the sizes, because they reveal numbers of keys and units.
        raise StoreDamagedError(f"{path} was altered, as its size has changed; restore the store from a backup")
    return path


def verify_file(directory: Path, registered: RegisteredFile) -> None:
    """Raise an error if a file does not match the digest in the state. Read the file piece by piece."""
    path = check_file(directory, registered)
    with disk_errors(path), path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != registered.digest:
            raise altered(path)


def verified(directory: Path, registered: RegisteredFile) -> bytes:
    """Return the content of a file. Raise an error if it does not match the digest in the state."""
    path = check_file(directory, registered)
    with disk_errors(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != registered.digest:
        raise altered(path)
    return content


def altered(path: Path) -> StoreDamagedError:
    return StoreDamagedError(f"{path} was altered; restore the store from a backup")
