"""Make benchmarks/RESULTS.md, with its pictures, from the JSON files in benchmarks/results.

    python benchmarks/page.py

The files are what the scripts here wrote with --out, under the names of the scripts. The pictures need the extra
`plots`; without it the page comes without them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _markdown import figure, milliseconds, table
from _pictures import PICTURES, save_picture
from _sections_compared import (
    before_after,
    bounding,
    dense_sparse,
    domains,
    key_discovery,
    lossless,
    peers,
    planned,
)
from _sections_grown import column_types, floor, noise, people, pipeline, profiles, running, scale
from _sections_workload import sensitivity, workload_error, workload_speed

Result = Mapping[str, Any]
HERE = Path(__file__).resolve().parent

INTRODUCTION = """# What it costs, measured

Made by `python benchmarks/page.py` from `benchmarks/results/*.json`; `make bench-small` measures again.
Contenders take turns in one run, so that ratios stand where clocks do not. Figures are medians, in parentheses
quartiles. CPU is user plus system time.
"""


def measured_on(result: Result) -> str:
    """Machine, versions, commit."""
    machine, load = result["machine"], result.get("load")
    memory = machine.get("memory_gb") or round(machine.get("memory_mb", 0) / 1024, 1)
    busy = ", **busy**: the clock is not to be believed" if result.get("busy") else ""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    loaded = "" if load is None else f"; load {load}{busy}"
    hardware = f"{machine['processor']}, {machine['cores']} cores, {memory} GB"
    python = f"Python {machine['python']}"
    return f"*{result['when']}, commit {result['commit']}, {hardware}, {python}, {versions}{loaded}.*\n"


def round_arithmetic(result: Result) -> str:
    """The arithmetic of a first round."""
    sizes, medians = result["sizes"], result["medians"]
    rows = [
        [name, milliseconds(found["cpu_s"]), figure(result["ratios"][name]) if name in result["ratios"] else ""]
        for name, found in medians.items()
    ]
    return (
        f"{sizes['cells']:,} nonzero cells with {sizes['distinct_counts']:,} distinct counts, "
        f"{sizes['published']:,} published. Target: at most {result['target']} of the normals.\n\n"
        + table(["", "CPU ms", "ratio"], rows)
    )


def domain_size(result: Result) -> str:
    """Rounds by size of the domain and number of nonzero cells."""
    parts = [("arithmetic, by size of the domain", result["arithmetic"])]
    parts += [(f"durable, by nonzero cells: {which}", found) for which, found in result["durable"].items()]
    text = []
    for title, found in parts:
        apart = found["apart"]
        rows = [[name, milliseconds(m["cpu_s"]), milliseconds(m["wall_s"])] for name, m in found["medians"].items()]
        text.append(
            f"**{title}**: CPU medians {apart['cpu_s']:.1%} apart, on the clock {apart['wall_s']:.1%}; "
            f"target {found['target']:.0%}.\n\n" + table(["", "CPU ms", "wall ms"], rows)
        )
    return "\n".join(text)


def histories(result: Result) -> str:
    """Unlikely histories and late rounds."""
    families = result["families"]
    rows = [
        [name, figure(found["seconds"]), figure(found["survivor"]), figure(found["round_50_over_10"])]
        for name, found in families.items()
    ]
    words = (
        f"{result['rounds']} releases of {result['cells']:,} nonzero cells, levels in scrambled order: the same with "
        "one cell whose noise lies 20 standard deviations below, and the last rounds beside early ones. Target: "
        f"within {result['targets']['survivor']:.0%}, at most {result['targets']['round_50_over_10']:g} times.\n\n"
    )
    return words + table(["noise", "CPU s, all", "with a far survivor, ratio", "round 50 over round 10"], rows)


def release(result: Result) -> str:
    """Releases all in all."""
    names = list(next(iter(result["cases"].values()))["medians"])
    rows = []
    for case, found in result["cases"].items():
        walls = [milliseconds(found["medians"][name]["wall_s"]) for name in names]
        left = found["left_of_target_s"]
        rows.append([case, *walls, milliseconds(left["wall_s"]), milliseconds(left["cpu_s"])])
    heading = ["wall ms", *names, "left of the target", "left, CPU"]
    text = f"Target: at most {result['target']}; what is left of it is negative where it is missed.\n\n"
    return text + table(heading, rows) + "\nWhere the time goes, on the clock:\n"


def real_logs(result: Result) -> str:
    """What came out of real logs."""
    introduction = (
        "Three levels in the order public, partner, internal; one false key expected in each. The error is the\n"
        "median of |noisy − true| / true over the published keys of a decade of true counts; near the threshold\n"
        "only keys with high noise are published.\n"
    )
    heading = ["", "level", "std", "threshold", "published", "false", "s", "error, published of cells, by size"]
    text = [introduction]
    for name, found in result["cases"].items():
        rows = [
            [made["name"], made["level"], f"{made['std']:.1f}", f"{made['threshold']:.1f}", f"{made['published']:,}",
             str(made["false_keys"]), f"{made['wall_s']:.2f}", _errors(made["by_decade"])]
            for made in found["releases"]
        ]  # fmt: skip
        text += [f"**{name}**: {_in_words(found)}\n", table(heading, rows)]
    return "\n".join(text)


def _in_words(found: Result) -> str:
    """A log and what bounding did to it."""
    return " ".join(
        [
            f"{found['rows']:,} rows, {found['units']:,} units, {found['nonzero_cells']:,} nonzero cells of",
            f"{found['domain_size']} (`{found['domain']}`).",
            f"{found['rows_dropped_null']:,} rows have a missing value,",
            f"{found['pairs_outside_the_domain']:,} pairs of unit and key lie outside the domain.",
            f"{found['max_keys']} keys per unit: {found['units_over_the_bound']:,} units have more (at most",
            f"{found['most_keys_of_a_unit']:,}) and hold {found['share_of_units_over_the_bound']:.1%} of all counts;",
            f"{found['lost_by_bounding']:.1%} of the counts are cut. Counted in {found['create']['wall_s']:.2f} s.",
        ]
    )


def sql_front(result: Result) -> str:
    """What SQL adds to the Python interface."""
    rows = [[name, milliseconds(m["cpu_s"]), milliseconds(m["wall_s"])] for name, m in result["medians"].items()]
    ratios, aim = result["ratios"], f"Target: at most {result['target']}."
    return (
        f"A series of {result['rows']:,} rows, one release, ten rows of it read; each in a process of its own. SQL "
        f"over Python on the same query: CPU {figure(ratios['cpu_s'])}, clock {figure(ratios['wall_s'])}. {aim}\n\n"
    ) + table(["", "CPU ms", "wall ms"], rows)


def start(result: Result) -> str:
    """Time to start."""
    rows = [[name, milliseconds(m["cpu_s"]), milliseconds(m["wall_s"])] for name, m in result["medians"].items()]
    targets = ", ".join(f"`{name}` within {seconds} s" for name, seconds in result["target_s"].items())
    return f"Each in a process of its own. Target: {targets} on the clock.\n\n" + table(
        ["", "CPU ms", "wall ms"], rows
    )


def counting(result: Result) -> str:
    """Counting with bounding next to plain counts."""
    medians = result["medians"]
    measures = ("cpu_s", "wall_s", "peak_mb")
    plain = {what: min(m[what] for name, m in medians.items() if name.startswith("plain")) for what in measures}
    rows = []
    for name, found in medians.items():
        rows.append([name])
        for what in measures:
            rows[-1] += [f"{found[what]:,.{0 if what == 'peak_mb' else 2}f}", f"{found[what] / plain[what]:.2f}"]
    heading = ["", "CPU s", "ratio", "wall s", "ratio", "peak MB", "ratio"]
    text = (
        f"{result['rows']:,} rows. Target: at most 1.5 times the CPU and the memory of the cheaper plain count.\n\n"
    )
    return text + table(heading, rows)


def spark(result: Result) -> str:
    """Counting on Spark next to its own distinct count."""
    rows = [
        [name, ", ".join(f"{run['cpu_s']:.1f}" for run in runs), ", ".join(f"{run['wall_s']:.1f}" for run in runs)]
        for name, runs in result["all"].items()
    ]
    words = (
        f"{result['rows']:,} rows on two cores of one JVM, after a warm-up of both on {result['warm']:,}; ours with "
        "bounding, two sorted copies on the disk and the series committed, Spark's own written nowhere. Ours over "
        f"Spark's own, CPU: {result['ratio']:.2f}. Target: at most {result['target']}, at 50,000,000 rows. Load at "
        f"the end: {result['load_after']}.\n\n"
    )
    return words + table(["", "CPU s", "wall s"], rows)


def dense_round(result: Result) -> str:
    """A round over a dense vector, beside as many plain draws."""
    targets = result["targets"]
    rows = [
        [step, figure(found), f"{targets[step]:g}" if step in targets else "none"]
        for step, found in result["ratios"].items()
    ]
    words = (
        f"A round over {result['entries']:,} entries, published values included, in CPU time of numpy's "
        "`standard_normal` (Gaussian) or `laplace` (the others) of that size.\n\n"
    )
    return words + table(["step", "ratio", "target"], rows)


def discrete_laplace(result: Result) -> str:
    """Exact draws on integers."""
    rows = [[step, figure(found)] for step, found in result["nanoseconds"].items()]
    faster = result["times_faster"]
    words = f"{result['sizes']['draws']:,} draws, exact, beside numpy's inexact ones; CPU nanoseconds per draw.\n\n"
    beside = f"\n`sample` beside OpenDP's exact `make_laplace`: {_times(faster)} (target: {result['target']}).\n"
    return words + table(["step", "ns"], rows) + beside


def marginals(result: Result) -> str:
    """All pairs of columns, next to their GROUP BYs."""
    sizes, ratios = result["sizes"], result["ratios"]
    rows = [
        [name, milliseconds(found["cpu_s"]), milliseconds(found["wall_s"])]
        + [figure(ratios[what][name]) if name in ratios[what] else "" for what in ("cpu_s", "wall_s")]
        for name, found in result["medians"].items()
    ]
    words = (
        f"{sizes['marginals']:,} marginals of {sizes['columns']} columns, {sizes['answers']:,} answers, over "
        f"{sizes['nonzero_cells']:,} nonzero cells of {float(sizes['domain_size']):.0e}. "
        f"Target: at most {result['target']:g} times the GROUP BYs.\n\n"
    )
    beside = (
        f"\nMean variance over the bound of the singular values: {result['over_the_bound']:.6f}. At "
        f"{sizes['max_keys']} keys per unit the sensitivity is {result['sensitivity']:.3f}. "
        "Standard deviation of an "
        "answer at level 1/10:\n\n"
    )
    names = list(next(iter(result["std"].values())))
    errors = [[unit, *(f"{found[name]:.1f}" for name in names)] for unit, found in result["std"].items()]
    heading = ["", "CPU ms", "wall ms", "ours over it, CPU", "ours over it, wall"]
    return words + table(heading, rows) + beside + table(["", *names], errors)


def _times(found: Mapping[str, float]) -> str:
    """How many times faster than each of OpenDP's samplers, or that it was not installed."""
    if not found:
        return "not measured, it was not installed"
    return "; ".join(f"{times:,.0f} times faster" for times in found.values())


