"""What would one install instead, and what does the same release cost there?

    python benchmarks/peers.py --rows 1_000_000 10_000_000 --cran DIRECTORY --out peers.json

Each contender takes a log from Parquet to a published Parquet file, in a process and a virtual environment of its own
(made here, kept in --environments; one that cannot be installed is skipped with a line), after a plain count that is
not timed: nobody waits for a file or for memory that the system had put away meanwhile. CPU and memory are of the
whole tree of processes, Spark's Java and Python workers included, looked at five times a second. The logs are those
of `pipeline.py`. Target: OpenDP at least 10 times slower, Tumult Analytics 80 times.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from _logs import Log, generated, packages
from _measure import arguments, as_installed, context, figure, options_of, report, spread, table

HERE = Path(__file__).resolve().parent
REQUIREMENTS = {
    "opendp": ["opendp[polars]>=0.12"],
    "pipelinedp": ["pipeline-dp>=0.2", "pyarrow"],
    "tmlt": ["tmlt.analytics>=0.20"],
}
OURSELVES = "sparsehist"
TITLES = {
    OURSELVES: OURSELVES,
    "opendp": "OpenDP, Context on Polars",
    "pipelinedp": "PipelineDP, local",
    "tmlt": "Tumult Analytics, local Spark",
}
OURS = """
import sys
import sparsehist as sh
log, out, max_keys, store = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
series = sh.create(store, log, name="queries", unit="user_id", key="query", max_keys=max_keys,
                   domain="strings(max_bytes=32)", counting=sh.Counting(progress=False))
