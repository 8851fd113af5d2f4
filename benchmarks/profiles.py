"""Where does the time of each main path go?

    python benchmarks/profiles.py --out profiles.json                (10^6 rows; half a minute)
    python benchmarks/profiles.py --rows 10_000_000 --cells 1_000_000 --runs 30 --out profiles.json

A timer rings every millisecond; the CPU time of all threads since it rang last is charged to the part of the package
whose frame is innermost, and to the library that part has called. NumPy and SciPy count as the part's own, as what
they do in C has no frame; nor have DuckDB and SQLite. What runs in threads beside the main one stands at `threads`,
where that one waits. Each path runs in a process of its own, on a store on disk, and its first run is not counted:
what is imported late is seen in the last path alone, a program that starts and looks into a store. No target is set:
it says where to look.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _child import answered_parent, in_child
from _logs import generate
from _measure import Timing, arguments, milliseconds, options_of, report, seconds, table, timed
from _sampling import Sampler
from release import Published

import sparsehist as sh

HERE = Path(__file__).resolve().parent
SHOWN = 8
FEW_ROWS = 100_000
COLUMNS = 10
AT_START = """
import json, sys, time
from _sampling import Sampler
watch = Sampler()
begin = time.process_time(), time.perf_counter()
with watch.sampling():
    import sparsehist as sh
    sh.open(sys.argv[1]).ledger(full=True)
