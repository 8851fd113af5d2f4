"""What does a release's account of itself cost: guarantee, threshold, delta, sensitivity, before anything is drawn?

    python benchmarks/statements.py --runs 20 --out statements.json

Every family over the levels it is served at, for 1, 20 and 1,000 keys; open domains with 0, 3 and 10 earlier
releases; workloads. Target: 50 ms of CPU in the median of 20, 100 MB.
"""

from __future__ import annotations

import itertools
import statistics
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

from _measure import arguments, options_of, report, table, timed

from sparsehist import noise
from sparsehist.errors import DeclarationError
from sparsehist.histogram import expected_false_keys, threshold_for_false_keys
from sparsehist.open_domain import never_exceeds
from sparsehist.privacy import epsilon_delta, path_cost, poisson
from sparsehist.workload import Workload, strategy_named
from sparsehist.workload.strategies import haar

TARGET_MS, TARGET_MB = 50.0, 100.0
KEYS = (1, 20, 1000)
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
WORKLOADS = (
    ("prefix(1000000)", "spectral"),
    ("ranges(1024)", "spectral"),
    ("ranges(256)", "spectral"),
    ("ranges(1000000)", "haar"),
    ("ranges(1000000)", "hierarchical(branching=16)"),
    ("marginals((10, 10, 10, 10), 2)", "residual"),
)


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


def priced(strategy: str, workload: str, keys: int, *, pure: bool) -> None:
    """The sensitivity of a workload's strategy; a release after the first finds it in the metadata of that one."""
    made = strategy_named(strategy, Workload.parse(workload))
    void(made.l1_sensitivity(keys) if pure else made.sensitivity(keys))


def void(_: object) -> None:
    """Drop a result."""


def cases() -> dict[tuple[str, str], dict[str, Callable[[], None]]]:
    """What is measured, by section and row."""
    found: dict[tuple[str, str], dict[str, Callable[[], None]]] = {}
    for name, levels in LEVELS.items():
        for level, keys in itertools.product(levels, KEYS):
            place = f"{level}, {keys} keys"
            found.setdefault(("statement", name), {})[place] = lambda a=name, b=level, c=keys: released(a, b, c)
            found.setdefault(("ledger", name), {})[place] = lambda a=name, b=level, c=keys: spent(a, b, c)
            for rounds in (0, 3, 10):
                group = found.setdefault(("open domain", f"{name}, {rounds} before"), {})
                group[place] = opened(name, level, keys, rounds)
    for text, strategy in WORKLOADS:
        for norm, keys in itertools.product(("L2", "L1"), KEYS):
            group = found.setdefault((f"sensitivity, {norm}", f"{strategy} of {text}"), {})
            group[f"{keys} keys"] = lambda a=strategy, b=text, c=keys, d=norm == "L1": priced(a, b, c, pure=d)
    return found


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    options = options_of(parser)
    rows = [["", "", "median of medians ms", "largest median ms", "where", "MB"]]
    result: dict[str, object] = {"target_ms": TARGET_MS, "target_mb": TARGET_MB}
    for (section, name), group in cases().items():
        medians: dict[str, float] = {}
        memory = 0.0
        for place, work in group.items():
            milliseconds = []
            try:
                for _ in range(options.runs):
                    forget()
                    milliseconds.append(1e3 * timed(work).cpu_s)
            except DeclarationError:
                continue
            medians[place] = statistics.median(milliseconds)
            forget()
            tracemalloc.start()
            work()
            memory = max(memory, tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
        worst = max(medians, key=lambda one: medians[one])
        rows.append(
            [
                section,
                name,
                f"{statistics.median(medians.values()):.1f}",
                f"{medians[worst]:.1f}",
                worst,
                f"{memory:.0f}",
            ]
        )
        result[f"{section}: {name}"] = {"medians_ms": medians, "memory_mb": memory}
    print(table(rows))
    print(f"target: {TARGET_MS:.0f} ms in the median of {options.runs} runs, {TARGET_MB:.0f} MB")
    report("what statements cost", options, result, {})


if __name__ == "__main__":
    main()
