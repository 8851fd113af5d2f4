"""What does a release's account of itself cost: guarantee, threshold, delta, sensitivity, before anything is drawn?

    python benchmarks/statements.py --runs 20 --out statements.json

Every family over the levels it is served at, for 1, 20 and 1,000 keys; open domains with up to 50 earlier releases,
at levels near to one another and a factor of two apart; the sensitivity of every strategy, of products of two to four
and of eight, of unions and of matrices of signs. First statements find nothing computed before, later ones are made
again with all that is kept. Target: 50 ms of CPU in the median of 20, 100 MB. A case is repeated for half a second at
most.
"""

from __future__ import annotations

import itertools
import re
import statistics
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

from _measure import Spread, Timing, arguments, options_of, report, seconds, table, timed

from sparsehist import noise
from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.histogram import expected_false_keys, threshold_for_false_keys
from sparsehist.open_domain import never_exceeds
from sparsehist.privacy import epsilon_delta, path_cost, poisson
from sparsehist.workload import MatrixWorkload, Workload, strategy_named
from sparsehist.workload.strategies import haar
from sparsehist.workload.strategies.strategy import Strategy

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
    "spectral": ("prefix(10000000)", "ranges(1000000)", "ranges(1024)", "ranges(256)", "ranges(128)", "prefix(20)"),
    "spectral(blend=4, window=10)": ("prefix(1000000)", "ranges(1000000)", "prefix(200)"),
    "haar": ("ranges(10000000)", "ranges(1000000)"),
    "tree": ("ranges(1000000, [(0, 9), (5, 500000), (3, 999999)])",),
    "hierarchical(branching=16)": ("ranges(1000000)",),
    "identity": ("ranges(1000000)",),
    "shared(common=2.5)": ("identity(1000000)",),
    "square_root": ("prefix(1000000)",),
    "square_root(scaled=True)": ("prefix(1000000)",),
    "banded": ("prefix(1000000)",),
    "optimised": ("prefix(512)", "signs(512, 512)", "signs(400, 256)", "ranges(256)", "prefix(64)"),
    "direct": (
        *("ranges(128, [(0, 9), (5, 100), (3, 127)])", "marginals((10, 10, 10, 10), 2)", "signs(1024, 256)"),
        *("signs(5000, 256)", "signs(64, 64)", "signs(200, 3000)"),
    ),
    "weighted": ("marginals((10, 10, 10, 10), 2)",),
    "residual": tuple(
        f"marginals({sizes}, {order})"
        for sizes, order in (
            *(("(20, 15)", 2), ("(3, 4, 30)", 2), ("(4, 5, 6)", 2), ("(7, 9, 11)", 2), ("(10, 10, 10)", 2)),
            *(("(2, 3, 4, 5)", 2), ("(10, 10, 10, 10)", 2), ("(3, 3, 3, 3, 3)", 2), ("(2, 3, 5, 7, 11)", 2)),
            *(("(2, 2, 2, 2, 2, 2, 2)", 3), ("(7, 7, 7)", 3), ("(3, 3, 3, 3)", 4)),
        )
    ),
    "kronecker(residual, spectral)": ("kronecker(marginals((4, 5), 2), prefix(100))",),
    "kronecker(residual, residual, residual)": (
        "kronecker(marginals((10, 10, 10), 2), marginals((4, 5, 6), 2), marginals((3, 4, 5), 2))",
    ),
    "kronecker(residual, residual)": (
        "kronecker(marginals((2, 2, 2, 2, 2, 2, 2), 3), marginals((3, 3, 3, 3, 3), 2))",
    ),
    "kronecker(spectral, spectral)": ("kronecker(prefix(1000000), ranges(60))",),
    "kronecker(spectral(blend=4, window=5), spectral(blend=8, window=10))": ("kronecker(prefix(1000), prefix(100))",),
    "kronecker(spectral, spectral, spectral)": (
        *("kronecker(prefix(1000), prefix(1000), prefix(1000))", "kronecker(prefix(256), prefix(256), prefix(256))"),
        "kronecker(prefix(6), prefix(5), prefix(4))",
    ),
    "kronecker(spectral, spectral, spectral, spectral)": (
        "kronecker(prefix(200), prefix(200), prefix(200), prefix(200))",
    ),
    f"kronecker({', '.join(['spectral'] * 8)})": (f"kronecker({', '.join(['prefix(8)'] * 8)})",),
    "kronecker(optimised, optimised)": ("kronecker(prefix(512), prefix(512))",),
    "kronecker(optimised, optimised, optimised)": ("kronecker(prefix(256), prefix(256), prefix(256))",),
    "kronecker(square_root(scaled=True), banded)": ("kronecker(prefix(1000000), prefix(1000))",),
    "kronecker(haar, haar, hierarchical, tree)": ("kronecker(prefix(200), prefix(200), prefix(200), prefix(200))",),
    "kronecker(direct, direct, direct)": ("kronecker(signs(256, 256), signs(256, 256), prefix(256))",),
    "kronecker(identity, shared(common=2.5), spectral)": ("kronecker(identity(1000), identity(100), prefix(10000))",),
    "kronecker(union(spectral, tree), spectral)": ("kronecker(union(prefix(1000), prefix(1000)), prefix(1000))",),
    "union(spectral, tree)": ("union(prefix(1000), ranges(1000, [(0, 9), (5, 500), (3, 999)]))",),
    "union(spectral, spectral)": ("union(prefix(1000000), prefix(1000000))",),
}
WORKLOAD_KEYS = (1, 2, 20, 60, 200, 1000)
HISTORIES = {"0 before": (0, 1.0), "3 before": (3, 1.0), "10 before": (10, 1.0), "50 before": (50, 1.0)}
HISTORIES |= {"10 before, apart": (10, 2.0), "10 before, close": (10, 1.01)}
SIGNS = re.compile(r"signs\((\d+), (\d+)\)")


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


