"""What does a release cost all in all, next to writing the published table?

    python benchmarks/release.py --runs 30 --out release.json

All in all: `sh.open`, `store.series`, `release` (read, draw, commit durably) and `write_parquet`, of 10^4 and of 10^5
rows, as the first, second and tenth release of its series. In turns with it, in the same process after imports:

- Polars writing the published table (`frame.write_parquet`). Target: at most 3 times that, plus 30 ms;
- a floor: as many files and directories synchronised, with the same bytes, and SQLite opening a copy of the same
  state, committing one changed row as durably, and closing it.

Where the time goes is measured apart, by spans around the seams of the package, in as many runs.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
from _measure import (
    Spread,
    Timings,
    arguments,
    milliseconds,
    options_of,
    ratio,
    report,
    seconds,
    spread,
    summary,
    table,
    timed,
)
from _snapshot import Snapshot
from _spans import Spans, Written, spans

import sparsehist as sh

LEVELS = ("1/10", "1/100", "1/2", "1/50", "1/4", "1/200", "1", "1/20", "1/5", "3/20")
"""In the order in which they are released; the last one is timed."""
WHICH = {"first": 1, "second": 2, "tenth": 10}
TIMES, PLUS_S = 3, 0.03


class Published:
    """A store of which a release can be made, timed and forgotten."""

    def __init__(self, root: Path, rows: int, number: int) -> None:
        """Make a series of which `rows` keys are published, and all releases but the last of `number`."""
        self.store, self.out = root / "store", root / "out"
        self.out.mkdir(parents=True)
        self.levels = [*LEVELS[: number - 1], LEVELS[-1]]
        cell = np.arange(3 * rows)
        counts = np.where(cell < rows, 5_000 + cell % 1_000, 1 + cell % 3)
        frame = pl.select(query=pl.format("how to fix page {}", pl.Series(cell)), users=pl.Series(counts))
        domain = sh.Strings(max_bytes=32)
        source = sh.Counts(frame, count="users", largest=1)
        sh.create(
            self.store,
            source,
            name="visits",
            key="query",
            max_keys=1,
            domain=domain,
            counting=sh.Counting(progress=False),
        )
        for level in self.levels[:-1]:
            self._release(level)
        self._snapshot = Snapshot(self.store, self.out)
        self.frame = self.release().frame
        with spans() as seen:
            self.put_back()
            self.release()
        self.synchronised = seen.synchronised
        self.put_back()

    def release(self) -> sh.Release:
        """All in all, as a process does that lives for one release."""
        return self._release(self.levels[-1])

    def put_back(self) -> None:
        """Forget that release."""
        self._snapshot.put_back()

    def write_table(self) -> None:
        """What the published rows take without any privacy."""
        self.frame.write_parquet(self.out / "plain.parquet")

    def _release(self, level: str) -> sh.Release:
        name = f"at_{level.replace('/', '_')}"
        with sh.open(self.store) as store:
            released = store.series("visits").release(name, level=level, threshold=1_000)
        released.write_parquet(self.out / f"{name}.parquet")
        return released


def synchronise(written: Sequence[Written], directory: Path) -> None:
    """Write, synchronise and rename as much as a release did."""
    for size in (item.size for item in written if not item.directory):
        temporary = directory / "file.new"
        with temporary.open("wb") as file:
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / "file")
    descriptor = os.open(directory, os.O_RDONLY)
    for _ in range(sum(item.directory for item in written)):
        os.fsync(descriptor)
    os.close(descriptor)


def commit_one_row(state: Path) -> None:
    """What SQLite needs to open a state, change next to nothing durably, and let go."""
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = extra")
        connection.execute("update store set generation = generation + 1")


def measured(published: Published, place: Path, runs: int) -> tuple[Timings, list[Spans]]:
    """Time release, table and floor in turns, then the release again with spans."""
    shutil.copy(published.store / "state.sqlite", place / "state.sqlite")
    contenders: dict[str, Callable[[], object]] = {
        "write the table": published.write_table,
        "release, all in all": published.release,
        "floor: files and fsync": lambda: synchronise(published.synchronised, place),
        "floor: SQLite": lambda: commit_one_row(place / "state.sqlite"),
    }
    timings: Timings = {name: [] for name in contenders}
    for run in range(-2, runs):
        for name, work in contenders.items():
            timing = timed(work)
            if run >= 0:
                timings[name].append(timing)
        published.put_back()
    phases = []
    for _ in range(runs):
        with spans() as seen:
            published.release()
        published.put_back()
        phases.append(seen)
    return timings, phases


def allowance(timings: Timings, what: str) -> Spread:
    """Seconds that remain of 3 times the table plus 30 ms; negative when the target is missed."""
    table_runs, release_runs = timings["write the table"], timings["release, all in all"]
    pairs = zip(table_runs, release_runs, strict=True)
    return spread([TIMES * getattr(plain, what) + PLUS_S - getattr(whole, what) for plain, whole in pairs])


def show(title: str, timings: Timings, phases: Sequence[Spans], published: Published) -> dict[str, object]:
    """Print one table and one breakdown; return what they say."""
    print(f"\n{title}, {published.frame.height} rows")
    rows = [["", "CPU ms", "wall ms"]]
    for name, runs in timings.items():
        rows.append([name, *(milliseconds(seconds(runs, what)) for what in ("cpu_s", "wall_s"))])
    left = {what: allowance(timings, what) for what in ("cpu_s", "wall_s")}
    rows.append([f"left of {TIMES} × table + 30 ms", *(milliseconds(found) for found in left.values())])
    print(table(rows))
    by_phase = {
        name: {what: spread([getattr(seen, what)[name] for seen in phases]) for what in left}
        for name in {name: None for seen in phases for name in seen.wall_s}
    }
    by_phase = dict(sorted(by_phase.items(), key=lambda item: -item[1]["cpu_s"].median))
    rows = [[name, *(milliseconds(found[what]) for what in left)] for name, found in by_phase.items()]
    print(table([["phase", "CPU ms", "wall ms"], *rows]))
    sizes = [item.size for item in published.synchronised if not item.directory]
    n_directories = len(published.synchronised) - len(sizes)
    print(f"synchronised: {len(sizes)} files, {sum(sizes)} bytes, {n_directories} directories, besides SQLite's own")
    return {
        "rows": published.frame.height,
        "left_of_target_s": left,
        "ratio_to_table": {what: ratio(timings, "release, all in all", "write the table", what) for what in left},
        "medians": summary(timings),
        "phases": by_phase,
        "synchronised": {"files": len(sizes), "bytes": sum(sizes), "directories": n_directories},
    }


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=30)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5])
    parser.add_argument("--directory", type=Path, help="where the stores are made; a temporary one by default")
    options = options_of(parser)
    result: dict[str, object] = {}
    everything: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for rows in options.rows:
            for which, number in WHICH.items():
                place = Path(directory) / f"{rows}-{which}"
                published = Published(place, rows, number)
                timings, phases = measured(published, place, options.runs)
                title = f"{which} release"
                result[f"{title} of {rows} rows"] = show(title, timings, phases, published)
                by_run = [{"wall_s": seen.wall_s, "cpu_s": seen.cpu_s} for seen in phases]
                everything[f"{title} of {rows} rows"] = {"timings": timings, "phases": by_run}
    target = f"{TIMES} × writing the table + {PLUS_S} s"
    question = "a release all in all, next to writing the published table"
    report(question, options, {"target": target, "cases": result}, everything)


if __name__ == "__main__":
    main()
