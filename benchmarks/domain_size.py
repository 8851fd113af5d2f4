"""Does a round know the size of its domain, or the number of nonzero cells?

    python benchmarks/domain_size.py --runs 30 --out domain_size.json

Arithmetic: the third of three rounds out of order over 10^6, 10^12, 10^18 and 10^69 cells (all UTF-8 strings of 32
bytes). Thresholds come from the same expected number of false keys, and the same nonzero cells stand at the same
distances from the threshold, so that published cells and candidates are equal. Target: CPU medians within 10 %.

Durable: whole releases of a store on disk, commit included, of series with 10^5, 10^6 and 10^7 nonzero cells of
which the same 5,000 are published; all others are counted once or twice, far below the threshold. Target: within
20 %.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _measure import (
    Timings,
    arguments,
    figure,
    in_turns,
    milliseconds,
    options_of,
    ratio,
    report,
    seconds,
    summary,
    table,
    timed,
)
from _snapshot import Snapshot
from scale import made

import sparsehist as sh
from sparsehist import entropy
from sparsehist.histogram import draw_round, effective_threshold, grid_step, threshold_for_false_keys
from sparsehist.noise import Gaussian

FAMILY = Gaussian(sensitivity=1.0)
DOMAINS = {"10^6": 10**6, "10^12": 10**12, "10^18": 10**18, "UTF-8 of 32 bytes": sh.Strings(max_bytes=32).size}
PAST, NEW = (Fraction(1, 100), Fraction(1, 2)), Fraction(1, 10)
NONZERO_CELLS, GROUPS, TRACKED = 20_000, 500, 5_000
WARM = 2


class Round(NamedTuple):
    """A round to be timed.

    Attributes:
        work: Draws it once and says how many cells newly exceed.
        threshold: Effective, in counts.
    """

    work: Callable[[], int]
    threshold: float


def arithmetic(size: int, false_keys: float, *, seed: int) -> Round:
    """The third round over a domain of that size; the seed says where the nonzero cells stand."""

    def threshold(level: Fraction) -> float:
        step = grid_step(FAMILY.std(level))
        return effective_threshold(threshold_for_false_keys(FAMILY, level, size, false_keys), step)

    # Groups from 0 to 6 standard deviations below the new threshold. Past thresholds are high enough for a cell
    # at one of these distances to have the same history in every domain.
    now = threshold(NEW)
    past = [(level, max(threshold(level), now + (5 * FAMILY.std(level) if level < NEW else 0))) for level in PAST]
    cells = np.bincount(entropy.seeded(seed).integers(0, GROUPS, NONZERO_CELLS), minlength=GROUPS)
    counts = np.append(0.0, now - np.arange(GROUPS) * (6 * FAMILY.std(NEW) / GROUPS))
    neighbours = {level: FAMILY.sample(TRACKED, level, rng=entropy.seeded(seed)) for level in PAST}
    sizes = [size - NONZERO_CELLS - TRACKED, *cells.tolist()]

    def work() -> int:
        drawn = draw_round(
            FAMILY,
            past,
            NEW,
            now,
            neighbours=neighbours,
            n_tracked=TRACKED,
            n_untracked=sizes,
            counts=counts,
            rng=entropy.generator(),
        )
        return drawn.new.values.size

    return Round(work, now)


def apart(timings: Timings, what: str = "cpu_s") -> float:
    """How far the slowest contender is from the quickest, by medians."""
    medians = [seconds(runs, what).median for runs in timings.values()]
    return max(medians) / min(medians) - 1


class Prepared:
    """A store with one series: `published` cells counted thousands of times, the others once or twice."""

    def __init__(self, directory: Path, cells: int, published: int) -> None:
        """Count nothing: the counts are given."""
        directory.mkdir()
        made(str(directory), published, cells - published)
        self.path, self.published = directory / "store", published
        self.store, self.snapshot = sh.open(self.path), Snapshot(self.path)

    def release(self, level: str) -> None:
        """Release the series once, under a threshold that only the high counts pass."""
        released = self.store.series("visits").release(f"at_{level}", level=f"1/{level}", threshold=1_000)
        assert len(released) == self.published


def durable(sizes: Sequence[int], published: int, runs: int, place: Path | None) -> dict[str, Timings]:
    """Time the first release of a series, and the one between two others, for every size in turns."""
    found: dict[str, Timings] = {}
    with tempfile.TemporaryDirectory(dir=place) as directory:
        stores = {f"{size:,}": Prepared(Path(directory) / str(size), size, published) for size in sizes}
        for which, before in (("first release", ()), ("third release, level between", ("100", "2"))):
            for prepared in stores.values():
                for level in before:
                    prepared.release(level)
                prepared.snapshot = Snapshot(prepared.path)
            timings: Timings = {name: [] for name in stores}
            for run in range(-WARM, runs):
                for name, prepared in stores.items():
                    timing = timed(lambda prepared=prepared: prepared.release("10"))
                    prepared.snapshot.put_back()
                    if run >= 0:
                        timings[name].append(timing)
            found[which] = timings
    return found


def show(title: str, timings: Timings, target: float) -> dict[str, object]:
    """Print one table; return what it says."""
    base = next(iter(timings))
    rows = [["", "CPU ms", "ratio", "wall ms", "ratio"]]
    for name, runs in timings.items():
        rows.append([name])
        for what in ("cpu_s", "wall_s"):
            rows[-1] += [milliseconds(seconds(runs, what)), figure(ratio(timings, name, base, what))]
    print(f"\n{title}: CPU medians {100 * apart(timings):.1f} % apart, target {100 * target:.0f} %")
    print(table(rows))
    return {
        "target": target,
        "apart": {"cpu_s": apart(timings), "wall_s": apart(timings, "wall_s")},
        "medians": summary(timings),
    }


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=30)
    parser.add_argument("--false-keys", type=float, default=5_000.0)
    parser.add_argument("--cells", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--published", type=int, default=5_000)
    parser.add_argument("--directory", type=Path, help="where the stores are made; a temporary one by default")
    parser.add_argument("--seed", type=int, default=1)
    options = options_of(parser)
    rounds = {name: arithmetic(size, options.false_keys, seed=options.seed) for name, size in DOMAINS.items()}
    published = {name: statistics.fmean(a_round.work() for _ in range(10)) for name, a_round in rounds.items()}
    timings = in_turns({name: a_round.work for name, a_round in rounds.items()}, options.runs)
    print("newly published on average:", ", ".join(f"{name}: {n:.0f}" for name, n in published.items()))
    result: dict[str, object] = {
        "arithmetic": {
            **show("arithmetic, by size of the domain", timings, 0.1),
            "newly_published": published,
            "thresholds": {name: a_round.threshold for name, a_round in rounds.items()},
        },
    }
    all_durable = durable(options.cells, options.published, options.runs, options.directory)
    result["durable"] = {
        which: show(f"durable round, by nonzero cells: {which}", found, 0.2) for which, found in all_durable.items()
    }
    question = "a round by size of the domain and by number of nonzero cells"
    report(question, options, result, {"arithmetic": timings, "durable": all_durable})


if __name__ == "__main__":
    main()
