"""What do releases cost, next to the code of an earlier commit?

    git worktree add /dev/shm/before 85f8188
    python benchmarks/before_after.py --before /dev/shm/before --directory /dev/shm --out before_after.json

Two processes, one on this tree and one on the other, make the same releases in turns:

- of 10^4 and of 10^5 rows, all in all (`sh.open`, `store.series`, `release`, `write_parquet`), the first, second and
  tenth of its series, in a new store each run. Target for 10^4 rows: at most 0.6 of the CPU, in memory;
- the 50th and the 400th of a series, in turns, at 101 levels in scrambled order. Target: at most 1.5 times as long;
- one that exists, asked for by as many processes at once as `--waiting` says, each waiting for the store, and
  then one of its own for each of as many processes, at a level of its own: all have to be served.

With `--syncs` (needs strace) the files and directories that a release synchronises are counted as well: on a disk,
these are what it waits for. Run it once with `--directory` on a file system in memory and once on a disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _measure import (
    Timing,
    Timings,
    arguments,
    figure,
    milliseconds,
    options_of,
    ratio,
    report,
    seconds,
    table,
)

LEVELS = ("1/10", "1/100", "1/2", "1/50", "1/4", "1/200", "1", "1/20", "1/5", "3/20")
SHOWN = {"first": 0, "second": 1, "tenth": 9}
HERE = Path(__file__).resolve().parent
TARGET, GROWTH_TARGET = 0.6, 1.5
WINDOW = 10
Found = tuple[dict[str, object], dict[str, object]]
ASK = (
    "import sys; import sparsehist as sh; series = sh.open(sys.argv[1], wait=300).series('visits'); "
    "print(len(series.release(sys.argv[2], level=sys.argv[3], threshold=1_000)))"
)


def serve() -> None:
    """Make stores and releases as told on standard input, one JSON object per line; answer with what they took."""
    import polars as pl

    import sparsehist as sh

    for line in sys.stdin:
        told = json.loads(line)
        place = Path(told["place"])
        if told["do"] == "make":
            place.mkdir()
            counts = sh.Counts(
                pl.DataFrame({"key": [f"how to fix page {i}" for i in range(len(told["counts"]))]}).with_columns(
                    count=pl.Series(told["counts"])
                ),
                largest=1,
            )
            sh.create(
                place / "store", counts, name="visits", key="key", max_keys=1, domain=sh.Strings(max_bytes=32),
                counting=sh.Counting(progress=False),
            )  # fmt: skip
        cpu, wall, rows = time.process_time(), time.perf_counter(), 0
        if told["do"] == "release":
            name = told["name"]
            with sh.open(place / "store") as store:
                released = store.series("visits").release(name, level=told["level"], threshold=1_000)
            released.write_parquet(place / f"{name}.parquet")
            rows = len(released)
        answer = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "rows": rows}
        print(json.dumps(answer), flush=True)


class Tree:
    """A process that works on one version of the code."""

    def __init__(self, tree: Path, *, trace: Path | None = None) -> None:
        """Start it; under a tracer that writes down what is synchronised, where `trace` says where to."""
        tracer = [] if trace is None else ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync"]
        self._worker = subprocess.Popen(
            [*tracer, sys.executable, str(HERE / "before_after.py"), "--serve"],
            env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=tree,
        )  # fmt: skip

    def do(self, what: str, place: Path, **more: object) -> dict[str, Any]:
        """Have something done and say what it took."""
        assert self._worker.stdin is not None and self._worker.stdout is not None
        self._worker.stdin.write(json.dumps({"do": what, "place": str(place), **more}) + "\n")
        self._worker.stdin.flush()
        return dict(json.loads(self._worker.stdout.readline()))

    def end(self) -> None:
        """Let it go."""
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        self._worker.wait(30)


def counts_of(rows: int) -> list[int]:
    """Counts of three times as many keys: `rows` of them far above the threshold, the others far below."""
    return [5_000 + i % 1_000 if i < rows else 1 + i % 3 for i in range(3 * rows)]


def timing(answer: dict[str, Any]) -> Timing:
    """What was answered, as a timing."""
    return Timing(answer["cpu_s"], answer["wall_s"])


def releases(trees: dict[str, Tree], root: Path, rows: int, runs: int) -> dict[str, Timings]:
    """Ten releases of a new series in turns, run after run; those that are shown."""
    found: dict[str, Timings] = {which: {name: [] for name in trees} for which in SHOWN}
    for run in range(-1, runs):
        for name, tree in trees.items():
            tree.do("make", root / f"{name}-{run}", counts=counts_of(rows))
        for number, level in enumerate(LEVELS):
            for name, tree in trees.items():
                answer = tree.do("release", root / f"{name}-{run}", name=f"r{number}", level=level)
                for which, shown in SHOWN.items():
                    if run >= 0 and shown == number:
                        assert answer["rows"] == rows
                        found[which][name].append(timing(answer))
        for name in trees:
            shutil.rmtree(root / f"{name}-{run}")
            (root / f"{name}-{run}.generation").unlink(missing_ok=True)
    return found


def growth(trees: dict[str, Tree], root: Path, early: int, late: int) -> dict[str, Timings]:
    """Releases around an early and a late one of two series alike, in turns, at levels in scrambled order.

    Cells near the threshold come with each release.
    """
    counts = [950 + i // 3 for i in range(300)] + counts_of(300)
    found: dict[str, Timings] = {name: {str(which): [] for which in (early, late)} for name in trees}
    places = {(name, which): root / f"{which}-{name}" for name in trees for which in (early, late)}

    def release(name: str, which: int, number: int) -> Timing:
        level = f"{1 + (37 * number) % 101}/100"
        return timing(trees[name].do("release", places[name, which], name=f"r{number}", level=level))

    for (name, which), place in places.items():
        trees[name].do("make", place, counts=counts)
        for number in range(which - WINDOW):
            release(name, which, number)
    for step in range(-WINDOW, WINDOW):
        for name, which in places:
            found[name][str(which)].append(release(name, which, which + step))
    return found


def synchronised(tree: Path, root: Path) -> list[int]:
    """How many files and directories each of ten releases synchronises."""
    trace = root / "trace"
    worker = Tree(tree, trace=trace)
    worker.do("make", root / "traced", counts=counts_of(1_000))
    found = []
    for number, level in enumerate(LEVELS):
        before = trace.read_text().count("sync(")
        worker.do("release", root / "traced", name=f"r{number}", level=level)
        found.append(trace.read_text().count("sync(") - before)
    worker.end()
    shutil.rmtree(root / "traced")
    return found


def all_wait(tree: Path, store: Path, asked: Sequence[tuple[str, str]]) -> Timing:
    """A process for each name and level wants a store, all at the same time; all have to be served."""
    begin = time.perf_counter()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", ASK, str(store), *one], env={"PYTHONPATH": str(tree)}, stdout=subprocess.PIPE
        )
        for one in asked
    ]
    served = [worker.communicate(timeout=600)[0] for worker in workers]
    assert len(set(served)) == 1 and all(worker.returncode == 0 for worker in workers)
    return Timing(0.0, time.perf_counter() - begin)


def compare_releases(trees: dict[str, Tree], root: Path, rows: Sequence[int], runs: int) -> Found:
    """Releases of some numbers of rows."""
    shown = [["", "before, CPU ms", "after, CPU ms", "after / before", "before, wall ms", "after, wall ms"]]
    result: dict[str, object] = {}
    everything: dict[str, object] = {}
    for n_rows in rows:
        for which, timings in releases(trees, root, n_rows, runs).items():
            title, quotient = f"{which} release of {n_rows} rows", ratio(timings, "after", "before")
            cpu, wall = ({name: seconds(timings[name], what) for name in trees} for what in ("cpu_s", "wall_s"))
            shown.append([
                title, *map(milliseconds, cpu.values()), figure(quotient), *map(milliseconds, wall.values())
            ])  # fmt: skip
            result[title] = {"ratio": quotient, "cpu_s": cpu, "wall_s": wall}
            everything[title] = timings
    print(table(shown))
    return {"cases": result}, everything


def compare_growth(trees: dict[str, Tree], root: Path, number: int) -> Found:
    """Late releases of a series beside early ones."""
    early, late = max(number // 10, WINDOW), number * 4 // 5
    many, grown = growth(trees, root, early, late), {}
    for name, timings in many.items():
        times = ratio(timings, str(late), str(early))
        shown = [milliseconds(seconds(timings[str(which)])) for which in (early, late)]
        print(f"{name}: release {early} {shown[0]}, {late} {shown[1]} ms: {figure(times)} times")
        grown[name] = {"times": times, "between": [early, late]}
    return {"growth": grown}, {"many": many}


def compare_waiting(trees: dict[str, Tree], root: Path, tree: Path, processes: int) -> Found:
    """Processes that queue for one store."""
    place = root / "waited"
    trees["after"].do("make", place, counts=counts_of(100))
    trees["after"].do("release", place, name="r0", level="1")
    again = all_wait(tree, place / "store", [("r0", "1")] * processes)
    new = all_wait(tree, place / "store", [(f"w{i}", f"{i + 1}/{2 * processes}") for i in range(processes)])
    print(
        f"{processes} processes at once: all served within {again.wall_s:.1f} s, with new releases {new.wall_s:.1f} s"
    )
    return {"waiting": {"processes": processes, "wall_s": again.wall_s, "new_wall_s": new.wall_s}}, {}


def compare_syncs(paths: dict[str, Path], root: Path) -> Found:
    """What a release synchronises."""
    found = {name: synchronised(path, root) for name, path in paths.items()}
    for name, numbers in found.items():
        print(f"{name}: files and directories synchronised by each of ten releases: {numbers}")
    return {"synchronised": found}, {}


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--before", type=Path, default=HERE.parent, help="a checkout of the earlier commit")
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5])
    parser.add_argument("--many", type=int, default=500)
    parser.add_argument("--waiting", type=int, default=50)
    parser.add_argument("--syncs", action="store_true")
    parser.add_argument("--directory", type=Path, help="where the stores are made; a temporary one by default")
    options = options_of(parser)
    paths = {"before": options.before.resolve(), "after": HERE.parent}
    trees = {name: Tree(path) for name, path in paths.items()}
    result: dict[str, object] = {"targets": {"ratio": TARGET, "growth": GROWTH_TARGET}}
    everything: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        root = Path(directory).resolve()
        parts = [compare_releases(trees, root, options.rows, options.runs)]
        if options.many > 2 * WINDOW:
            parts.append(compare_growth(trees, root, options.many))
        if options.waiting:
            parts.append(compare_waiting(trees, root, paths["after"], options.waiting))
        if options.syncs:
            parts.append(compare_syncs(paths, root))
        for tree in trees.values():
            tree.end()
    for found, timings in parts:
        result |= found
        everything |= timings
    print(f"targets: {TARGET} of the CPU for 10^4 rows; {GROWTH_TARGET} times from the 50th to the 400th release")
    report("releases before and after a change of the code", options, result, everything)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
