"""Sections of the page on workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from _markdown import figure, milliseconds, table

Result = Mapping[str, Any]


def workload_error(result: Result) -> str:
    """Error of workloads beside its lower bound."""
    targets = ", ".join(f"{name} {target}" for name, target in result["targets"].items())
    words = (
        "The tables show the mean squared error of a query for several strategies; the strategy that `auto` chooses "
        "is in **bold**. If a unit has one cell, the tables show the ratio of this error to the singular-value "
        f"bound, which no factorization can beat. Targets for the ratio, from 256 cells on: {targets}. If a unit has "
        "several cells, the tables show the error itself.\n"
    )
    text = [words]
    places = dict.fromkeys((row["max_keys"], row["workload"]) for row in result["rows"])
    for max_keys, workload in places:
        rows = [row for row in result["rows"] if (row["max_keys"], row["workload"]) == (max_keys, workload)]
        sizes = sorted({row["cells"] for row in rows})
        ratios: dict[str, dict[int, str]] = {}
        for row in rows:
            shown = f"{row['ratio']:.3f}" if row["ratio"] else f"{row['mean_squared_error']:.4g}"
            ratios.setdefault(_kind(row["strategy"]), {})[row["cells"]] = f"**{shown}**" if row["chosen"] else shown
        text.append(f"**{workload}, {max_keys} {'cell' if max_keys == 1 else 'cells'} per unit**\n")
        table_rows = [[name, *(found.get(size, "") for size in sizes)] for name, found in ratios.items()]
        text.append(table(["cells", *(f"{size:,}" for size in sizes)], table_rows))
    text.append(_published(result["published"]))
    return "\n".join(text)


def _published(found: Result) -> str:
    """Ours beside what others published."""
    words = (
        "**Comparison with published methods, 1 cell per unit.** For prefix sums over n cells, the table shows the "
        f"root of the mean squared error minus ln(n)/π. The best published bound is {found['bound']}. At large n, no "
        f"factorization has less than {found['limit']}.\n\n"
    )
    rows = [
        [f"{row['cells']:,}", f"{row['ours']:.4f}", f"{row['normalised_square_root']:.4f}"] for row in found["prefix"]
    ]
    text = words + table(["cells", "ours", "normalised square root"], rows)
    rows = [
        [
            f"{' × '.join(map(str, row['sizes']))}, order {row['order']}",
            f"{row['ours']:.3f}",
            f"{row['residual_planner_plus']:.3f}",
        ]
        for row in found["marginals"]
    ]
    below = table(
        ["prefix sums along the columns of all marginals up to an order: error / bound", "ours", "ResidualPlanner+"],
        rows,
    )
    return (
        f"{text}\n{below}\nResidualPlanner+ uses one noisy residual for several marginals, whereas sparsehist "
        "answers each marginal of ranges with separate noise. For plain marginals, both methods are the same and "
        "have the smallest possible error.\n"
    )


def workload_speed(result: Result) -> str:
    """Releases of ten million cells beside a pair of transforms."""
    rows = []
    for name, found in result["medians"].items():
        ratios = [result["ratios"][what].get(name) for what in ("cpu_s", "wall_s")]
        compared = [figure(one) if one else "" for one in ratios]
        rows.append([name, milliseconds(found["cpu_s"]), milliseconds(found["wall_s"]), *compared])
    words = (
        f"Releases have {result['cells']:,} cells, and include the exact answers and the rounding. Target: at most "
        f"{result['target']} times two real Fourier transforms of this length. The peak memory is "
        f"{result['peak_mb']:,.0f} MB, with both strategies and one level of each in memory.\n\n"
    )
    return words + table(["", "CPU ms", "wall ms", "ratio, CPU", "ratio, wall"], rows)


def sensitivity(result: Result) -> str:
    """Stated standard deviations beside those of 66efc52."""
    worst = result["worst"]
    words = (
        "The table shows the stated standard deviation with strategy auto, divided by that of commit 66efc52. This "
        "commit had thousands of lines of code for tighter bounds on sensitivities. Of all ratios, "
        f"{result['within']:.0%} are within 2 % of 1 (target: {result['target']:.0%}). The largest ratio is "
        f"{worst['ratio']:.2f}, for {worst['workload']} at {worst['max_keys']} keys.\n"
    )
    keys = sorted({row["max_keys"] for row in result["rows"]})
    found: dict[str, dict[int, str]] = {}
    for row in result["rows"]:
        found.setdefault(row["workload"], {})[row["max_keys"]] = f"{row['ratio']:.3f}"
    rows = [[name, *(one.get(number, "") for number in keys)] for name, one in found.items()]
    return "\n".join([words, table(["keys per unit", *map(str, keys)], rows)])


def _kind(strategy: str) -> str:
    """The name without what depends on the number of cells; parameters that fit the unit are one kind."""
    plain = re.sub(r"(, )?length=[0-9]+", "", strategy).replace("()", "")
    name = plain.split("(")[0]
    return f"{name}, fitted to the unit" if name in {"spectral", "optimised"} and name != plain else plain
