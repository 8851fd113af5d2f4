"""Where RELEASE … TO may write."""

from __future__ import annotations

import os
from pathlib import Path

from sparsehist.errors import DeclarationError, NotFoundError, StoreError, raise_alone

_PARQUET = (".parquet", ".pq")


def check_target(target: str, store: Path | None) -> None:
    """Refuse a file that cannot be written, before a release is made for it.

    Args:
        target: The file.
        store: Directory of the store.

    Raises:
        DeclarationError: If it is no Parquet file, a directory, or inside the store.
        NotFoundError: If its directory does not exist.
        StoreError: If its directory cannot be written.
    """
    try:
        _check(target, Path(target), store)
    except OSError as problem:
        raise_alone(DeclarationError(f"{target!r} names no file: {os.strerror(problem.errno or 0)}"))


def _check(target: str, file: Path, store: Path | None) -> None:
    if file.suffix not in _PARQUET:
        raise DeclarationError(f"TO writes Parquet: the file must end in .parquet, got {target!r}")
    if store is not None and store.resolve() in file.resolve().parents:
        raise DeclarationError(f"{target!r} is inside the store, which nobody but its owner may read")
    if file.is_dir():
        raise DeclarationError(f"{target!r} is a directory: name a file in it")
    directory = file.absolute().parent
    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {str(directory)!r} to write {file.name!r} to")
    if not os.access(directory, os.W_OK):
        raise StoreError(f"cannot write {target!r}: its directory is not writable")
