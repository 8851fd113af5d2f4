"""What does a release's account of itself cost: guarantee, threshold, delta, sensitivity, before anything is drawn?

    python benchmarks/statements.py --runs 20 --out statements.json

Every family over the levels it is served at, for 1, 20 and 1,000 keys; open domains with 0, 3 and 10 earlier
releases; the sensitivity of every strategy. First statements find nothing computed before, later ones are made again
with all that is kept. Target: 50 ms of CPU in the median of 20, 100 MB. A case is repeated for half a second at most.
"""

from __future__ import annotations

import itertools
import statistics
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from _measure import Spread, Timing, arguments, options_of, report, seconds, table, timed

from sparsehist import noise
from sparsehist.errors import DeclarationError
from sparsehist.histogram import expected_false_keys, threshold_for_false_keys
from sparsehist.open_domain import never_exceeds
from sparsehist.privacy import epsilon_delta, path_cost, poisson
from sparsehist.workload import Workload, strategy_named
from sparsehist.workload.strategies import haar

TARGET_MS, TARGET_MB = 50.0, 100.0
KEYS = (1, 20, 1000)
CASE_S = 0.5
LEVELS = {
    "Gaussian": ("1e-12", "1e-6", "0.01", "1", "100"),
    "Laplace": ("1e-6", "0.001", "0.1", "1", "10"),
    "DiscreteLaplace": ("1e-6", "0.001", "0.1", "1", "10"),
    "Poisson": ("1/4294967296", "1e-8", "1/4000000", "1e-4", "0.01", "1", "10"),
    "Skellam": ("1/4294967296", "1e-8", "1/4000000", "1e-4", "0.01", "1", "10"),
}
CURRENCIES = {
    "Gaussian": "rho",
    "Laplace": "epsilon",
    "DiscreteLaplace": "epsilon",
    "Poisson": "none",
    "Skellam": "none",
}
WORKLOADS = {
    "spectral": ("prefix(10000000)", "ranges(1000000)", "ranges(1024)", "ranges(256)", "ranges(128)"),
    "spectral(blend=4, window=10)": ("prefix(1000000)", "ranges(1000000)"),
    "haar": ("ranges(1000000)",),
    "tree": ("ranges(1000000, [(0, 9), (5, 500000), (3, 999999)])",),
    "hierarchical(branching=16)": ("ranges(1000000)",),
    "identity": ("ranges(1000000)",),
    "shared(common=2.5)": ("identity(1000000)",),
    "square_root": ("prefix(1000000)",),
    "square_root(scaled=True)": ("prefix(1000000)",),
    "banded": ("prefix(1000000)",),
    "optimised": ("ranges(256)", "prefix(64)"),
    "direct": ("ranges(128, [(0, 9), (5, 100), (3, 127)])", "marginals((10, 10, 10, 10), 2)"),
    "weighted": ("marginals((10, 10, 10, 10), 2)",),
    "residual": tuple(
        f"marginals({sizes}, {order})"
        for sizes, order in (
            *(("(20, 15)", 2), ("(3, 4, 30)", 2), ("(4, 5, 6)", 2), ("(7, 9, 11)", 2), ("(10, 10, 10)", 2)),
            *(("(2, 3, 4, 5)", 2), ("(10, 10, 10, 10)", 2), ("(3, 3, 3, 3, 3)", 2), ("(2, 3, 5, 7, 11)", 2)),
            ("(2, 2, 2, 2, 2, 2, 2)", 3),
        )
    ),
    "kronecker(residual, spectral)": ("kronecker(marginals((4, 5), 2), prefix(100))",),
    "union(spectral, tree)": ("union(prefix(1000), ranges(1000, [(0, 9), (5, 500), (3, 999)]))",),
}
WORKLOAD_KEYS = (2, 5, 20, 60, 1000)


def forget() -> None:
    """Statements are made anew: nothing computed before is at hand."""
    for module in (poisson, epsilon_delta, never_exceeds, haar):
        for held in vars(module).values():
            if hasattr(held, "cache_clear"):
                held.cache_clear()


def family_of(name: str, keys: int) -> noise.Family:
    """The family with the sensitivity of so many keys."""
    sensitivity = keys**0.5 if name == "Gaussian" else keys
    family: noise.Family = getattr(noise, name)(sensitivity=sensitivity)
    return family


def released(name: str, level: str, keys: int) -> None:
    """What a release over a domain of 10**69 cells says of itself."""
    family, exact = family_of(name, keys), Fraction(level)
    family.statement(exact)
    threshold = threshold_for_false_keys(family, exact, 10**69, 0.01)
    expected_false_keys(family, exact, threshold, 10**69)


