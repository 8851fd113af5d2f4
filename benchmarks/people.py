"""What do randomised answers, reports, views of a network and interactive queries cost?

    python benchmarks/people.py --runs 7 --out people.json

CPU of one entry, report, collection, view or query, all contenders in turns in one run. Targets: randomised response
within 30 ns an entry, a report of 128 bits within 20 µs, a million reports decoded for a thousand candidates within
1 s, a view over a million people and ten million edges within 10 s with reading the graph, a query of multiplicative
weights at 1,024 cells within 50 µs and at ten million within 0.2 s.
"""

from __future__ import annotations

import numpy as np
from _measure import arguments, in_turns, options_of, report, spread, summary, table

from sparsehist import entropy
from sparsehist.audiences import Network
from sparsehist.interactive import Weighing
from sparsehist.local import Rappor, RapporClient, decode
from sparsehist.noise import DiscreteLaplace, RandomisedResponse

TARGETS = {
    "randomised response, sample": 30e-9,
    "randomised response, coarsen": 30e-9,
    "randomised response, refine": 30e-9,
    "randomised response, between": 30e-9,
    "a report of 128 bits": 20e-6,
    "all reports decoded for 1,000 candidates": 1.0,
    "a graph read, and one view": 10.0,
    "a query at 1,024 cells": 50e-6,
    "a query at most cells": 0.2,
}
_MANY = 500


def work_of(people: int, cells: int):
    """The contenders, and how many pieces of work each does in one run."""
    rng = entropy.generator()
    family, setting = RandomisedResponse(categories=5), Rappor(128, 2, keep="1/2", one_if_set="3/4", one_if_not="1/2")
    low = family.sample(people, 2, rng=rng)
    high = family.coarsen(low, 2, "1/2", rng=rng)
    client = RapporClient.start(setting, "start page", rng=rng)
    reports = rng.integers(0, 2, (people, 128), dtype=np.int8).view(np.bool_)
    candidates = [f"page {i}" for i in range(1000)]
    edges, ages = rng.integers(0, people, (10 * people, 2)), np.zeros(people, np.int64)
    edges[:people, 0] = np.arange(people)
    sessions = {}
    for size in (1024, cells):
        counts = np.zeros(size, np.int64)
        counts[:100] = 10**6
        about = Weighing(size, mass=10**8, level=1, accuracy=0.2, started=True)
        sessions[size] = (about.start(counts, counts, rng=rng), rng.random(size) < 0.5)
    few, most = sessions[1024], sessions[cells]
    return {
        "randomised response, sample": (lambda: family.sample(people, 2, rng=rng), people),
        "randomised response, coarsen": (lambda: family.coarsen(low, 2, "1/2", rng=rng), people),
        "randomised response, refine": (lambda: family.refine(high, "1/2", 2, rng=rng), people),
        "randomised response, between": (lambda: family.between(high, "1/2", low, 2, 1, rng=rng), people),
        "a report of 128 bits": (lambda: [client.report(day, rng=rng) for day in range(_MANY)], _MANY),
        "all reports decoded for 1,000 candidates": (lambda: decode(reports, setting, candidates), 1),
        "a graph read, and one view": (lambda: Network(ages, edges, DiscreteLaplace()).view(0), 1),
        "a query at 1,024 cells": (lambda: [few[0].ask(few[1], rng=rng) for _ in range(_MANY)], _MANY),
        "a query at most cells": (lambda: most[0].ask(most[1], rng=rng), 1),
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=7)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--cells", type=int, default=10_000_000)
    options = options_of(parser)
    work = work_of(options.people, options.cells)
    timings = in_turns({name: each for name, (each, _) in work.items()}, options.runs, warm=1)
    costs = {name: spread([run.cpu_s / work[name][1] for run in runs]) for name, runs in timings.items()}
    rows = [["CPU s each", "median", "quartiles", "target"]]
    rows += [
        [name, f"{cost.median:.3g}", f"{cost.lower:.3g}–{cost.upper:.3g}", f"{TARGETS[name]:.3g}"]
        for name, cost in costs.items()
    ]
    print(table(rows))
    result = {
        "sizes": {"people": options.people, "edges": 10 * options.people, "cells": options.cells},
        "targets": TARGETS,
        "seconds": costs,
        "medians": summary(timings),
    }
    report("randomised answers, views and interactive queries", options, result, timings)


if __name__ == "__main__":
    main()
