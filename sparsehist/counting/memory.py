"""How much memory there is, and how much a log will take when it is counted without spilling."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage

import polars as pl

from sparsehist.counting.lakes import is_remote, seen
from sparsehist.counting.sources import Log, scan_parquet
from sparsehist.errors import present

BYTES_PER_ROW, PARQUET_EXPANSION = 24, 2
"""Measured with the second at 0: 20 to 25, for 10 and 50 million rows. Many distinct or long keys take more."""
CSV_EXPANSION = 3
GZIP = 8
PROCESS = 150_000_000
"""Measured: a process that counts, but for the log."""
LITTLE = 300_000_000
"""Not worth a word: less than half a minute."""
ADDRESSES_PER_BYTE = 3
"""Threads and allocators reserve addresses that they never touch."""


def available_memory(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Tell how many bytes this process may take: the least of the machine, its control groups and its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_group_limits(groups, mounted)]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        limits.append(addresses // ADDRESSES_PER_BYTE)
    return min(limits)


def memory_needed(log: Log) -> int:
    """Guess from the files alone how much memory counting takes when all of it happens there; 0 if there are none."""
    far = seen([file for file in log.files if is_remote(file)], log.storage or {})
    held = [(file, Path(file).stat().st_size) for file in log.files if not is_remote(file)]
    sizes = [
        size * (GZIP if file.endswith(".gz") else 1) for file, size in [*held, *((one.url, one.size) for one in far)]
    ]
    if log.kind == "parquet":
        # Not by Arrow, which would reserve a gigabyte of addresses where there may be few.
        counted = [scan_parquet(file, log.storage).select(pl.len()).collect() for file in log.files]
        rows = sum(int(frame.item()) for frame in counted)
        return BYTES_PER_ROW * rows + PARQUET_EXPANSION * sum(sizes)
    return CSV_EXPANSION * sum(sizes)


def needs_text(needed: int, spill: Path, *, spills: bool, limit: str | None) -> str | None:
    """Say what counting is about to take of memory and disk, given `memory_needed`; None where that is little."""
    if needed < LITTLE:
        return None
    there, free = available_memory(), disk_usage(spill).free
    memory = PROCESS + (min(needed, allowed_memory(limit)) if spills else needed)
    disk = 2 * needed if spills else needed
    scarce = [what for what, least, most in (("memory", memory, there), ("disk", disk, free)) if least > most]
    told = f"about {_size(memory)} of memory ({_size(there)} there), up to {_size(disk)} of disk ({_size(free)} free)"
    return f"{told}; {' and '.join(scarce)} may not do" if scarce else told


def allowed_memory(limit: str | None) -> int:
    """A limit of memory in bytes: half of what there is if None."""
    if limit is None:
        return available_memory() // 2
    number, unit = present(re.fullmatch(r"([\d.]+)\s*([A-Za-z]+)", limit)).groups()
    power = "BKMGT".index(unit[0].upper())
    return int(float(number) * (1024 if "i" in unit else 1000) ** power)


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


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
