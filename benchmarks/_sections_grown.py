"""Sections of the page on growth, on single draws, on whole pipelines, and on where their time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from _markdown import figure, milliseconds, short, table

Result = Mapping[str, Any]
PUBLISHED = "first release"


def scale(result: Result) -> str:
    """How time and memory grow."""
    targets = result["targets"]
    nonzero = [
        [f"{row['nonzero']:,}", short(row["create_wall_s"]["median"]), short(1e3 * row["release_wall_s"]["median"]),
         short(row["peak_mb"]["median"])]
        for row in result["nonzero"]
    ]  # fmt: skip
    tracked = [
        [f"{row['tracked']:,}", *(short(row["net"][what]["median"]) for what in ("release_wall_s", "release_cpu_s")),
         figure(row["bytes_a_cell"]), short(row["peak_mb"]["median"])]
        for row in result["tracked"]["rows"]
    ]  # fmt: skip
    exponents = ", and ".join(
        f"{row['release_wall_s']:.2f} on the clock and {row['release_cpu_s']:.2f} of CPU from {row['from']:,} to "
        f"{row['to']:,} cells"
        for row in result["tracked"]["exponents"]
    )
    again = result["releases"]
    capped = [
        [" ".join(filter(None, [row.get("engine"), row["limit"] or "no limit"])), f"{row['rows']:,}",
         short(row["create_cpu_s"]["median"]), short(row["create_wall_s"]["median"]), short(row["peak_mb"]["median"])]
        for row in result["capped"]
    ]  # fmt: skip
    of_tracked = (
        "\nThe next table shows the second release of a series with tracked cells, minus the time of a release "
        "without tracked cells. Time grows with a power of the number of tracked cells. The exponents are "
        f"{exponents}. Target: at most {targets['exponent']} from 10⁶ to 10⁷. Memory is the additional memory per "
        f"tracked cell, including its key of 8 bytes. Target: at most {targets['bytes_a_cell']} bytes without the "
        "key.\n"
    )
    of_releases = (
        f"\nWith {again['cells']:,} tracked cells, release {again['number']} of a series takes "
        f"{again['release_wall_s']['ratio']:.2f} times the time on the clock and "
        f"{again['release_cpu_s']['ratio']:.2f} times the CPU of release 10. Target: at most {targets['hundredth']} "
        "times.\n"
    )
    of_memory = (
        "The next table shows counting of a log with and without a memory limit. Target: 50 million rows within "
        f"{targets['memory_mb']:,} MB.\n"
    )
    return "\n".join(
        [
            "The table shows the creation of a series from given counts, and its first release of 5,000 rows:\n",
            table(["nonzero cells", "creation, s", "release, ms", "peak MB"], nonzero),
            of_tracked,
            table(["tracked cells", "wall s", "CPU s", "bytes per cell", "peak MB"], tracked),
            of_releases,
            of_memory,
            table(["engine, limit", "rows", "CPU s", "wall s", "peak MB"], capped),
        ]
    )


def running(result: Result) -> str:
    """A log that goes on."""
    targets, year = result["targets"], result["year"]
    rows = [
        [f"{case['rows']:,}", str(case["after"]), milliseconds(case["medians"]["append"]["cpu_s"]),
         *(figure(case["ratios"][name]) for name in ("count", "a series of the day"))]
        for case in result["append"]
    ]  # fmt: skip
    first, last = year["first"]["release"], year["last"]["release"]
    of_year = (
        f"\n{result['days']} days with {result['rows']:,} rows each and {result['keys']:,} keys in total were "
        f"appended and released. At the end, {year['tracked']:,} keys are tracked and {year['published']:,} are "
        f"published. The first release took {first['wall_s']:.2f} s (CPU {first['cpu_s']:.2f} s), and the last one "
        f"{last['wall_s']:.2f} s (CPU {last['cpu_s']:.2f} s). The targets are {targets['first_release_s']} s and "
        f"{targets['last_release_s']} s. The peak memory is {year['peak_mb']:,.0f} MB (target: "
        f"{targets['last_release_mb']:,} MB), and the store takes {year['stored_mb']:,.0f} MB.\n"
    )
    of_append = (
        "The table compares appending a day with counting the day in memory, and with creating a new series from "
        f"this day. All {result['keys']:,} keys occur on the first day. Target: at most {targets['append']} times "
        "the CPU of the new series, which is also counted, sorted and written.\n"
    )
    of_fresh = (
        "The next table compares one running series with the alternative of making a new series each day that counts "
        f"all days so far. Either way, all releases together cost ρ = {result['together']}. The error is the root "
        "mean square error over the published keys.\n"
    )
    compared = []
    for name, days in result["fresh"].items():
        compared += [
            [name if day is days[0] else "", str(day["step"]), f"{day['keys']:,}",
             *(f"{day[kind][what]:,.{digits}f}" for what, digits in (("published", 0), ("rms_error", 1))
               for kind in ("running", "fresh"))]
            for day in (days[0], days[len(days) // 2], days[-1])
        ]  # fmt: skip
    return "\n".join(
        [
            of_append,
            table(
                ["rows of a day", "earlier steps", "append, CPU ms", "append / count", "append / new series"], rows
            ),
            of_year,
            of_fresh,
            table(
                [
                    "",
                    "day",
                    "keys",
                    "published, running",
                    "published, new series",
                    "error, running",
                    "error, new series",
                ],
                compared,
            ),
        ]
    )


def noise(result: Result) -> str:
    """A draw of every family and step."""
    found = result["nanoseconds"]
    families = [name.removesuffix(", sample") for name in found if name.endswith(", sample")]
    steps = ["sample", "coarsen", "refine", "between", "sample_tail", "carry of a pair"]
    rows = [[family, *(f"{found[f'{family}, {step}']['median']:.1f}" for step in steps)] for family in families]
    others = [name for name in found if not any(name.startswith(f"{family},") for family in families)]
    beside = [[name, f"{found[name]['median']:,.1f}"] for name in others]
    return (
        f"The table shows CPU nanoseconds per draw, measured over {result['sizes']['draws']:,} draws.\n\n"
        + table(["ns", *steps], rows)
        + "\nFor comparison, the next table shows other samplers. Normals from AES take "
        f"{figure(result['stream'])} times as long as normals from PCG64. Target: at most {result['target']:g} "
        "times.\n\n" + table(["", "ns"], beside)
    )


def people(result: Result) -> str:
    """Randomised answers, reports, views and interactive queries."""
    sizes, found = result["sizes"], result["seconds"]
    rows = [
        [name, *(f"{1e6 * found[name][part]:,.3g}" for part in ("median", "lower", "upper")), f"{1e6 * target:,g}"]
        for name, target in result["targets"].items()
    ]
    return (
        f"The table shows CPU microseconds per operation, for {sizes['people']:,} people, {sizes['edges']:,} edges "
        f"and at most {sizes['cells']:,} cells.\n\n" + table(["µs", "median", "lower", "upper", "target"], rows)
    )


def column_types(result: Result) -> str:
    """Each pair of types and kind of source, beside Polars' plain count."""
    words = (
        f"Each release goes from a log of {result['rows']:,} rows to a published file, in a separate process. Ratios "
        "compare it with Polars' plain count of distinct units per key, on the same columns. Added CPU is the CPU "
        "of the release minus that of the plain count, for 10^7 rows. Targets: the added CPU is at most 1.2 times "
        "that of Int64 × text, or 2 times for three key columns. Every source takes at most 1.5 times the plain "
        "count.\n\n"
    )
    measures = ("plain_cpu_s", "cpu_s", "wall_s", "peak_mb", "added_cpu_s")
    rows = [[name, *(f"{found[what]['median']:.2f}" for what in measures)] for name, found in result["cases"].items()]
    return words + table(["", "plain CPU s", "CPU", "clock", "peak", "added CPU s"], rows)


