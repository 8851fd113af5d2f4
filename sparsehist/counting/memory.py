"""How much memory a count may take."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from sparsehist.errors import DeclarationError, shown

ADDRESSES_PER_BYTE = 3
"""Threads and allocators reserve addresses that they never touch."""


def available_memory(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many bytes this process may take: the least of the machine, its control groups and its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_group_limits(groups, mounted)]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        limits.append(addresses // ADDRESSES_PER_BYTE)
    return min(limits)


def allowed_memory(limit: str | int | None) -> int:
    """Return a limit, a number of bytes or a text such as "4GB", in bytes; half of what there is if None."""
    if limit is None:
        return available_memory() // 2
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    told = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B\s*", limit, re.IGNORECASE)
        if isinstance(limit, str)
        else None
    )
    if told is None:
        raise DeclarationError(f'memory_limit must be bytes or a text such as "4GB", not {shown(limit)}')
    number, prefix, binary = told.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index((prefix or " ").upper()))


def _group_limits(groups: Path, mounted: Path) -> Iterator[int]:
    """List the limits of the groups a process is in and of the groups around them."""
    for line in _text(groups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, file = (mounted / "memory", "memory.limit_in_bytes") if controllers else (mounted, "memory.max")
        group = root / path.lstrip("/")
        for around in [group, *group.parents]:
            limit = _text(around / file).strip()
            if limit.isdigit():
                yield int(limit)
            if around == root:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
