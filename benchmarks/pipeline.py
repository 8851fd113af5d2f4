"""What does a whole release cost, from a log in Parquet to a published Parquet file, beside a plain count?

    python benchmarks/pipeline.py --out pipeline.json                          (six logs of 10^7 rows; ten minutes)
    make bench-logs CRAN=DIRECTORY RUNS=5      (10^7 and 5·10^7 rows, into benchmarks/results, README and the pages)
    python benchmarks/pipeline.py --rows 50_000_000 --runs 1 --memory-gb 4     (its memory capped by the system)

Logs are generated: ids of users are small numbers, random ones or UUIDs as text, and activity is log-normal of sigma
0.7, in row groups of 10^5 rows, or 1.5, in row groups of 10^6; --cran adds the download log of the CRAN mirror, whose
days of CSV are put into one Parquet file beforehand. The plain counts are those of distinct units per key, without
bounding and privacy, of Polars and of DuckDB. Each contender runs in a process of its own, in turns; CPU, wall clock
and peak of the resident set are of the whole process, imports included, up to the end of each phase. Ratios are to
the plain count that is cheaper in the same turn, each measure for itself. Target up to the first published file: 1.0
of the CPU and of the time on the clock, 0.75 of the memory. We run once more pinned to one core. What the main
thread does is done by one core whatever there is, and the rest is spread over all: simulated, for more cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from _logs import Log, generated, packages
from _measure import Spread, arguments, as_installed, figure, options_of, report, spread, table

HERE = Path(__file__).resolve().parent
PLAIN = ("plain polars", "plain duckdb")
OURS, PINNED = "sparsehist", "sparsehist on one core"
TARGET = {"cpu_s": 1.0, "wall_s": 1.0, "peak_mb": 0.75}
CORES = (2, 32)
MEASURES = ("cpu_s", "wall_s", "peak_mb")
PUBLISHED = "first release"
PHASES = ("imports", "counting", "create", PUBLISHED, "tenth release")

START = """
import json, sys, time
begin, found = time.monotonic(), {}
sys.path.append(benchmarks)
from _child import peak_mb
def done(phase):
    found[phase] = {"cpu_s": time.process_time(), "wall_s": time.monotonic() - begin, "peak_mb": peak_mb(),
                    "main_cpu_s": time.thread_time()}
"""
PROGRAMS = {
    "plain polars": """
import polars as pl
result = pl.scan_parquet(log).group_by("query").agg(pl.col("user_id").n_unique()).collect(engine="streaming")
done("first release")
""",
    "plain duckdb": """
import duckdb
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
connection.execute("create temp table result as select query, count(distinct user_id) as units "
                   "from read_parquet($log) group by query", {"log": log})
done("first release")
""",
    OURS: """
import sparsehist as sh
sh.create
done("imports")
def phase(name):
    if name == "writing":
        done("counting")
series = sh.create(directory + "/store", log, name="queries", unit="user_id", key="query", max_keys=max_keys,
                   domain=sh.Strings(max_bytes=32), counting=sh.Counting(progress=phase))
done("create")
series.release("release_1", level="0.1", false_keys=1).write_parquet(directory + "/released.parquet")
done("first release")
for i in range(2, 11):
    if i == 10:
        done("ninth release")
    series.release(f"release_{i}", level=f"0.{i:02}", false_keys=1).write_parquet(f"{directory}/released_{i}.parquet")
