"""How much memory a count may take."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from sparsehist.errors import present

ADDRESSES_PER_BYTE = 3
"""Threads and allocators reserve addresses that they never touch."""


def available_memory(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many bytes this process may take: the least of the machine, its control groups and its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_group_limits(groups, mounted)]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        limits.append(addresses // ADDRESSES_PER_BYTE)
    return min(limits)


def allowed_memory(limit: str | None) -> int:
    """Return a limit in bytes; half of what there is if None."""
    if limit is None:
        return available_memory() // 2
    number, unit = present(re.fullmatch(r"([\d.]+)\s*([A-Za-z]+)", limit)).groups()
    power = "BKMGT".index(unit[0].upper())
    return int(float(number) * (1024 if "i" in unit else 1000) ** power)


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