def pipeline(result: Result) -> str:
    """From a log to a published file, beside the cheaper plain count."""
    target = result["target"]
    words = (
        "Each contender runs in a separate process, and imports are included. Ratios compare with the cheaper plain "
        "count of distinct units per key in the same turn (Polars streaming or DuckDB). This count is not private "
        "and does not limit the keys of a unit. *Activity* is the standard deviation of the logarithm of the number "
        f"of rows per user. Target up to the first published file: {target['cpu_s']} times its CPU and "
        f"{target['peak_mb']} times its memory.\n"
    )
    if any(case.startswith("CRAN") for case in result["cases"]):
        words += (
            "The days of the CRAN mirror's download log were copied into one Parquet file before the measurement.\n"
        )
    text = [words]
    heading = ["", *(cell for what in ("CPU s", "wall s", "peak MB") for cell in (what, "ratio"))]
    for case, found in result["cases"].items():
        runs = result["all"][case]
        rows = [
            [name, *_with_ratios([run[PUBLISHED] for run in of_plain], {})]
            for name, of_plain in runs.items()
            if name != "sparsehist"
        ]
        rows += [
            [f"to {phase}", *_with_ratios([run[phase] for run in runs["sparsehist"]], ratios)]
            for phase, ratios in found["ratios"].items()
        ]
        alone = [_difference(run["tenth release"], run["ninth release"]) for run in runs["sparsehist"]]
        rows.append(["the tenth release alone", *_with_ratios(alone, {})])
        text.append(f"{case}:\n\n" + table(heading, rows))
        if faster := found.get("speed_up"):
            listed = "; ".join(
                f"{figure(times)} on {cores.replace(', on the clock', ', measured')}"
                for cores, times in faster.items()
            )
            text.append(
                f"Speed-up compared with one core: {listed}. (Simulated: the work of the main thread is assumed to "
                "be serial.)\n"
            )
    return "\n".join(text)


