"""Where do dense and sparse releases cross, and how does each grow?

    python benchmarks/dense_sparse.py --out dense_sparse.json           (a few minutes)
    python benchmarks/dense_sparse.py --full --out dense_sparse.json    (10^8 cells, and 10^9 in chunks)

A full gradual release of m rounds, each finer than the one before. Dense: all d cells are held, each round draws the
next noise of every cell and keeps it (in one array; in chunks only m = 1, where nothing has to be kept). Sparse:
whole durable releases of a store on disk, from `open` to the frame, as many empty cells expected among the published.
Each contender runs in a process of its own: CPU and wall of the rounds, peak memory of the process. Same counts, same
levels, same thresholds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _child import answered_parent, in_child, span
from _measure import arguments, options_of, report, spread, table

import sparsehist as sh
from sparsehist import entropy
from sparsehist.histogram import effective_threshold, grid_step, round_to_grid, threshold_for_false_keys
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import Gaussian

FAMILY = Gaussian()
CHUNK = 10**7
ROUNDS = (1, 5, 20)
Row = dict[str, Any]
MEASURES = ("rounds_cpu_s", "rounds_wall_s", "peak_mb")
FASTER_TARGET = 100


def levels_of(m: int) -> list[Fraction]:
    """m levels, each finer than the one before, ending at 1/2."""
    return [Fraction(i + 1, 2 * m) for i in range(m)]


def counts_of(nonzero: int, published: int) -> np.ndarray:
    """Counts of which `published` are far above every threshold and the others far below."""
    low = np.arange(max(0, nonzero - published)) % 2 + 1
    return np.concatenate([np.arange(min(nonzero, published)) % 1000 + 5_000, low])


def threshold_of(level: Fraction, size: int) -> float:
    """The declared threshold that lets one empty cell through."""
    return threshold_for_false_keys(FAMILY, level, size, 1.0)


def dense(size: int, m: int, nonzero: int, published: int, *, chunked: bool) -> Row:
    """Every cell drawn in every round."""
    rng, shown = entropy.generator(), 0
    counts = counts_of(nonzero, published)
    measured: Row = {}
    step = CHUNK if chunked else size
    place = np.sort(entropy.seeded(1).choice(size, nonzero, replace=False, shuffle=False))
    with span(measured, "rounds"):
        for low in range(0, size, step):
            length = min(step, size - low)
            here = slice(*np.searchsorted(place, [low, low + length]))
            truth = np.zeros(length)
            truth[place[here] - low] = counts[here]
            past: dict[Fraction, Any] = {}
            for level in levels_of(m):
                noise = noise_at_level(FAMILY, level, past, length, rng=rng)
                past = {level: noise}
                grid = grid_step(FAMILY.std(level))
                above = np.flatnonzero(noise > effective_threshold(threshold_of(level, size), grid) - truth)
                shown += (truth[above] + round_to_grid(noise[above], grid)).size
    return measured | {"published": shown}


def sparse(domain: str, m: int, nonzero: int, published: int) -> Row:
    """Whole durable releases; making the series is not part of it."""
    cells = sh.Domain.parse(domain)
    numbers = np.arange(nonzero, dtype=np.int64)
    key = pl.Series("cell", numbers)
    if not domain.startswith("integers"):
        key = pl.select(pl.format("key {}", key).alias("cell")).to_series()
    frame = pl.DataFrame({"cell": key, "users": counts_of(nonzero, published)})
    measured: Row = {}
    shown = 0
    with tempfile.TemporaryDirectory() as directory:
        store = sh.open(Path(directory) / "store", create=True)
        counts = sh.Counts(frame, count="users", largest=1)
        sh.create(
            store,
            counts,
            name="visits",
            key="cell",
            max_keys=1,
            domain=cells,
            counting=sh.Counting(progress=False),
        )
        with span(measured, "rounds"):
            for number, level in enumerate(levels_of(m)):
                with sh.open(store.path) as opened:
                    released = opened.series("visits").release(
                        f"round_{number}", level=level, threshold=threshold_of(level, cells.size)
                    )
                    shown += len(released)
    return measured | {"published": shown}


def compared(sizes: Sequence[int], rounds: Sequence[int], nonzero: int, published: int, runs: int) -> list[Row]:
    """Dense and sparse side by side, in turns; beyond 10^8 cells the dense one in chunks, one round only."""
    rows = []
    for size in sizes:
        for m in rounds:
            chunked = size > 10**8
            if chunked and m > 1:
                continue
            cells = min(nonzero, size // 2)
            asked: Row = {"m": m, "nonzero": cells, "published": min(published, cells // 2)}
            found: dict[str, list[Row]] = {"dense": [], "sparse": []}
            for _ in range(runs):
                found["dense"].append(in_child(__file__, work="dense", size=size, chunked=chunked, **asked))
                found["sparse"].append(in_child(__file__, work="sparse", domain=f"integers({size})", **asked))
            rows.append(_row({"cells": f"{size:.0e}", **asked, "chunked": chunked}, found))
            _print(rows[-1])
    return rows


def grown(name: str, changes: Sequence[Row], base: Row, runs: int) -> list[Row]:
    """Sparse releases with one parameter changed after another."""
    rows = []
    for change in changes:
        asked = base | change
        found = {"sparse": [in_child(__file__, work="sparse", **asked) for _ in range(runs)]}
        rows.append(_row({"grows": name, **asked}, found))
        _print(rows[-1])
    return rows


def _row(asked: Row, found: dict[str, list[Row]]) -> Row:
    row: Row = dict(asked)
    for way, runs in found.items():
        row[way] = {what: spread([float(run[what]) for run in runs]) for what in MEASURES}
        row[way]["published_rows"] = runs[-1]["published"]
    if set(found) == {"dense", "sparse"}:
        pairs = list(zip(found["dense"], found["sparse"], strict=True))
        row["times_faster"] = {what: spread([a[what] / b[what] for a, b in pairs]) for what in MEASURES}
    row["all"] = found
    return row


def _print(row: Row) -> None:
    told = {name: value for name, value in row.items() if not isinstance(value, dict)}
    ways = [way for way in ("dense", "sparse", "times_faster") if way in row]
    lines = [[way, *(f"{row[way][what].median:.3g}" for what in MEASURES)] for way in ways]
    lines.insert(0, ["", "CPU s", "wall s", "peak MB"])
    print(f"\n{told}\n{table(lines)}", flush=True)


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--full", action="store_true", help="up to 10^8 cells in one array and 10^9 in chunks")
    parser.add_argument("--sizes", type=int, nargs="+", help="instead: cells of the domains")
    parser.add_argument("--rounds", type=int, nargs="+", default=list(ROUNDS))
    parser.add_argument("--nonzero", type=int, default=20_000)
    parser.add_argument("--published", type=int, default=5_000)
    options = options_of(parser)
    most = 8 if options.full else 6
    sizes = options.sizes or [10**e for e in range(5, most + 1)]
    rows = compared(sizes, options.rounds, options.nonzero, options.published, options.runs)
    base = {"domain": "integers(1000000000)", "m": 1, "nonzero": options.nonzero, "published": options.published}
    grows: dict[str, list[Row]] = {}
    if options.full:
        asked = {"m": 1, "nonzero": 10**6, "published": options.published}
        found: dict[str, list[Row]] = {"dense": [], "sparse": []}
        for _ in range(options.runs):
            found["dense"].append(in_child(__file__, work="dense", size=10**9, chunked=True, **asked))
            found["sparse"].append(in_child(__file__, work="sparse", domain="integers(1000000000)", **asked))
        rows.append(_row({"cells": "1e+09", **asked, "chunked": True}, found))
        _print(rows[-1])
    if not options.sizes:
        nonzeros = (10**4, 10**5, 10**6, 10**7) if options.full else (10**4, 10**5, 10**6)
        domains = [
            "integers(100000)",
            "integers(1000000000)",
            "integers(1000000000000000000)",
            "strings(max_bytes=32)",
        ]
        many = base | {"nonzero": 10**6}
        grows = {
            "domain": grown("domain", [{"domain": domain} for domain in domains], base, options.runs),
            "nonzero": grown("nonzero", [{"nonzero": n} for n in nonzeros], base, options.runs),
            "published": grown("published", [{"published": 10**e} for e in (3, 4, 5)], many, options.runs),
            "rounds": grown("rounds", [{"m": m} for m in (1, 5, 20, 50)], base, options.runs),
        }
    result = {"target": FASTER_TARGET, "compared": rows, "growth": grows}
    report("dense against sparse releases", options, result, {"runs": options.runs})


if __name__ == "__main__" and not answered_parent({"dense": dense, "sparse": sparse}):
    main()
