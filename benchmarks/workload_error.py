"""How far above its lower bound is the error of prefix sums and of all ranges?

    python benchmarks/workload_error.py --out workload_error.json

Mean squared error of a query for noise scaled to the certified sensitivity, over what no factorization beats: the
singular-value bound at one cell per unit (`sparsehist.workload.lower_bound`).
Nothing is drawn. Beside the strategies stands one that is optimised numerically, where that is
feasible, and what others published: the square root with columns of norm 1 for prefix sums, ResidualPlanner+ for
prefix sums along the columns of marginals. Target at one cell, from 256 cells on: prefix sums 1.05, ranges 1.02.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product

from _measure import arguments, options_of, report, table, timed
from _published import BOUND, LIMIT, normalised_square_root, planner_plus, prefix_marginals

from sparsehist.workload import Candidate, Prefix, Ranges, Workload, choose, compare, lower_bound
from sparsehist.workload.strategies.optimised import Optimised

KINDS: dict[str, type[Prefix | Ranges]] = {"prefix sums": Prefix, "all ranges": Ranges}
TARGETS = {"prefix sums": 1.05, "all ranges": 1.02}
DENSE = 256
MARGINALS = (((64,), 1), ((10, 10, 10), 1), ((8, 8, 8), 2), ((20, 20), 2))


def priced(workload: Workload, max_keys: int) -> list[dict[str, object]]:
    """Every strategy at one size, best first."""
    chosen = choose(workload, max_keys).name
    found = compare(workload, max_keys)
    bound = lower_bound(workload) if max_keys == 1 else None
    if workload.n_cells <= DENSE:
        dense = Optimised.for_unit(workload, max_keys)
        sensitivity = dense.l2(max_keys)
        if dense.name not in [candidate.strategy for candidate in found]:
            error = sensitivity**2 * dense.mean_variance()
            found.append(Candidate(dense.name, error, sensitivity, bound))
    return [
        {
            "strategy": candidate.strategy,
            "chosen": candidate.strategy == chosen,
            "mean_squared_error": candidate.mean_squared_error,
            "ratio": candidate.ratio,
            "sensitivity": candidate.sensitivity,
        }
        for candidate in sorted(found, key=lambda one: one.mean_squared_error)
    ]


def above_logarithm(error: float, cells: int) -> float:
    """The root of the mean squared error of prefix sums over what it grows by, ln(n)/π."""
    return math.sqrt(error) - math.log(cells) / math.pi


def beside_published(rows: list[dict[str, object]]) -> dict[str, object]:
    """Ours and theirs at one cell per unit."""
    prefix = []
    for row in rows:
        if row["chosen"] and row["workload"] == "prefix sums" and row["max_keys"] == 1 and row["cells"] >= DENSE:
            theirs = above_logarithm(normalised_square_root(row["cells"]), row["cells"])
            ours = above_logarithm(row["mean_squared_error"], row["cells"])
            prefix.append({"cells": row["cells"], "ours": ours, "normalised_square_root": theirs})
    marginals = []
    for sizes, order in MARGINALS:
        workload = prefix_marginals(sizes, order)
        bound = lower_bound(workload)
        ours = compare(workload, 1)[0]
        theirs = planner_plus(sizes, order) / bound
        marginals.append({"sizes": sizes, "order": order, "ours": ours.ratio, "residual_planner_plus": theirs})
    return {"bound": BOUND, "limit": LIMIT, "prefix": prefix, "marginals": marginals}


def main() -> None:
    """Price, print a table, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--exponents", type=int, nargs="+", default=[8, 9, 10, 12, 14, 16, 18, 20])
    parser.add_argument("--max-keys", type=int, nargs="+", default=[1, 20])
    options = options_of(parser)
    rows: list[dict[str, object]] = []
    timings = {}
    for max_keys, (kind, build), exponent in product(options.max_keys, KINDS.items(), options.exponents):
        workload, held = build(2**exponent), []
        work = partial(lambda held, *what: held.extend(priced(*what)), held, workload, max_keys)
        timings[f"{kind}, {2**exponent} cells, {max_keys} a unit"] = timed(work)
        rows += [{"workload": kind, "cells": 2**exponent, "max_keys": max_keys} | row for row in held]
    shown = [["", "cells", "per unit", "ratio", "sensitivity"]]
    for row in rows:
        name = f"{row['workload']}: {row['strategy']}{' *' if row['chosen'] else ''}"
        figures = [f"{row['ratio'] or math.nan:.3f}", f"{row['sensitivity']:.3f}"]
        shown.append([name, f"{row['cells']:,}", str(row["max_keys"]), *figures])
    print(table(shown))
    print("* what is chosen")
    found: list[dict[str, object]] = []
    timings["published"] = timed(lambda: found.append(beside_published(rows)))
    result = {"targets": TARGETS, "rows": rows, "published": found[0]}
    report(__doc__.splitlines()[0], options, result, timings)


if __name__ == "__main__":
    main()
