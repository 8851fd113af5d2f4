"""Sections of the page that set releases beside something else: dense ones, independent ones, peers, plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from _markdown import figure, milliseconds, short, table

Result = Mapping[str, Any]


def dense_sparse(result: Result) -> str:
    """Dense beside sparse, and how sparse releases grow."""
    rows = []
    for row in result["compared"]:
        rows.append([f"{row['cells']}{' in chunks' if row['chunked'] else ''}", str(row["m"]), f"{row['nonzero']:,}"])
        for what in ("rounds_wall_s", "peak_mb"):
            rows[-1] += [short(row[way][what]["median"]) for way in ("dense", "sparse")]
        rows[-1].append(figure(row["times_faster"]["rounds_wall_s"]))
    heading = [
        "cells",
        "rounds",
        "nonzero",
        "dense s",
        "sparse s",
        "dense MB",
        "sparse MB",
        "dense over sparse, clock",
    ]
    words = (
        "The levels increase from release to release. A dense release draws noise for every cell and writes nothing. "
        "A sparse release opens the store, draws noise and commits it durably. Target: for 10⁹ cells, of which 10⁶ "
        f"are nonempty, sparse releases are {result['target']} times faster than dense ones. (With so many cells, "
        "dense noise is drawn in chunks.)\n"
    )
    text = [words, table(heading, rows)]
    for name, grown in result["growth"].items():
        lines = [
            [_changed(name, row), short(row["sparse"]["rounds_cpu_s"]["median"]),
             short(row["sparse"]["rounds_wall_s"]["median"]), short(row["sparse"]["peak_mb"]["median"])]
            for row in grown
        ]  # fmt: skip
        text.append(f"\nSparse releases, by {name}:\n\n" + table([name, "CPU s", "wall s", "peak MB"], lines))
    return "\n".join(text)


def _changed(name: str, row: Result) -> str:
    if name == "rounds":
        return str(row["m"])
    return str(row[name]) if name == "domain" else f"{row[name]:,}"


def lossless(result: Result) -> str:
    """Lossless releases beside independent ones and doubling."""
    variances = result["variances"]
    numbers = sorted({row["releases"] for row in variances})
    ways = list(dict.fromkeys(row["way"] for row in variances))
    rows = []
    for m in numbers:
        rows.append([str(m)])
        for way in ways:
            times = [row["times_lossless"] for row in variances if (row["releases"], row["way"]) == (m, way)]
            rows[-1].append(f"{min(times):.2f} to {max(times):.2f}")
    words = (
        "Releases for m audiences have levels from ρ = 0.001 to 5. The table shows the variance of the noise "
        "divided by that of a single release, for the least and the most affected audience. It was measured over "
        f"{result['cells']:,} cells, and differs from the formulas by at most {result['furthest_off']:.1%}. The "
        "picture repeats Figure 2 of Andersson, Retschmeier, Nelson and Pagh. Target: 1 for lossless releases.\n"
    )
    text = [words, table(["audiences", *ways], rows)]
    for log in dict.fromkeys(row["log"] for row in result["end_to_end"]):
        text += [
            f"\n**{log}**: published keys, and mean error in units, of ten audiences at the same total budget.\n"
        ]
        levels = list(dict.fromkeys(row["audience"] for row in result["end_to_end"] if row["log"] == log))
        lines = []
        for level in levels:
            lines.append([f"{level:g}"])
            for way in ways:
                (row,) = (
                    row
                    for row in result["end_to_end"]
                    if (row["log"], row["audience"], row["way"]) == (log, level, way)
                )
                lines[-1].append(f"{row['published']:,.0f}, {row['mean_error']:.1f}")
        text.append(table(["ρ", *ways], lines))
    return "\n".join(text)


def peers(result: Result) -> str:
    """The same release elsewhere."""
    versions = ", ".join(result["versions_of_peers"]) or "no peer was installed"
    words = (
        "Each library reads a Parquet log and writes a published Parquet file, in a separate process and "
        f"environment ({versions}). Target: OpenDP takes at least 10 times our time, and Tumult Analytics 80 times.\n"
    )
    heading = ["", "wall s", "times ours", "CPU s", "times ours", "peak MB", "times ours"]
    text = [words]
    for case, compared in result["cases"].items():
        ratios, rows = compared["ratios"], []
        for name, found in compared["medians"].items():
            rows.append([name])
            for what in ("wall_s", "cpu_s", "peak_mb"):
                rows[-1] += [short(found[what]["median"]), figure(ratios[name][what]) if name in ratios else ""]
        rows += [[name, why, *[""] * 5] for name, why in compared["given_up"].items()]
        busy = ", **busy**" if compared["busy"] else ""
        runs = f"{compared['runs']} run{'s' if compared['runs'] > 1 else ''}"
        taken = f"{runs}, {compared['when']}, commit {compared['commit']}, load {compared['load']}{busy}"
        text.append(f"{case} ({taken}):\n\n" + table(heading, rows))
    return "\n".join(text)


def planned(result: Result) -> str:
    """Plans beside what happened."""
    rows = [
        [row["log"], row["level"], *_seen(row, ("published", "total_error", "false_keys"))]
        for row in result["compared"]
    ]
    text = (
        f"The table compares the planned with the observed figures. They differ by at most {result['furthest']:.2f} "
        f"standard deviations; the target is {result['target']:g}.\n\n"
    )
    heading = ["log", "level"]
    for what in ("published keys", "sum of errors", "false keys"):
        heading += [f"{what}: planned", "observed", "difference in std"]
    return text + table(heading, rows)


def _seen(row: Result, what: Sequence[str]) -> list[str]:
    cells = []
    for name in what:
        cells += [short(row[f"{name}_planned"]), short(row[name]), f"{row[f'{name}_z']:+.1f}"]
    return cells


def before_after(result: Result) -> str:
    """Releases beside those of an earlier commit."""
    targets = result["targets"]
    rows = [
        [case, *(milliseconds(found["cpu_s"][name]) for name in ("before", "after")), figure(found["ratio"])]
        for case, found in result["cases"].items()
    ]
    said = [f"Target: at most {targets['ratio']} times the earlier CPU, for 10⁴ rows in memory.\n"]
    said.append(table(["CPU ms", "before", "after", "after / before"], rows))
    for name, found in result.get("growth", {}).items():
        early, late = found["between"]
        said.append(
            f"{name.capitalize()} a rewrite, release {late} of a series takes {figure(found['times'])} times as "
            f"long as release {early}. Target: at most {targets['growth']} times.\n"
        )
    if "waiting" in result:
        found = result["waiting"]
        said.append(
            f"If {found['processes']} processes request an existing release at once, all of them finish within "
            f"{found['wall_s']:.1f} s. If each requests a new release, all finish within {found['new_wall_s']:.1f} "
            "s.\n"
        )
    for name, numbers in result.get("synchronised", {}).items():
        said.append(
            f"Number of files and directories that each of ten releases synchronises, {name} the rewrite: "
            f"{', '.join(map(str, numbers))}.\n"
        )
    return "\n".join(said)


def domains(result: Result) -> str:
    """How many keys are published, whatever could have occurred."""
    rows = [
        [row["domain"], f"{row['threshold']:.1f}", f"{row['published']:,.0f} ± {row['standard_error']:.1f}"]
        for row in result["rows"]
    ]
    return (
        f"The log is {result['log']}, released at ρ = {result['level']} with {result['max_keys']} keys per unit. "
        f"Figures are means of {result['runs']} runs with their standard errors.\n\n"
        + table(["domain", "threshold", "keys published"], rows)
    )


def bounding(result: Result) -> str:
    """What bounding costs, both ways, and how near to the best the private choice of the bound comes."""
    rows = [
        [
            row["log"],
            row["bounding"],
            str(row["max_keys"]),
            f"{row['relative_error']:.4f} ± {3 * row['standard_errors'][0]:.4f}",
            f"{row['published']:,.1f} ± {3 * row['standard_errors'][1]:.1f}",
        ]
        for row in result["rows"]
    ]
    choices = [
        [
            choice["log"],
            *(" ".join(map(str, choice[what])) for what in ("best", "taken")),
            f"{choice['over_the_best']:.3f} ({choice['largest']:.3f})",
            f"{choice['within_target']:.0%}",
        ]
        for choice in result["choices"]
    ]
    return (
        f"Figures are means of {result['runs']} runs at level {result['level']} with different salts and noise, ± "
        "three standard errors. The relative error is the median over the 200 largest keys, compared with counts of "
        "the log without a bound. Keys are published at a threshold for 0.01 expected false keys.\n\n"
        + table(["log", "bounding", "max_keys", "relative error", "keys published"], rows)
        + "\nThe next table is about `choose_max_keys` at level 0.005. It shows the root mean square error of the "
        "500 largest keys under the chosen bound, divided by that under the best bound in hindsight. Target: "
        f"{result['target']} on average.\n\n"
        + table(
            ["log", "best bound", "most frequent choice", "error / best (largest)", "runs within the target"], choices
        )
    )


def key_discovery(result: Result) -> str:
    """How many keys each way finds."""
    rows = [
        [row["log"], row["way"], f"{row['keys']:,}", f"{row['median']:,.0f} ({row['least']:,} to {row['most']:,})"]
        for row in result["rows"]
    ]
    return (
        f"Each way discovers or publishes keys at level {result['level']} and delta {result['delta']}. Figures are "
        f"medians of {result['runs']} runs with different salts and noise, with the smallest and largest number of "
        f"keys. Target: {result['target']:,} packages in three rounds.\n\n"
        + table(["log", "way", "keys of the log", "found"], rows)
    )