def spent(name: str, level: str, keys: int) -> None:
    """A line of the ledger."""
    law = {"Gaussian": "gaussian", "Poisson": "poisson", "Skellam": "skellam"}.get(name)
    epsilon_delta.guarantee(
        path_cost(CURRENCIES[name], Fraction(level), law=law, keys=keys, numerical_slack=1e-12), 1e-6
    )


def opened(name: str, level: str, keys: int, rounds: int) -> Callable[[], None]:
    """The threshold of a release over an open domain, after some others."""
    family, finest = family_of(name, keys), Fraction(level)
    levels = [finest * (8 + 3 * i) / 8 for i in range(rounds)]
    past = [(one, float(family.inverse_log_tail(-16.0, one)) + 1.0) for one in levels]
    return lambda: void(never_exceeds.threshold_for_exceedance(family, past, finest * Fraction(10, 8), 1e-7))


def priced(strategy: str, workload: str, keys: int, *, pure: bool) -> Callable[[], None]:
    """The sensitivity of a strategy made anew; a release after the first finds it in the metadata of that one."""
    made = strategy_named(strategy, Workload.parse(workload))
    return lambda: void(made.l1_sensitivity(keys) if pure else made.sensitivity(keys))


def void(_: object) -> None:
    """Drop a result."""


def cases() -> dict[tuple[str, str], dict[str, Callable[[], Callable[[], None]]]]:
    """What makes that which is measured, by section and row."""
    found: dict[tuple[str, str], dict[str, Callable[[], Callable[[], None]]]] = {}
    for name, levels in LEVELS.items():
        for level, keys in itertools.product(levels, KEYS):
            place = f"{level}, {keys} keys"
            found.setdefault(("statement", name), {})[place] = partial(partial, released, name, level, keys)
            found.setdefault(("ledger", name), {})[place] = partial(partial, spent, name, level, keys)
            for rounds in (0, 3, 10):
                group = found.setdefault(("open domain", f"{name}, {rounds} before"), {})
                group[place] = partial(opened, name, level, keys, rounds)
    for strategy, workloads in WORKLOADS.items():
        for text, norm, keys in itertools.product(workloads, ("L2", "L1"), WORKLOAD_KEYS):
            group = found.setdefault((f"sensitivity, {norm}", f"{strategy} of {text}"), {})
            group[f"{keys} keys"] = partial(priced, strategy, text, keys, pure=norm == "L1")
    return found


def measured(make: Callable[[], Callable[[], None]], runs: int) -> dict[str, list[Timing]]:
    """First and later statements, each as many times as there is time for."""
    found: dict[str, list[Timing]] = {"first": [], "later": []}
    for name, timings in found.items():
        end, work = time.perf_counter() + CASE_S / 2, make()
        work()
        while len(timings) < runs and (len(timings) < 3 or time.perf_counter() < end):
            if name == "first":
                forget()
                work = make()
            timings.append(timed(work))
    return found


def most_memory(make: Callable[[], Callable[[], None]]) -> float:
    """Megabytes that Python objects and arrays of a first statement hold at most."""
    forget()
    work = make()
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--only", default="", help="rows whose name begins so")
    options = options_of(parser)
    rows: list[dict[str, object]] = []
    everything: dict[str, dict[str, dict[str, Spread]]] = {}
    shown = [["", "", "first, median", "largest", "where", "clock", "later, largest", "MB"]]
    for (section, name), group in cases().items():
        if not name.startswith(options.only):
            continue
        found: dict[str, dict[str, Spread]] = {}
        memory = 0.0
        for place, make in group.items():
            try:
                timings = measured(make, options.runs)
            except DeclarationError:
                continue
            found[place] = {
                f"{which} {what}": seconds(one, what) for which, one in timings.items() for what in Timing._fields
            }
            memory = max(memory, most_memory(make))
        if not found:
            raise SystemExit(f"{name}: no case of it is served")
        everything[f"{section}: {name}"] = found
        first = {place: 1e3 * one["first cpu_s"].median for place, one in found.items()}
        worst = max(first, key=first.__getitem__)
        row = {
            "section": section,
            "name": name,
            "median_ms": statistics.median(first.values()),
            "largest_ms": first[worst],
            "where": worst,
            "clock_ms": 1e3 * found[worst]["first wall_s"].median,
            "later_ms": max(1e3 * one["later cpu_s"].median for one in found.values()),
            "memory_mb": memory,
        }
        rows.append(row)
        figures = [f"{value:.1f}" if isinstance(value, float) else str(value) for value in list(row.values())[2:]]
        shown.append([section, name, *figures])
    print(table(shown))
    print(f"milliseconds of CPU; target: {TARGET_MS:.0f} in the median of {options.runs}, {TARGET_MB:.0f} MB")
    result = {"target_ms": TARGET_MS, "target_mb": TARGET_MB, "rows": rows}
    report("what statements cost", options, result, everything)


if __name__ == "__main__":
    main()
