"""Work in a process of its own, so that its peak memory is its own; what it measured comes back as JSON."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def span(into: dict[str, float], name: str) -> Iterator[None]:
    """Note CPU and wall seconds of a block under a name."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    into[f"{name}_cpu_s"] = time.process_time() - cpu
    into[f"{name}_wall_s"] = time.perf_counter() - wall


def peak_mb() -> float:
    """Largest resident set so far, in MB.

    Where the system says it of the memory that this program has. What it says of the process holds the memory of the
    process that started it too, up to the moment this program took its place.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mb() -> float:
    """Resident set now, in MB; the peak where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_mb()
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def in_child(script: str, **asked: Any) -> dict[str, Any]:
    """Run `answer_parent` of a script with these arguments in a process of its own.

    Raises:
        RuntimeError: If it fails, with the end of what it wrote.
    """
    run = subprocess.run(
        [sys.executable, script, "--child", json.dumps(asked)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    answer: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return answer


def answered_parent(work: dict[str, Callable[..., dict[str, Any]]]) -> bool:
    """In a child: do the asked work, print what it measured with the peak of memory, and say that it is done."""
    if len(sys.argv) < 3 or sys.argv[1] != "--child":
        return False
    asked = json.loads(sys.argv[2])
    found = work[asked.pop("work")](**asked)
    print(json.dumps(found | {"peak_mb": peak_mb()}))
    return True
