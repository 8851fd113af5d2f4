"""How does time grow with nonzero and with tracked cells, with releases, and in how little memory does a log count?

    python benchmarks/scale.py --out scale.json            (10^6 cells; a minute)
    python benchmarks/scale.py --full --out scale.json     (10^8 nonzero, 10^7 tracked, 50 million rows; half an hour)

- nonzero: making a series of given counts, and its first durable release of 5,000 rows.
- tracked: the second durable release of a series whose first published everything, less a round that tracks nothing.
  Target: exponent of the growth between 10^6 and 10^7 cells at most 1.05; at most 100 bytes of memory a tracked cell
  beyond the keys (which are integers here, 8 bytes each).
- releases: the tenth and the hundredth release of one path. Target: at most 1.5 times as long.
- memory: counting a log with its memory capped well below the data, on DuckDB, which spills, beside no cap.
  Target: 50 million rows within 4 GiB.

Each runs in a process of its own.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _child import answered_parent, in_child, resident_mb, span
from _logs import generate
from _measure import arguments, options_of, report, spread, table

import sparsehist as sh

HERE = Path(__file__).resolve().parent
DOMAIN = sh.Integers(10**12)
PUBLISHED = 5_000
EXPONENT_TARGET, BYTES_TARGET, HUNDREDTH_TARGET, MEMORY_TARGET_MB = 1.05, 100, 1.5, 4096
Found = dict[str, Any]


def made(directory: str, high: int, low: int) -> sh.Series:
    """A series with `high` cells far above every threshold and `low` far below."""
    users = np.concatenate([np.arange(high) % 1000 + 5_000, np.arange(low) % 2 + 1])
    frame = pl.DataFrame({"cell": np.arange(high + low), "users": users})
    counts = sh.Counts(frame, count="users", largest=1)
    store = str(Path(directory) / "store")
    return sh.create(
        store,
        counts,
        name="visits",
        key="cell",
        max_keys=1,
        domain=DOMAIN,
        counting=sh.Counting(progress=False),
    )


def nonzero(cells: int) -> Found:
    """Make a series and release it once."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as directory:
        with span(found, "create"):
            series = made(directory, PUBLISHED, cells - PUBLISHED)
        with span(found, "release"):
            released = series.release("first", level="1/10", threshold=1_000)
        assert len(released) == PUBLISHED
    return found


def make_tracked(directory: str, cells: int) -> Found:
    """Prepare a series of which all but a few cells are tracked."""
    found: Found = {}
    series = made(directory, cells, 10)
    with span(found, "release"):
        series.release("first", level="1/10", threshold=1_000)
    return found


def tracked(directory: str) -> Found:
    """Release it again in a process that has not seen it: what is resident grows by what the round needs."""
    found: Found = {}
    series = sh.open(Path(directory) / "store").series("visits")
    before = resident_mb()
    with span(found, "release"):
        released = series.release("second", level="1/5", threshold=1_000)
    return found | {"before_mb": before, "published": len(released)}


def releases(number: int, cells: int) -> Found:
    """Release one path again and again, at levels in scrambled order."""
    times: list[Found] = []
    with tempfile.TemporaryDirectory() as directory:
        series = made(directory, cells, 10)
        for release in range(number):
            found: Found = {}
            with span(found, "release"):
                series.release(f"r{release}", level=f"{1 + (37 * release) % 101}/100", threshold=1_000)
            times.append(found)
    return {"times": times}


