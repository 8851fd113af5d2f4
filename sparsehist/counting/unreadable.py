"""Why a file of a log cannot be read, in words of our own: those of an engine may quote a row."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path

_BLOCK = 1 << 20
_MAGIC = b"PAR1"
# What Polars says, and what it means; where neither is recognised, the reason is left open.
_REASONS = {
    "more fields": "its rows are of different length",
    "could not parse": "a quoted field does not end where it should",
}


def why_unreadable(file: str, failure: BaseException) -> str | None:
    """Find out what is wrong with a file, once reading it has failed.

    Args:
        file: Path of a Parquet or CSV file.
        failure: What Polars raised; its text is only looked at.

    Returns:
        The reason, or None where it cannot be told.
    """
    path = Path(file)
    try:
        if path.stat().st_size == 0:
            return "it is empty"
        if ".csv" not in file.lower() and ".tsv" not in file.lower():
            return None if _is_framed(path) else "it is no whole Parquet file"
        if not _is_text(path):
            return "it is not UTF-8 text"
    except EOFError:
        return "it is cut off"
    except PermissionError:
        return "permission is denied"
    except (OSError, zlib.error):
        return None
    return next((reason for said, reason in _REASONS.items() if said in str(failure)), None)


def _is_framed(path: Path) -> bool:
    """Say whether a file begins and ends as a Parquet file does."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        file.seek(-min(len(_MAGIC), path.stat().st_size), 2)
        return head == file.read() == _MAGIC


def _is_text(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True
