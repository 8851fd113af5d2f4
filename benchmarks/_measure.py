"""Measuring fairly: contenders take turns in one run, every run is kept, and the machine is on record."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

LIBRARIES = ("polars", "duckdb", "numpy", "scipy", "pyarrow", "randomgen")
BUSY = 1.0  # load per core before the run begins; a script just ended leaves about half of that
"""Load per core from which the wall clock says more about the neighbours than about the code."""


class Timing(NamedTuple):
    """One run, in seconds. CPU is user plus system time of the process and the children it has waited for."""

    cpu_s: float
    wall_s: float


class Spread(NamedTuple):
    """Median and quartiles."""

    median: float
    lower: float
    upper: float


Timings = dict[str, list[Timing]]


def cpu_seconds() -> float:
    """User plus system time so far, of this process and of the children it has waited for."""
    mine = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine + children.ru_utime + children.ru_stime


def timed(work: Callable[[], object]) -> Timing:
    """Run once."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return Timing(cpu_seconds() - cpu, time.perf_counter() - wall)


def in_turns(contenders: Mapping[str, Callable[[], object]], runs: int, *, warm: int = 2) -> Timings:
    """Run the contenders A B C, A B C, and so on: whatever slows the machine slows all of them."""
    timings: Timings = {name: [] for name in contenders}
    for run in range(-warm, runs):
        for name, work in contenders.items():
            timing = timed(work)
            if run >= 0:
                timings[name].append(timing)
    return timings


def as_installed() -> dict[str, str]:
    """The environment for a process of its own: an installed package is compiled once, and so is a checkout then."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles of some runs."""
    lower, median, upper = np.percentile(np.asarray(values, np.float64), [25, 50, 75]).tolist()
    return Spread(median, lower, upper)


def seconds(timings: Sequence[Timing], what: str = "cpu_s") -> Spread:
    """Spread of one measure over the runs."""
    return spread([getattr(timing, what) for timing in timings])


def ratio(timings: Timings, name: str, to: str, what: str = "cpu_s") -> Spread:
    """Spread of the ratios run by run: each pair was measured within moments."""
    above, below = ([getattr(timing, what) for timing in timings[one]] for one in (name, to))
    return spread([x / y for x, y in zip(above, below, strict=True)])


def summary(timings: Timings) -> dict[str, dict[str, Spread]]:
    """CPU and wall of every contender."""
    return {name: {what: seconds(runs, what) for what in Timing._fields} for name, runs in timings.items()}


def arguments(question: str | None, *, runs: int) -> argparse.ArgumentParser:
    """The options every script has."""
    parser = argparse.ArgumentParser(description=question, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--out", type=Path, help="where the result goes, as JSON")
    return parser


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was asked for, with the machine as it is before anything is timed."""
    options = parser.parse_args()
    options.started = context()
    return options


def context() -> dict[str, object]:
    """What a figure depends on besides the code that was timed."""
    load = os.getloadavg()[0]
    return {
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
        "versions": {name: version(name) for name in LIBRARIES},
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
        },
        "load": round(load, 2),
        "busy": load / (os.cpu_count() or 1) > BUSY,
    }


def report(question: str, options: argparse.Namespace, result: Mapping[str, object], timings: object) -> None:
    """Write the result with all its runs as JSON, if somebody wants it."""
    started = options.started
    if started["busy"]:
        print(f"the machine was busy (load {started['load']}): believe the CPU ratios, repeat the rest in quiet")
    if options.out is not None:
        after = {"load_after": round(os.getloadavg()[0], 2), "runs": options.runs}
        document = {"question": question, **started, **after, **result, "all": timings}
        options.out.write_text(json.dumps(_plain(document), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows, the first of them a heading; the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        right = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *right]).rstrip())
    return "\n".join(lines)


def costs(timings: Timings, **ratios: Mapping[str, Spread]) -> str:
    """Lay out CPU and wall time of each contender, and its ratios, under the given headings."""
    rows = [["", "CPU ms", "wall ms", *ratios]]
    for name, runs in timings.items():
        times = [milliseconds(seconds(runs, what)) for what in ("cpu_s", "wall_s")]
        rows.append([name, *times, *(figure(found[name]) if name in found else "" for found in ratios.values())])
    return table(rows)


def milliseconds(value: Spread) -> str:
    """Median with quartiles, from seconds."""
    return f"{1e3 * value.median:.2f} ({1e3 * value.lower:.2f}–{1e3 * value.upper:.2f})"


def figure(value: Spread) -> str:
    """Median with quartiles, of a ratio."""
    return f"{value.median:.3f} ({value.lower:.3f}–{value.upper:.3f})"


def _plain(value: object) -> object:
    """Records as objects with names: a reader of the JSON should not have to count."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return round(value, 7) if isinstance(value, float) else value


def _commit() -> str:
    here = Path(__file__).parent
    run = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()