def memory(log: str, limit: str | None) -> Found:
    """Count a log."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as directory, span(found, "create"):
        sh.create(
            str(Path(directory) / "store"), log, name="queries", unit="user_id", key="query", max_keys=20,
            domain="strings(max_bytes=32)", counting=sh.Counting(memory_limit=limit, progress=False),
        )  # fmt: skip
    return found


def grown_by_tracked(sizes: Sequence[int], runs: int) -> Found:
    """Second releases by tracked cells, with the exponent of their growth and the memory a cell takes."""
    seen: dict[int, list[Found]] = {size: [] for size in (0, *sizes)}
    for _ in range(runs):
        for size, found in seen.items():
            with tempfile.TemporaryDirectory() as directory:
                in_child(__file__, work="make_tracked", directory=directory, cells=size)
                found.append(in_child(__file__, work="tracked", directory=directory))
    empty = {what: spread([run[what] for run in seen[0]]).median for what in ("release_cpu_s", "release_wall_s")}
    rows = []
    for size in sizes:
        net = {what: spread([run[what] - empty[what] for run in seen[size]]) for what in empty}
        beyond = [run["peak_mb"] - run["before_mb"] for run in seen[size]]
        nothing = spread([run["peak_mb"] - run["before_mb"] for run in seen[0]]).median
        cell = spread([(used - nothing) * 2**20 / size for used in beyond])
        rows.append(
            {"tracked": size, "net": net, "bytes_a_cell": cell, "peak_mb": spread([r["peak_mb"] for r in seen[size]])}
        )
        print(
            f"{size:>11,} tracked: {net['release_wall_s'].median:.2f} s, {cell.median:.0f} bytes per cell", flush=True
        )
    exponents = [
        {"from": below["tracked"], "to": above["tracked"]} | {what: _exponent(below, above, what) for what in empty}
        for below, above in pairwise(rows)
    ]
    print("exponents:", exponents, flush=True)
    return {"empty": empty, "rows": rows, "exponents": exponents, "all": seen}


def _exponent(below: Found, above: Found, what: str) -> float:
    """How the net time grows with tracked cells; NaN where it is too short to be told from an empty round."""
    times = [row["net"][what].median for row in (below, above)]
    if min(times) <= 0:
        return math.nan
    return math.log(times[1] / times[0]) / math.log(above["tracked"] / below["tracked"])


def later_releases(number: int, cells: int) -> Found:
    """The last releases of a path beside those around the tenth."""
    times = in_child(__file__, work="releases", number=number, cells=cells)["times"]
    middle = range(min(7, number // 2), min(13, number))
    last = range(max(0, number - 6), number)
    found: Found = {"cells": cells, "number": number}
    for what in ("release_cpu_s", "release_wall_s"):
        tenth, hundredth = (spread([times[i][what] for i in which]) for which in (middle, last))
        found[what] = {"tenth": tenth, "last": hundredth, "ratio": hundredth.median / tenth.median}
    print(f"release {number} over release 10, {cells:,} cells: CPU {found['release_cpu_s']['ratio']:.2f}, "
          f"wall {found['release_wall_s']['ratio']:.2f}", flush=True)  # fmt: skip
    return found | {"times": times}


def capped(rows: int, limit: str, runs: int) -> list[Found]:
    """Counting with and without a cap on memory."""
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as directory:
        log = str(Path(directory) / "log.parquet")
        generate(Path(log), rows)
        for capped_at in (None, limit):
            seen = [in_child(__file__, work="memory", log=log, limit=capped_at) for _ in range(runs)]
            row: Found = {"limit": capped_at, "rows": rows}
            row |= {
                what: spread([run[what] for run in seen]) for what in ("create_cpu_s", "create_wall_s", "peak_mb")
            }
            found.append(row | {"all": seen})
            print(f"{rows:,} rows, limit {capped_at}: {row['create_cpu_s'].median:.1f} s of CPU, "
                  f"peak {row['peak_mb'].median:,.0f} MB", flush=True)  # fmt: skip
    return found


def main() -> None:
    """Measure, print, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--nonzero", type=int, nargs="+")
    parser.add_argument("--tracked", type=int, nargs="+")
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--cells", type=int, default=10_000, help="tracked while a path is released again and again")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--limit", default="1GB", help="of memory, for counting on DuckDB")
    options = options_of(parser)
    nonzeros = options.nonzero or ([10**6, 10**7, 10**8] if options.full else [10**5, 10**6])
    trackeds = options.tracked or ([10**5, 10**6, 10**7] if options.full else [10**5, 10**6])
    rows = options.rows or (50_000_000 if options.full else 1_000_000)
    by_nonzero: list[Found] = []
    for cells in nonzeros:
        seen = [in_child(__file__, work="nonzero", cells=cells) for _ in range(options.runs if cells < 10**8 else 1)]
        row: Found = {"nonzero": cells} | {what: spread([run[what] for run in seen]) for what in seen[0]}
        by_nonzero.append(row | {"all": seen})
        made_in, released_in = row["create_wall_s"].median, 1e3 * row["release_wall_s"].median
        peak = row["peak_mb"].median
        print(f"{cells:>11,} nonzero: made in {made_in:.2f} s, released in {released_in:.0f} ms, peak {peak:,.0f} MB")
    by_tracked = grown_by_tracked(trackeds, options.runs)
    again = later_releases(options.releases, options.cells)
    in_little = capped(rows, options.limit, 1)
    result = {
        "targets": {"exponent": EXPONENT_TARGET, "bytes_a_cell": BYTES_TARGET, "hundredth": HUNDREDTH_TARGET,
                    "memory_mb": MEMORY_TARGET_MB},
        "nonzero": by_nonzero, "tracked": by_tracked, "releases": again, "capped": in_little,
    }  # fmt: skip
    print(table([["target", "value"], *([name, str(value)] for name, value in result["targets"].items())]))
    report("how time and memory grow", options, result, {"runs": options.runs})


WORK = {"nonzero": nonzero, "make_tracked": make_tracked, "tracked": tracked, "releases": releases, "memory": memory}

if __name__ == "__main__" and not answered_parent(WORK):
    main()
