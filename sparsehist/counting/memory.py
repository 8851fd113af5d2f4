"""Limits of the memory of a count."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sparsehist.errors import DeclarationError, shown


def available_memory(group: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes available to this process: the minimum of the machine and its control groups (version 2)."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own = re.search(r"^0::/(.*)$", _text(group), re.MULTILINE)
    for around in [own[1], *map(str, Path(own[1]).parents)] if own else []:
        limit = _text(mounted / around / "memory.max").strip()
        limits += [int(limit)] if limit.isdigit() else []
    return min(limits)


def allowed_memory(limit: str | int | None) -> int:
    """Return a limit (bytes or a text such as "4GB") in bytes; by default half of the available memory."""
    if limit is None:
        return available_memory() // 2
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    pattern = r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B\s*"
    told = re.fullmatch(pattern, limit, re.IGNORECASE) if isinstance(limit, str) else None
    if told is None:
        raise DeclarationError(f'memory_limit must be bytes or a text such as "4GB", not {shown(limit)}')
    number, prefix, binary = told.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index((prefix or " ").upper()))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