def opened(name: str, level: str, keys: int, rounds: int, apart: float = 1.0) -> Callable[[], None]:
    """The threshold of a release over an open domain, after some others; levels apart by a factor, or by 3/8."""
    family, finest = family_of(name, keys), Fraction(level)
    steps = [Fraction(apart) ** (i - rounds // 2) if apart > 1 else Fraction(8 + 3 * i, 8) for i in range(rounds)]
    levels = [finest * step for step in steps]
    past = [(one, float(family.inverse_log_tail(-16.0, one)) + 1.0) for one in levels]
    return lambda: void(never_exceeds.threshold_for_exceedance(family, past, finest * Fraction(10, 8), 1e-7))


def priced(strategy: str, workload: str, keys: int, *, pure: bool) -> Callable[[], None]:
    """The sensitivity of a strategy made anew; a release after the first finds it in the metadata of that one."""
    # An optimised strategy takes seconds to make and keeps nothing of a statement; all others are made anew.
    made = slowly_made(strategy, workload) if "optimised" in strategy else strategy_of(strategy, workload)
    return lambda: void(made.l1_sensitivity(keys) if pure else made.sensitivity(keys))


@lru_cache(maxsize=1)
def slowly_made(strategy: str, workload: str) -> Strategy:
    """The same strategy as long as no other is asked for."""
    return strategy_of(strategy, workload)


def strategy_of(strategy: str, workload: str) -> Strategy:
    """By their texts, in which signs(m, n) is a matrix of signs at random."""
    sizes = {found.group(): matrix_of(*map(int, found.groups())) for found in SIGNS.finditer(workload)}
    text = SIGNS.sub(lambda found: str(sizes[found.group()]), workload)
    attachments = {digest: content for one in sizes.values() for digest, content in one.attachments().items()}
    return strategy_named(strategy, Workload.parse(text, attachments=attachments))


@lru_cache(maxsize=4)
def matrix_of(queries: int, cells: int) -> MatrixWorkload:
    """Signs at random."""
    return MatrixWorkload(seeded(queries).choice([-1.0, 1.0], (queries, cells)))


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
            for history, (rounds, apart) in HISTORIES.items():
                group = found.setdefault(("open domain", f"{name}, {history}"), {})
                group[place] = partial(opened, name, level, keys, rounds, apart)
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