done("tenth release")
""",
}
PROGRAMS[PINNED] = PROGRAMS[OURS]
REPORT = "\nprint(json.dumps(found))\n"

Phases = dict[str, dict[str, float]]


def measure(name: str, log: Path, max_keys: int, memory_gb: float | None) -> Phases:
    """Run one contender in a process of its own, under a limit on its address space if there is one."""
    with tempfile.TemporaryDirectory() as directory:
        given = f"log, directory, max_keys, benchmarks = {str(log)!r}, {directory!r}, {max_keys}, {str(HERE)!r}\n"
        program = f"{given}{START}{PROGRAMS[name]}{REPORT}"
        limit = partial(_limit, int(memory_gb * 2**30) if memory_gb else None, pinned=name == PINNED)
        command = [sys.executable, "-c", program]
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, preexec_fn=limit, env=as_installed()
        )
    if run.returncode:
        raise RuntimeError(f"{name}: {run.stderr[-2000:]}")
    found: Phases = json.loads(run.stdout.strip().splitlines()[-1])
    return found


def _limit(size: int | None, *, pinned: bool) -> None:
    if size is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    if pinned:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def in_turns(names: Sequence[str], runs: int, work: Callable[[str], Phases]) -> dict[str, list[Phases]]:
    """Run A B C, A B C, and so on: whatever slows the machine slows all of them."""
    found: dict[str, list[Phases]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            found[name].append(work(name))
    return found


def ratios(found: Mapping[str, Sequence[Phases]]) -> dict[str, dict[str, Spread]]:
    """What each phase of ours took so far, of what the cheaper plain count took in the same turn."""
    cheaper = {
        what: [
            min(run[PUBLISHED][what] for run in turn) for turn in zip(*(found[name] for name in PLAIN), strict=True)
        ]
        for what in MEASURES
    }
    return {
        phase: {
            what: spread([run[phase][what] / least for run, least in zip(found[OURS], cheaper[what], strict=True)])
            for what in MEASURES
        }
        for phase in PHASES
    }


def speed_up(found: Mapping[str, Sequence[Phases]]) -> dict[str, Spread]:
    """How many times as fast as on one core all of it is, and would be, were what the main thread does serial."""
    faster = {
        f"{cores} cores, simulated": spread([_simulated(run[PUBLISHED], cores) for run in found[OURS]])
        for cores in CORES
    }
    if PINNED not in found:
        return faster
    pairs = zip(found[PINNED], found[OURS], strict=True)
    clock = spread([one[PUBLISHED]["wall_s"] / all_cores[PUBLISHED]["wall_s"] for one, all_cores in pairs])
    return {f"{os.cpu_count()} cores, on the clock": clock} | faster


def _simulated(took: Mapping[str, float], cores: int) -> float:
    return took["cpu_s"] / (took["main_cpu_s"] + (took["cpu_s"] - took["main_cpu_s"]) / cores)


def shown(found: Mapping[str, Sequence[Phases]], compared: Mapping[str, Mapping[str, Spread]]) -> str:
    """Medians by phase, each with what came before it, and ratios."""
    rows = [["", "CPU s", "ratio", "wall s", "ratio", "peak MB", "ratio"]]
    lines = [(name, PUBLISHED) for name in found if name != OURS] + [(OURS, phase) for phase in PHASES]
    for name, phase in lines:
        row = [f"to {phase}" if name == OURS else name]
        for what in MEASURES:
            row.append(f"{spread([run[phase][what] for run in found[name]]).median:.2f}")
            row.append(figure(compared[phase][what]) if name == OURS else "")
        rows.append(row)
    return table(rows)


def logs(options: argparse.Namespace) -> list[Log]:
    """What is asked for."""
    if options.log:
        return [Log(options.log.name, 20, lambda path: path.symlink_to(options.log.resolve()))]
    made = [generated(*one) for one in product(options.rows, options.ids, options.activity)]
    return [*made, *([packages(options.cran)] if options.cran else [])]


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--ids", nargs="+", choices=("small", "random", "uuid"), default=["small", "random", "uuid"])
    parser.add_argument("--activity", type=float, nargs="+", default=[0.7, 1.5])
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    parser.add_argument("--log", type=Path, help="a Parquet log with user_id and query, instead of generated ones")
    parser.add_argument("--memory-gb", type=float, help="cap our address space; the plain counts are left out")
    options = options_of(parser)
    results: dict[str, dict[str, object]] = {}
    everything: dict[str, dict[str, list[Phases]]] = {}
    names = [OURS] if options.memory_gb else [*PLAIN, OURS, PINNED]
    for log in logs(options):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "log.parquet"
            log.write(path)
            work = partial(measure, log=path, max_keys=log.max_keys, memory_gb=options.memory_gb)
            found = in_turns(names, options.runs, work)
        everything[log.name] = found
        if options.memory_gb:
            print(f"{log.name}, in {options.memory_gb:g} GB of addresses: {found[OURS]}")
            continue
        compared = ratios(found)
        faster = speed_up(found)
        results[log.name] = {"max_keys": log.max_keys, "ratios": compared, "speed_up": faster}
        told = ", ".join(f"{figure(times)} on {cores}" for cores, times in faster.items())
        print(f"{log.name}\n{shown(found, compared)}\ntimes as fast as on one core: {told}\n", flush=True)
    result = {"target": TARGET, "memory_gb": options.memory_gb, "cases": results}
    report("a release from log to published file beside plain counts", options, result, everything)


if __name__ == "__main__":
    main()
