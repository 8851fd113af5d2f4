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

`python benchmarks/page.py` writes this page from `benchmarks/results/*.json`. `make bench-small` measures again.
All contenders of a comparison take turns in one run. So ratios are reliable even if the speed of the machine varies.
Figures are medians, with quartiles in parentheses. CPU is user time plus system time. A *round* is the drawing of the
noise of one release.
"""


def measured_on(result: Result) -> str:
    """Machine, versions, commit."""
    machine, load = result["machine"], result.get("load")
    memory = machine.get("memory_gb") or round(machine.get("memory_mb", 0) / 1024, 1)
    busy = ", **busy**: clock times are not reliable" if result.get("busy") else ""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    loaded = "" if load is None else f"; load {load}{busy}"
    hardware = f"{machine['cores']} cores of {machine['processor']}, {memory} GB of memory"
    python = f"Python {machine['python']}"
    return (
        f"*Measured on {result['when']}, commit {result['commit']}, with {hardware}, {python}, {versions}{loaded}.*\n"
    )


def round_arithmetic(result: Result) -> str:
    """The arithmetic of a first round."""
    sizes, medians = result["sizes"], result["medians"]
    rows = [
        [name, milliseconds(found["cpu_s"]), figure(result["ratios"][name]) if name in result["ratios"] else ""]
        for name, found in medians.items()
    ]
    return (
        f"{sizes['cells']:,} nonzero cells with {sizes['distinct_counts']:,} distinct counts, {sizes['published']:,} "
        "published cells. The ratio compares the CPU of the round with that of drawing one normal variable for each "
        f"nonzero cell. Target: a ratio of at most {result['target']}.\n\n" + table(["", "CPU ms", "ratio"], rows)
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
            f"**{title}**: medians of CPU differ by {apart['cpu_s']:.1%}, those of the clock by "
            f"{apart['wall_s']:.1%}. Target: at most {found['target']:.0%}.\n\n"
            + table(["", "CPU ms", "wall ms"], rows)
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
        f"There are {result['rounds']} releases of {result['cells']:,} nonzero cells, with levels in random order. "
        "In the comparison with a far survivor, one cell with a large count stays unpublished because its noise is "
        "20 standard deviations below the mean. The target is a difference of at most "
        f"{result['targets']['survivor']:.0%}. The last column compares the time of round 50 with that of round "
        f"10. The target is a ratio of at most {result['targets']['round_50_over_10']:g}.\n\n"
    )
    return words + table(["noise", "CPU s, all", "ratio with a far survivor", "round 50 / round 10"], rows)


def release(result: Result) -> str:
    """Releases all in all."""
    names = list(next(iter(result["cases"].values()))["medians"])
    rows = []
    for case, found in result["cases"].items():
        walls = [milliseconds(found["medians"][name]["wall_s"]) for name in names]
        left = found["left_of_target_s"]
        rows.append([case, *walls, milliseconds(left["wall_s"]), milliseconds(left["cpu_s"])])
    heading = ["wall ms", *names, "left of the target", "left, CPU"]
    text = (
        f"Target: a release takes at most {result['target']}. The last columns show the target minus the time, which "
        "is negative if the target is missed.\n\n"
    )
    return text + table(heading, rows) + "\nWhere the time goes, on the clock:\n"


def real_logs(result: Result) -> str:
    """What came out of real logs."""
    introduction = (
        "Each log is released at three levels, in the order public, partner, internal. One false key is expected in\n"
        "each release. The last column groups published keys by true count: from 1, from 10, from 100 and so on.\n"
        "For each group it shows the median of |noisy − true| / true. Near the threshold, only keys with high noise\n"
        "are published.\n"
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
            f"The log has {found['rows']:,} rows and {found['units']:,} units. {found['nonzero_cells']:,} of",
            f"{found['domain_size']} cells are not empty (`{found['domain']}`).",
            f"{found['rows_dropped_null']:,} rows have a missing value, and",
            f"{found['pairs_outside_the_domain']:,} pairs of unit and key are outside the domain. The bound is",
            f"{found['max_keys']} keys per unit. {found['units_over_the_bound']:,} units have more keys,",
            f"at most {found['most_keys_of_a_unit']:,}; they have {found['share_of_units_over_the_bound']:.1%} of",
            f"all pairs. The bound cuts {found['lost_by_bounding']:.1%} of all pairs. Counting took",
            f"{found['create']['wall_s']:.2f} s.",
        ]
    )


def sql_front(result: Result) -> str:
    """What SQL adds to the Python interface."""
    rows = [[name, milliseconds(m["cpu_s"]), milliseconds(m["wall_s"])] for name, m in result["medians"].items()]
    ratios, aim = result["ratios"], f"Target: at most {result['target']} times."
    return (
        f"Each contender, in a separate process, counts {result['rows']:,} rows into a series, makes one release and "
        f"reads ten rows of it. SQL takes {figure(ratios['cpu_s'])} times the CPU and {figure(ratios['wall_s'])} "
        f"times the time on the clock of the same query in Python. {aim}\n\n"
    ) + table(["", "CPU ms", "wall ms"], rows)


def start(result: Result) -> str:
    """Time to start."""
    rows = [[name, milliseconds(m["cpu_s"]), milliseconds(m["wall_s"])] for name, m in result["medians"].items()]
    targets = ", ".join(f"`{name}` within {seconds} s" for name, seconds in result["target_s"].items())
    return f"Each command runs in a separate process. Target: {targets} on the clock.\n\n" + table(
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
        f"The log has {result['rows']:,} rows. Ratios compare with the cheaper plain count, which does not limit the "
        "keys of a unit. Target: at most 1.5 times its CPU and its memory.\n\n"
    )
    return text + table(heading, rows)


def spark(result: Result) -> str:
    """Counting on Spark next to its own distinct count."""
    rows = [
        [name, ", ".join(f"{run['cpu_s']:.1f}" for run in runs), ", ".join(f"{run['wall_s']:.1f}" for run in runs)]
        for name, runs in result["all"].items()
    ]
    words = (
        f"Both count {result['rows']:,} rows on two cores of one JVM, after a warm-up with {result['warm']:,} rows. "
        "sparsehist limits the keys of each unit, writes two sorted copies to the disk and commits the series. "
        f"Spark's own distinct count writes nothing. sparsehist takes {result['ratio']:.2f} times the CPU of Spark's "
        f"own count. Target: at most {result['target']} times, for 50,000,000 rows. Load at the end: "
        f"{result['load_after']}.\n\n"
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
        f"A release of a vector with {result['entries']:,} entries, including the published values. Ratios compare "
        "its CPU with numpy's `standard_normal` (for Gaussian noise) or `laplace` (for other noise) of the same "
        "size.\n\n"
    )
    return words + table(["step", "ratio", "target"], rows)


def discrete_laplace(result: Result) -> str:
    """Exact draws on integers."""
    rows = [[step, figure(found)] for step, found in result["nanoseconds"].items()]
    faster = result["times_faster"]
    words = f"CPU nanoseconds per exact draw, of {result['sizes']['draws']:,}; numpy's draws are not exact.\n\n"
    beside = (
        f"\n`sample`, compared with OpenDP's exact `make_laplace`: {_times(faster)} (target: {result['target']}).\n"
    )
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
        f"One release of {sizes['marginals']:,} marginals of {sizes['columns']} columns, with {sizes['answers']:,} "
        f"answers. The domain has {float(sizes['domain_size']):.0e} cells, of which {sizes['nonzero_cells']:,} are "
        f"not empty. Target: at most {result['target']:g} times the GROUP BYs that compute the same marginals.\n\n"
    )
    beside = (
        f"\nThe mean variance is {result['over_the_bound']:.6f} times the lower bound by singular values. At "
        f"{sizes['max_keys']} keys per unit, the sensitivity is {result['sensitivity']:.3f}. The table shows the "
        "standard deviation of an answer at level 1/10:\n\n"
    )
    names = list(next(iter(result["std"].values())))
    errors = [[unit, *(f"{found[name]:.1f}" for name in names)] for unit, found in result["std"].items()]
    heading = ["", "CPU ms", "wall ms", "release / this, CPU", "release / this, wall"]
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
    "peers": ("The same release with other libraries", peers),
    "dense_sparse": ("Dense and sparse releases", dense_sparse),
    "lossless": ("Lossless releases, independent releases and doubling", lossless),
    "scale": ("How time and memory grow", scale),
    "running": ("A growing log", running),
    "release": ("A whole release", release),
    "before_after": ("Releases before and after a rewrite", before_after),
    "profiles": ("Where the time of each main path goes", profiles),
    "round_arithmetic": ("The arithmetic of a first round", round_arithmetic),
    "histories": ("Unlikely histories and late rounds", histories),
    "domain_size": ("Cost of a release by size of the domain and number of nonzero cells", domain_size),
    "counting": ("Counting with bounding", counting),
    "spark": ("Counting on Spark", spark),
    "spark_10m": ("Counting on Spark, fewer rows", spark),
    "peers_spark": ("Tumult Analytics on the rows that Spark counted", peers),
    "workload_error": ("Workloads: error and lower bound", workload_error),
    "sensitivity": ("Stated standard deviations of workloads, before and after", sensitivity),
    "workload_speed": ("Workloads of ten million cells", workload_speed),
    "marginals": ("All pairs of 30 columns", marginals),
    "dense_round": ("A dense round", dense_round),
    "noise": ("Draws of each family of noise", noise),
    "discrete_laplace": ("Exact integers", discrete_laplace),
    "people": ("Randomised answers, readers and interactive queries", people),
    "sql_front": ("SQL compared with Python", sql_front),
    "start": ("Time to start", start),
    "real_logs": ("Real logs", real_logs),
    "domains": ("Published keys by domain", domains),
    "bounding": ("Keep or share, and the choice of the bound", bounding),
    "key_discovery": ("Keys that nobody can list", key_discovery),
    "planned": ("Plans compared with releases", planned),
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
