"""How large is the stated standard deviation of a workload, beside that of commit 66efc52?

    python benchmarks/sensitivity.py --out sensitivity.json

Root of the mean variance of a query for noise of standard deviation 1 per unit of sensitivity, Gaussian, strategy
"auto". The sensitivities of 66efc52 were computed to within 5 % of the best found; reference values in
results/sensitivity_66efc52.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from _measure import Timing, arguments, options_of, report, table, timed

from sparsehist.entropy import seeded
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Strategy,
    Total,
    Union,
    Workload,
    choose,
)

REFERENCE = Path(__file__).parent / "results" / "sensitivity_66efc52.json"
WITHIN, TARGET = 1.02, 0.9


def workloads() -> dict[str, Workload]:
    """Each workload by the name it has in the reference values."""
    sizes = {"20x15, up to 2": ((20, 15), 2), "10x10x10, all": ((10,) * 3, 3), "2^7, up to 3": ((2,) * 7, 3)}
    return {
        **{f"{kind.word}({n})": kind(n) for kind in (Identity, Total, Prefix, Ranges) for n in (64, 1024)},
        **{f"marginals {name}": Marginals(shape, up_to=order) for name, (shape, order) in sizes.items()},
        "prefix(32) x identity(16)": Kronecker(Prefix(32), Identity(16)),
        "union of prefix(64), identity(64)": Union(Prefix(64), Identity(64)),
        "matrix, 40 queries, 60 cells": Matrix((seeded(5).random((40, 60)) < 0.3).astype(float)),
        "matrix, 64 queries, 48 cells": Matrix((seeded(6).random((64, 48)) < 0.1).astype(float)),
    }


def cases(max_keys: list[int]) -> Iterator[tuple[str, Workload, int]]:
    """Every workload at every number of keys."""
    for (name, workload), keys in product(workloads().items(), max_keys):
        yield name, workload, keys


def main() -> None:
    """Choose, print a table, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--max-keys", type=int, nargs="+", default=[1, 5, 20, 60])
    options = options_of(parser)
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    rows: list[dict[str, object]] = []
    timings: dict[str, Timing] = {}
    for name, workload, keys in cases(options.max_keys):
        held: list[Strategy] = []

        def work(held: list[Strategy] = held, workload: Workload = workload, keys: int = keys) -> None:
            held.append(choose(workload, keys))

        timings[f"{name}, {keys}"] = timed(work)
        std = held[0].l2(keys) * held[0].mean_variance() ** 0.5
        before = reference[name].get(str(keys), {})
        row = {"workload": name, "max_keys": keys, "strategy": held[0].name, "std": std, **before}
        rows.append(row | ({"ratio": std / before["std_66efc52"]} if before else {}))
    ratios = [float(str(row["ratio"])) for row in rows if "ratio" in row]
    within = sum(ratio <= WITHIN for ratio in ratios) / max(len(ratios), 1)
    worst = max((row for row in rows if "ratio" in row), key=lambda row: float(str(row["ratio"])), default={})
    heading = ["workload", "keys", "strategy", "std", "ratio"]
    shown = [[str(row["workload"]), str(row["max_keys"]), str(row["strategy"]), f"{row['std']:.4g}",
              f"{row.get('ratio', float('nan')):.3f}"] for row in rows]  # fmt: skip
    print(table([heading, *shown]))
    print(f"{within:.0%} of {len(ratios)} within {WITHIN - 1:.0%}; worst: {worst}")
    report(
        __doc__.splitlines()[0], options, {"target": TARGET, "within": within, "worst": worst, "rows": rows}, timings
    )


if __name__ == "__main__":
    main()