released = series.release("public", level="0.1", false_keys=1)
released.write_parquet(out)
print(len(released))
"""
WARM_UP = """
import sys
import polars as pl
pl.scan_parquet(sys.argv[1]).group_by("query").agg(pl.col("user_id").n_unique()).collect(engine="streaming")
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Run(NamedTuple):
    """One contender's run."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    published: int


def measured(command: Sequence[str], environment: Mapping[str, str], timeout: float) -> Run | None:
    """Run a program and watch its tree of processes; None if it takes too long.

    Raises:
        RuntimeError: If it fails, with the end of what it wrote.
    """
    begin = time.perf_counter()
    cpu: dict[int, float] = {}
    peak = 0.0
    with tempfile.TemporaryFile() as written, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=written, stderr=errors, env=dict(environment), start_new_session=True
        )
        ended = os.pidfd_open(process.pid)  # so that the clock stops when it ends, not at the next look
        while True:
            found = tree(process.pid)
            cpu |= {pid: seconds for pid, (seconds, _) in found.items()}
            peak = max(peak, sum(memory for _, memory in found.values()))
            # The zombie's times are complete, so the process is looked at once more before it is reaped.
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                wall = time.perf_counter() - begin
                cpu |= {pid: seconds for pid, (seconds, _) in tree(process.pid).items()}
                process.wait()
                os.close(ended)
                break
            if time.perf_counter() - begin > timeout:
                os.killpg(process.pid, signal.SIGKILL)  # Spark's Java and Python workers as well
                process.wait()
                return None
            select.select([ended], [], [], 0.2)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(errors.read().decode(errors="replace")[-1500:])
        written.seek(0)
        return Run(wall, sum(cpu.values()), peak, int(written.read().split()[-1]))


def tree(root: int) -> dict[int, tuple[float, float]]:
    """CPU seconds and resident MB of a process and all its descendants."""
    stats: dict[int, tuple[int, float, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = (
                int(fields[1]),
                (int(fields[11]) + int(fields[12])) / _TICKS,
                int(fields[21]) * _PAGE / 2**20,
            )
    inside = {root}
    for pid in sorted(stats):
        if stats[pid][0] in inside:
            inside.add(pid)
    return {pid: stats[pid][1:] for pid in inside if pid in stats}


def interpreter(peer: str, environments: Path) -> Path | None:
    """The Python of a peer's environment, made if need be; None, with a line, if it cannot be installed."""
    directory = environments.resolve() / peer
    python = directory / "bin" / "python"
    if (directory / "installed").exists():
        return python
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", directory], check=True, capture_output=True, text=True
        )
        install = [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[peer]]
        subprocess.run(install, check=True, capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as problem:
        print(f"{TITLES[peer]}: skipped, cannot be installed here ({_last_line(problem)})")
        return None
    (directory / "installed").touch()
    return python


def _last_line(problem: subprocess.CalledProcessError | OSError) -> str:
    written = getattr(problem, "stderr", None) or getattr(problem, "output", None) or str(problem)
    return written.strip().splitlines()[-1]


def versions(python: Path, peer: str) -> str:
    """Name and version of what was measured."""
    package = REQUIREMENTS[peer][0].split(">=")[0].split("[")[0]
    code = f"from importlib.metadata import version; print({package!r}, version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def command(name: str, python: Path, log: Path, scratch: Path, max_keys: int, run: int) -> list[str]:
    """What to run for a contender."""
    out = str(scratch / f"{name}-{run}.parquet")
    if name == OURSELVES:
        return [sys.executable, "-c", OURS, str(log), out, str(max_keys), str(scratch / f"store-{run}")]
    return [str(python), str(HERE / f"peer_{name}.py"), str(log), out, str(max_keys)]


def compared(
    log: Log, contenders: Mapping[str, Path], runs: int, timeout: float
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Let all take turns on a log; what they took, and why some were given up."""
    found: dict[str, list[Run]] = {name: [] for name in contenders}
    given_up: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        path = scratch / "log.parquet"
        log.write(path)
        for run in range(runs):
            for name, python in contenders.items():
                if name in given_up:
                    continue
                environment = as_installed() | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
                asked = command(name, python, path, scratch, log.max_keys, run)
                subprocess.run([sys.executable, "-c", WARM_UP, path], check=True)
                try:
                    took = measured(asked, environment, timeout)
                except RuntimeError as problem:
                    print(f"{log.name}: {TITLES[name]} failed\n{problem}")
                    given_up[name] = "failed"
                    continue
                if took is None:
                    given_up[name] = f"given up after {timeout:,.0f} s"
                    print(f"{log.name}: {TITLES[name]} {given_up[name]}")
                else:
                    found[name].append(took)
    return found, given_up


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000], help="of generated logs")
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    parser.add_argument("--peers", default=",".join(REQUIREMENTS))
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".bench" / "environments")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which a contender is given up")
    options = options_of(parser)
    options.environments.mkdir(parents=True, exist_ok=True)
    asked = [peer for peer in options.peers.split(",") if peer]
    pythons = {peer: interpreter(peer, options.environments) for peer in asked}
    contenders = {OURSELVES: Path(sys.executable)} | {peer: found for peer, found in pythons.items() if found}
    cases: dict[str, object] = {}
    everything: dict[str, object] = {}
    for log in [
        *(generated(rows, "random", 0.7) for rows in options.rows),
        *([packages(options.cran)] if options.cran else []),
    ]:
        taken = context()
        runs, given_up = compared(log, contenders, options.runs, options.timeout)
        case = _result(runs) | {"given_up": {TITLES[name]: why for name, why in given_up.items()}}
        print(f"{log.name}\n{_table(case)}\n")
        cases[log.name] = {name: taken[name] for name in ("when", "commit", "load", "busy")} | case
        everything[log.name] = runs
    of_peers = [versions(python, peer) for peer, python in contenders.items() if peer in REQUIREMENTS]
    result = {"versions_of_peers": of_peers, "cases": cases}
    report("what the same release costs elsewhere", options, result, everything)


def _result(runs: Mapping[str, list[Run]]) -> dict[str, object]:
    measures = ("wall_s", "cpu_s", "peak_mb")
    medians = {
        TITLES[name]: {what: spread([getattr(run, what) for run in found]) for what in measures}
        for name, found in runs.items()
        if found
    }
    ours = runs[OURSELVES]
    ratios = {
        TITLES[name]: {
            what: spread([getattr(a, what) / getattr(b, what) for a, b in zip(found, ours, strict=False)])
            for what in measures
        }
        for name, found in runs.items()
        if found and name != OURSELVES
    }
    return {"runs": len(ours), "medians": medians, "ratios": ratios}


def _table(result: Mapping[str, object]) -> str:
    medians, ratios = result["medians"], result["ratios"]
    lines = [["", "wall s", "times ours", "CPU s", "times ours", "peak MB", "times ours"]]
    for name, found in medians.items():
        cells = [name]
        for what in ("wall_s", "cpu_s", "peak_mb"):
            cells += [f"{found[what].median:.2f}", figure(ratios[name][what]) if name in ratios else ""]
        lines.append(cells)
    return table(lines)


if __name__ == "__main__":
    main()