took = time.process_time() - begin[0], time.perf_counter() - begin[1]
print(json.dumps({"took": took, "seconds": watch.seconds, "rings": watch.rings}))
"""
START = "start: import, open, ledger"
Work = Callable[[], object]


class Sizes(NamedTuple):
    """How large the paths are."""

    log: str
    small_log: str
    published: int
    cells: int


def counting(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """A log is counted into a series."""
    for run in count():
        yield partial(_series, directory / f"store_{run}", sizes.log)


def a_release(number: int, directory: Path, sizes: Sizes) -> Iterator[Work]:
    """From opening the store to the Parquet file."""
    published = Published(directory, sizes.published, number)
    while True:
        yield published.release
        published.put_back()


def a_new_path(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """All ranges of a column, for the first time."""
    for run in count():
        series = _hours(directory / f"store_{run}", sizes.cells)
        yield partial(series.release, "first", workload=sh.workload.Ranges(), level="0.1")


def a_later_level(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """The same ranges, at a coarser level."""
    for run in count():
        series = _hours(directory / f"store_{run}", sizes.cells)
        series.release("first", workload=sh.workload.Ranges(), level="0.1")
        yield partial(series.release, "second", workload=sh.workload.Ranges(), level="0.05")


def all_pairs(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """Marginals of all pairs of columns, for the first time."""
    rng = np.random.default_rng(1)
    cells = {f"c{column}": rng.integers(0, 5, sizes.cells) for column in range(COLUMNS)}
    frame = pl.DataFrame(cells).group_by(pl.all()).len("users")
    domain = sh.Product(**dict.fromkeys(cells, sh.Integers(5)))
    for run in count():
        source = sh.Counts(frame, count="users", largest=1)
        store = directory / f"store_{run}"
        series = sh.create(
            store,
            source,
            name="t",
            key=list(cells),
            max_keys=3,
            domain=domain,
            counting=sh.Counting(progress=False),
        )
        yield partial(series.release, "pairs", workload=sh.workload.Marginals(k=2), level="0.1")


def planning(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """A plan of a series that has releases."""
    series = _series(directory / "store", sizes.small_log)
    for level in ("0.1", "0.01", "0.5"):
        series.release(f"at_{level.replace('.', '_')}", level=level)
    while True:
        yield partial(series.plan, ["0.02", "0.2", "1"])


def a_script(directory: Path, sizes: Sizes) -> Iterator[Work]:
    """A series, a release and a query by SQL."""
    text = f"""
        create series queries with (unit = user_id, key = query, max_keys = 20, domain = strings(max_bytes=32))
            as select user_id, query from read_parquet('{sizes.small_log}');
        release public from queries at level 0.1 expecting 1 false keys;
        select * from queries.public order by noisy_count desc limit 10;
    """
    for run in count():
        yield partial(sh.sql, text, store=str(directory / f"store_{run}"))


PATHS: dict[str, Callable[[Path, Sizes], Iterator[Work]]] = {
    "count and create": counting,
    "first release": partial(a_release, 1),
    "tenth release": partial(a_release, 10),
    "ranges, a new path": a_new_path,
    "ranges, a coarser level": a_later_level,
    "marginals, all pairs": all_pairs,
    "plan": planning,
    "SQL: create, release, select": a_script,
}


def _series(store: Path, log: str) -> sh.Series:
    domain = sh.Strings(max_bytes=32)
    return sh.create(
        store,
        log,
        name="queries",
        unit="user_id",
        key="query",
        max_keys=20,
        domain=domain,
        counting=sh.Counting(progress=False),
    )


def _hours(store: Path, cells: int) -> sh.Series:
    frame = pl.DataFrame({"hour": np.arange(cells), "users": np.arange(cells) % 50 + 1})
    source = sh.Counts(frame, count="users", largest=1)
    return sh.create(
        store,
        source,
        name="t",
        key="hour",
        max_keys=1,
        domain=sh.Integers(cells),
        counting=sh.Counting(progress=False),
    )


def watched(path: str, sizes: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """Run a path again and again, in this process."""
    watch = Sampler()
    timings = []
    with tempfile.TemporaryDirectory() as directory:
        for run, work in enumerate(islice(PATHS[path](Path(directory), Sizes(**sizes)), runs + 1)):
            if run == 0:
                work()
                continue
            with watch.sampling():
                timings.append(timed(work))
    return {"timings": timings, "seconds": watch.seconds, "rings": watch.rings}


def starts(sizes: Sizes, runs: int) -> dict[str, Any]:
    """Start programs that look into a store."""
    all_seconds: Counter[str] = Counter()
    timings, rings = [], 0
    with tempfile.TemporaryDirectory() as directory:
        _series(Path(directory) / "store", sizes.small_log).release("public", level="0.1")
        for run in range(-1, runs):
            asked = [sys.executable, "-c", AT_START, f"{directory}/store"]
            done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=HERE)
            found = json.loads(done.stdout)
            if run >= 0:
                timings.append(found["took"])
                all_seconds.update(found["seconds"])
                rings += found["rings"]
    return {"timings": timings, "seconds": all_seconds, "rings": rings}


def summed_up(found: Mapping[str, Any]) -> dict[str, object]:
    """Time of a run, and who had which share of it."""
    timings = [Timing(*timing) for timing in found["timings"]]
    whole = sum(found["seconds"].values())
    largest = Counter(found["seconds"]).most_common(SHOWN)
    shares = {name: took / whole for name, took in largest}
    shares["all others"] = 1 - sum(shares.values())
    taken = {what: seconds(timings, what) for what in Timing._fields}
    return {"runs": len(timings), "rings": found["rings"], **taken, "shares": shares}


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=10)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the log that is counted")
    parser.add_argument("--published", type=int, default=10_000, help="rows of a release")
    parser.add_argument("--cells", type=int, default=100_000, help="of the workloads")
    options = options_of(parser)
    paths: dict[str, dict[str, Any]] = {}
    everything: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        logs = [str(Path(directory) / name) for name in ("log.parquet", "small.parquet")]
        for log, rows in zip(logs, (options.rows, min(options.rows, FEW_ROWS)), strict=True):
            generate(Path(log), rows)
        sizes = Sizes(*logs, options.published, options.cells)
        for path in [*PATHS, START]:
            # Counting is long enough to be seen in a few runs.
            runs = min(options.runs, 3) if path == "count and create" else options.runs
            found = (
                starts(sizes, runs)
                if path == START
                else in_child(__file__, work="watched", path=path, sizes=sizes._asdict(), runs=runs)
            )
            everything[path] = found
            paths[path] = summed_up(found)
            shown = [
                [path, "share of CPU"],
                *([name, f"{share:.1%}"] for name, share in paths[path]["shares"].items()),
            ]
            print(f"{table(shown)}\nCPU ms {milliseconds(paths[path]['cpu_s'])}\n", flush=True)
    asked = {name: getattr(options, name) for name in ("runs", "rows", "published", "cells")}
    asked["few_rows"] = min(options.rows, FEW_ROWS)
    report("where the time of each main path goes", options, asked | {"paths": paths}, everything)


if __name__ == "__main__" and not answered_parent({"watched": watched}):
    main()