def floor(result: Result) -> str:
    """The same work in C, beside the cheaper plain count."""
    words = (
        "A C program (`benchmarks/floor.c`) does the work of counting on two threads. It computes exact codes of "
        "values, removes duplicate pairs, limits the keys of each unit, and counts. Arrow reads the files; Polars "
        "reads texts. The CPU of each step excludes imports. Ratios compare with the cheaper plain count in the "
        "same turn, imports included.\n"
    )
    steps = list(next(iter(result["cases"].values()))["steps"])
    rows = []
    for case, found in result["cases"].items():
        rows.append([case, *(short(found["steps"][step]["median"]) for step in steps)])
        for what in ("cpu_s", "wall_s", "peak_mb"):
            rows[-1] += [short(found["floor"][what]["median"]), figure(found["ratios"][what])]
    heading = [f"{step}, CPU s" for step in steps]
    return words + "\n" + table(["", *heading, "all CPU s", "ratio", "wall s", "ratio", "peak MB", "ratio"], rows)


def _with_ratios(runs: Sequence[Result], ratios: Result) -> list[str]:
    """Medians, each with its ratio where there is one."""
    cells = []
    for what in ("cpu_s", "wall_s", "peak_mb"):
        cells.append(short(median(run[what] for run in runs)) if what in runs[0] else "")
        cells.append(figure(ratios[what]) if what in ratios else "")
    return cells


def _difference(later: Result, before: Result) -> Result:
    """Seconds between two phases; memory is a peak, and has no difference."""
    return {what: later[what] - before[what] for what in ("cpu_s", "wall_s")}


def profiles(result: Result) -> str:
    """Shares of CPU by part of the package."""
    words = (
        "Every millisecond, the CPU time of all threads is charged to the part of the package that runs, and to the "
        "library that it has called. Calls of NumPy, SciPy, DuckDB and SQLite are charged to the part itself. The "
        f"CPU of threads other than the main one is shown as `threads`. The main paths count {result['rows']:,} rows "
        f"and publish {result['published']:,}. Workloads have {result['cells']:,} cells. The plan and SQL use a log "
        f"of {result['few_rows']:,} rows.\n"
    )
    text = [words]
    for path, found in result["paths"].items():
        rows = [[name, f"{share:.1%}"] for name, share in found["shares"].items()]
        taken = f"{milliseconds(found['cpu_s'])} ms of CPU and {milliseconds(found['wall_s'])} ms on the clock"
        text.append(f"**{path}** takes {taken} ({found['runs']} runs).\n\n" + table(["", "share of CPU"], rows))
    return "\n".join(text)