SECTIONS: dict[str, tuple[str, Callable[[Result], str]]] = {
    "column_types": ("Counting by type of column and kind of source", column_types),
    "pipeline": ("From a log to a published file", pipeline),
    "floor": ("How little counting could take", floor),
    "peers": ("The same release elsewhere", peers),
    "dense_sparse": ("Dense against sparse", dense_sparse),
    "lossless": ("Lossless against independent releases and doubling", lossless),
    "scale": ("How time and memory grow", scale),
    "running": ("A log that goes on", running),
    "release": ("A release all in all", release),
    "before_after": ("Releases before and after", before_after),
    "profiles": ("Where the time of each main path goes", profiles),
    "round_arithmetic": ("The arithmetic of a first round", round_arithmetic),
    "histories": ("Unlikely histories and late rounds", histories),
    "domain_size": ("A round knows neither its domain nor the number of nonzero cells", domain_size),
    "counting": ("Counting with bounding", counting),
    "spark": ("Counting on Spark", spark),
    "spark_10m": ("Counting on Spark, fewer rows", spark),
    "peers_spark": ("Tumult Analytics on the rows that Spark counted", peers),
    "workload_error": ("Workloads: error beside its lower bound", workload_error),
    "sensitivity": ("Stated standard deviations of workloads, before and after", sensitivity),
    "workload_speed": ("Workloads of ten million cells", workload_speed),
    "marginals": ("All pairs of 30 columns", marginals),
    "dense_round": ("A dense round", dense_round),
    "noise": ("A draw of every family and step", noise),
    "discrete_laplace": ("Exact integers", discrete_laplace),
    "people": ("Randomised answers, readers and interactive queries", people),
    "sql_front": ("SQL over Python", sql_front),
    "start": ("Time to start", start),
    "real_logs": ("Real logs", real_logs),
    "domains": ("Which domain serves", domains),
    "bounding": ("Keep or share, and the choice of the bound", bounding),
    "key_discovery": ("Keys that nobody can list", key_discovery),
    "planned": ("Plans beside what happened", planned),
}


def _errors(decades: Sequence[Result]) -> str:
    """Errors by decade, in words short enough for a cell."""
    shown = [
        f"{10 ** d['decade']:,}: {d['relative_error']:.1%} ({d['published']:,}/{d['cells']:,})"
        for d in decades
        if d["published"]
    ]
    return "; ".join(shown)


def main() -> None:
    """Read the results, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    parts = [INTRODUCTION]
    for name, (title, section) in SECTIONS.items():
        file = options.results / f"{name}.json"
        if not file.exists():
            continue
        result = json.loads(file.read_text(encoding="utf-8"))
        picture = save_picture(name, title, result, options.results, options.page) if name in PICTURES else ""
        parts.append(f"## {title}\n\n{section(result)}{picture}\n{measured_on(result)}")
    options.page.write_text("\n".join(parts), encoding="utf-8")
    print(f"wrote {options.page}")


if __name__ == "__main__":
    main()
