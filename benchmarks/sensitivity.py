"""How far is the stated sensitivity of a workload's strategy above what some unit does?

    python benchmarks/sensitivity.py --out sensitivity.json

Stated over found, in L1 and in L2. Found: boxes of cells, runs, random sets and sets grown cell by cell, each
improved by the cells that suit its signs (in L2, its sums) and then cell by cell; and sets annealed by exchanges of
cells: the greatest norm of any set of at most so many cells.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable

import numpy as np
from _measure import Timing, arguments, options_of, report, table, timed

from sparsehist.entropy import seeded
from sparsehist.workload import Marginals, MatrixWorkload, Prefix, Ranges, Workload, strategy_named

TARGET, TARGET_MS = 1.05, 50.0
SHAPES = (((20, 15), 2), ((3, 4, 30), 2), ((4, 5, 6), 2), ((10, 10, 10), 2), ((5, 5, 5, 5), 2))
SHAPES += (((3, 3, 3, 3, 3), 2), ((2,) * 7, 3))
KEPT = 12
CHAINS, EXCHANGES, HOT, COLD = 32, 700, 0.04, 0.003
"""Sets annealed side by side, exchanges for each of their cells, temperatures over the greatest norm of a cell."""


def cases(cells: int) -> list[tuple[str, Workload, str]]:
    """Strategies with their workloads, and what the workload is called."""
    rng = seeded(2)
    found: list[tuple[str, Workload, str]] = []
    for sizes, order in SHAPES:
        workload = Marginals(sizes, order)
        if workload.n_cells <= 1.5 * cells:
            found.append(("residual", workload, str(workload)))
    for length in (128, 700):
        found += [("spectral", one, str(one)) for one in (Ranges(min(length, cells)), Prefix(min(length, cells)))]
    found.append(("haar", Ranges(128), "ranges(128)"))
    matrices = {
        "100 of 64 cells, half of them": (rng.random((100, 64)) < 0.5).astype(np.float64),
        "200 of 64 cells, 5 % of them": (rng.random((200, 64)) < 0.05).astype(np.float64),
        "64 of 64 cells, signs": rng.choice([-1.0, 1.0], (64, 64)),
    }
    found += [("optimised", MatrixWorkload(matrix), name) for name, matrix in matrices.items()]
    return [*found, ("direct", MatrixWorkload(matrices["64 of 64 cells, signs"]), "64 of 64 cells, signs")]


def starts(sizes: tuple[int, ...], keys: int, number: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Boxes filled in order, and as many runs and random sets."""
    cells = int(np.prod(sizes))
    found = []
    for box in itertools.product(*(range(1, size + 1) for size in sizes)) if len(sizes) > 1 else ():
        volume = int(np.prod(box))
        if volume >= keys and all(side == 1 or volume // side * (side - 1) < keys for side in box):
            inside = np.unravel_index(np.arange(volume), box)
            found.append(np.ravel_multi_index(inside, sizes)[:keys])
    found = [found[place] for place in rng.permutation(len(found))[:number]]
    for _ in range(number):
        stride = 1 + int(rng.integers(max(1, cells // keys)))
        run = np.unique((rng.integers(cells) + stride * np.arange(keys)) % cells)
        found += [run] * (run.size == keys) + [rng.choice(cells, keys, replace=False)]
    return found


def reached(rows: np.ndarray, sets: list[np.ndarray], keys: int, *, l1: bool) -> float:
    """The greatest norm of a set of at most so many cells that one of these, or one grown, is improved to."""

    def size(sums: np.ndarray) -> np.ndarray:
        norms: np.ndarray = np.abs(sums).sum(axis=0) if l1 else np.sqrt(np.square(sums).sum(axis=0))
        return norms

    ends: dict[tuple[int, ...], float] = {}
    for start in [*sets, *grown(rows, keys, len(sets) // 3, size), *annealed(rows, keys, size)]:
        chosen, best = start, -1.0
        while (norm := float(size(rows[:, chosen].sum(axis=1)))) > best * (1 + 1e-12):
            best, kept = norm, tuple(sorted(chosen.tolist()))
            sums = rows[:, chosen].sum(axis=1)
            gain = rows.T @ (np.sign(sums) if l1 else sums)
            chosen = np.argsort(-gain, kind="stable")[:keys]
            chosen = chosen[gain[chosen] > 0.0]
        ends[kept] = best
    greatest = max(ends.values())
    for cells in sorted(ends, key=ends.__getitem__)[-KEPT:]:
        inside, best = list(cells), 0.0
        while (norm := float(size(rows[:, inside].sum(axis=1)))) > best * (1 + 1e-12):
            best = norm
            for place in range(len(inside) + (len(inside) < keys)):
                rest = [cell for at, cell in enumerate(inside) if at != place]
                sums = rows[:, rest].sum(axis=1)
                norms = size(sums[:, np.newaxis] + rows)
                norms[rest] = 0.0
                another = int(np.argmax(norms))
                inside = rest if rest and size(sums) > norms[another] else [*rest[:place], another, *rest[place:]]
        greatest = max(greatest, best)
    return greatest


def grown(rows: np.ndarray, keys: int, number: int, size: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """Sets that begin with one cell and take the best next one; from the cells of the greatest norms."""
    found = []
    for first in np.argsort(-size(rows), kind="stable")[:number].tolist():
        chosen, sums = [first], rows[:, first].copy()
        while len(chosen) < keys:
            norms = size(sums[:, np.newaxis] + rows)
            norms[chosen] = 0.0
            chosen.append(int(np.argmax(norms)))
            sums += rows[:, chosen[-1]]
        found.append(np.array(chosen))
    return found


def annealed(rows: np.ndarray, keys: int, size: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """Random sets after exchanges of a cell for another or for none, taken more rarely the more they lose."""
    rng, chain = seeded(8), np.arange(CHAINS)
    cells = np.concatenate([rows.T, np.zeros((keys, len(rows)))])  # the last are none
    order = rng.permuted(np.tile(np.arange(len(cells)), (CHAINS, 1)), axis=1)  # the set, and what is outside of it
    sums = cells[order[:, :keys]].sum(axis=1)
    norms, scale = size(sums.T), float(size(rows).max())
    best, kept = norms.copy(), order[:, :keys].copy()
    for temperature in scale * np.geomspace(HOT, COLD, EXCHANGES * keys):
        inside, outside = rng.integers(keys, size=CHAINS), rng.integers(keys, len(cells), size=CHAINS)
        one, another = order[chain, inside], order[chain, outside]
        moved = sums + cells[another] - cells[one]
        reached = size(moved.T)
        taken = np.flatnonzero(rng.exponential(temperature, CHAINS) > norms - reached)
        sums[taken], norms[taken] = moved[taken], reached[taken]
        order[taken, inside[taken]], order[taken, outside[taken]] = another[taken], one[taken]
        better = np.flatnonzero(norms > best)
        best[better], kept[better] = norms[better], order[better, :keys]
    return [one[one < rows.shape[1]] for one in kept]


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument("--max-keys", type=int, nargs="+", default=[2, 5, 20, 60])
    parser.add_argument("--starts", type=int, default=60, help="sets of each kind that the search begins with")
    parser.add_argument("--cells", type=int, default=1000, help="most cells of a workload")
    options = options_of(parser)
    rows: list[dict[str, object]] = []
    timings: dict[str, list[Timing]] = {}
    shown = [["", "", "cells per unit", "stated", "found", "ratio", "ms"]]
    for (name, workload, title), keys in itertools.product(cases(options.cells), options.max_keys):
        strategy = strategy_named(name, workload)
        written = strategy.apply(np.eye(workload.n_cells))
        for norm in ("L1", "L2"):
            held: list[float] = []
            stated = {
                "L1": lambda made=strategy, keys=keys, held=held: held.append(made.l1_sensitivity(keys)),
                "L2": lambda made=strategy, keys=keys, held=held: held.append(made.sensitivity(keys).l2),
            }[norm]
            timings[f"{norm}, {name}, {title}, {keys}"] = [timed(stated) for _ in range(options.runs)]
            milliseconds = statistics.median(1e3 * one.cpu_s for one in timings[f"{norm}, {name}, {title}, {keys}"])
            most = min(keys, workload.n_cells)
            found = reached(written, starts(workload.columns, most, options.starts, seeded(5)), most, l1=norm == "L1")
            row = {
                "norm": norm,
                "strategy": name,
                "workload": title,
                "max_keys": keys,
                "stated": held[0],
                "found": found,
            }
            rows.append(row | {"ratio": held[0] / found, "milliseconds": milliseconds})
            figures = [f"{held[0]:.3f}", f"{found:.3f}", f"{held[0] / found:.3f}", f"{milliseconds:.0f}"]
            shown.append([norm, f"{name}, {title}", str(keys), *figures])
    print(table(shown))
    result = {"target": TARGET, "target_ms": TARGET_MS, "rows": rows}
    report("stated and reached sensitivities", options, result, timings)


if __name__ == "__main__":
    main()
