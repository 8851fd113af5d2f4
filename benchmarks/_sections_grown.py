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
    exponents = ", ".join(
        f"{row['from']:,} to {row['to']:,}: {row['release_wall_s']:.2f} (CPU {row['release_cpu_s']:.2f})"
        for row in result["tracked"]["exponents"]
    )
    again = result["releases"]
    capped = [
        [" ".join(filter(None, [row.get("engine"), row["limit"] or "no limit"])), f"{row['rows']:,}",
         short(row["create_cpu_s"]["median"]), short(row["create_wall_s"]["median"]), short(row["peak_mb"]["median"])]
        for row in result["capped"]
    ]  # fmt: skip
    of_tracked = (
        "\nA second release over tracked cells, less one that tracks nothing. Exponent of the growth on the clock: "
        f"{exponents}; target {targets['exponent']} from 10⁶ to 10⁷. Memory beyond what was resident before, a "
        f"tracked cell with its key of 8 bytes; target {targets['bytes_a_cell']} beyond the key.\n"
    )
    of_releases = (
        f"\nRelease {again['number']} of a path over release 10, {again['cells']:,} tracked cells: "
        f"{again['release_wall_s']['ratio']:.2f} on the clock, {again['release_cpu_s']['ratio']:.2f} of CPU; target "
        f"{targets['hundredth']}.\n"
    )
    of_memory = (
        "Counting a log with and without a limit of memory; target: 50 million rows within "
        f"{targets['memory_mb']:,} MB.\n"
    )
    return "\n".join(
        [
            "Making a series of given counts, and its first release of 5,000 rows:\n",
            table(["nonzero cells", "made, s", "released, ms", "peak MB"], nonzero),
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
        f"\n{result['days']} days of {result['rows']:,} rows over {result['keys']:,} keys, appended and released; "
        f"in the end {year['tracked']:,} keys are tracked and {year['published']:,} published. The first release "
        f"took {first['wall_s']:.2f} s (CPU {first['cpu_s']:.2f} s), the last one {last['wall_s']:.2f} s (CPU "
        f"{last['cpu_s']:.2f} s); targets {targets['first_release_s']} s and {targets['last_release_s']} s. Peak "
        f"memory {year['peak_mb']:,.0f} MB, target {targets['last_release_mb']:,} MB; the store holds "
        f"{year['stored_mb']:,.0f} MB.\n"
    )
    of_append = (
        f"A day appended, beside counting it in memory and beside a fresh series of it; all {result['keys']:,} keys "
        f"are there from the first day. Target: at most {targets['append']} times the series, which is "
        "counted, sorted and written, too.\n"
    )
    of_fresh = (
        f"Running counts of every day beside fresh series of the same counts, each at ρ = {result['together']} in "
        "total; the error is the root mean square over what is published.\n"
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
            table(["rows of a day", "steps before", "append, CPU ms", "over counting", "over a fresh series"], rows),
            of_year,
            of_fresh,
            table(
                ["", "day", "keys", "published, running", "published, fresh", "error, running", "error, fresh"],
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
        f"{result['sizes']['draws']:,} draws, CPU nanoseconds per draw.\n\n"
        + table(["ns", *steps], rows)
        + f"\nBeside them; normals from AES over normals from PCG64: {figure(result['stream'])}, target "
        f"{result['target']:g}.\n\n" + table(["", "ns"], beside)
    )


def people(result: Result) -> str:
    """Randomised answers, reports, views and interactive queries."""
    sizes, found = result["sizes"], result["seconds"]
    rows = [
        [name, *(f"{1e6 * found[name][part]:,.3g}" for part in ("median", "lower", "upper")), f"{1e6 * target:,g}"]
        for name, target in result["targets"].items()
    ]
    return (
        f"CPU microseconds each, for {sizes['people']:,} people, {sizes['edges']:,} edges and at most "
        f"{sizes['cells']:,} cells.\n\n" + table(["µs", "median", "lower", "upper", "target"], rows)
    )


def column_types(result: Result) -> str:
    """Each pair of types and kind of source, beside Polars' plain count."""
    words = (
        f"{result['rows']:,} rows, from log to published file in a process of its own, over Polars' plain count of "
        "distinct units per key of the same columns. Added is CPU beyond that count, for 10^7 rows. Target: 1.2 "
        "times what Int64 × text adds, 2 times for three key columns, 1.5 times the count for every source.\n\n"
    )
    measures = ("plain_cpu_s", "cpu_s", "wall_s", "peak_mb", "added_cpu_s")
    rows = [[name, *(f"{found[what]['median']:.2f}" for what in measures)] for name, found in result["cases"].items()]
    return words + table(["", "plain CPU s", "CPU", "clock", "peak", "added CPU s"], rows)


def pipeline(result: Result) -> str:
    """From a log to a published file, beside the cheaper plain count."""
    target = result["target"]
    words = (
        "Each in a process of its own, imports included. Ratios are to the cheaper plain count of distinct units per "
        "key in the same turn (Polars streaming, DuckDB; nothing is bounded there, nothing is private). Target up to "
        f"the first published file: {target['cpu_s']} of its CPU, {target['peak_mb']} of its memory.\n"
    )
    if any(case.startswith("CRAN") for case in result["cases"]):
        words += "The days of the CRAN mirror's download log were put into one Parquet file before the clock ran.\n"
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
            listed = ", ".join(f"{figure(times)} on {cores}" for cores, times in faster.items())
            text.append(f"Times as fast as on one core (simulated: the main thread's share is serial): {listed}.\n")
    return "\n".join(text)


def floor(result: Result) -> str:
    """The same work in C, beside the cheaper plain count."""
    words = (
        "A C program (`benchmarks/floor.c`) does the work of counting on two threads: exact codes, distinct pairs, "
        "bound, counts. Reading is Arrow's, of texts Polars'. CPU by step, without imports. Ratios are to the "
        "cheaper plain count of the same turn, imports included.\n"
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
        "CPU time of all threads, charged every millisecond to the part of the package that is at work and the "
        "library it has called. What NumPy and SciPy do counts as the part's own; so does what DuckDB and SQLite do; "
        "what is counted in threads beside the main one stands at `threads`. "
        f"{result['rows']:,} rows are counted, {result['published']:,} "
        f"published; workloads have {result['cells']:,} cells, plan and SQL a log of {result['few_rows']:,} rows.\n"
    )
    text = [words]
    for path, found in result["paths"].items():
        rows = [[name, f"{share:.1%}"] for name, share in found["shares"].items()]
        measures = f"CPU {milliseconds(found['cpu_s'])} ms, clock {milliseconds(found['wall_s'])} ms"
        text.append(f"**{path}**: {measures}, {found['runs']} runs\n\n" + table(["", "share of CPU"], rows))
    return "\n".join(text)
