"""Do README and docs/speed.md say what was measured? Writes their tables anew, from the JSON in benchmarks/results.

    python benchmarks/speed_page.py            (after measuring)
    python benchmarks/speed_page.py --check    (changes nothing; fails where the page says something else)

Every figure of those tables is computed here, and what the text beside it says of the machine and of workloads. A row
whose measurement is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

Result = Mapping[str, Any]
HERE = Path(__file__).resolve().parent
HEADING = "| question | measured |\n|---|---|\n"
TYPES_HEADING = "| user id × key | CPU time | elapsed time | memory |\n|---|---|---|---|\n"
TYPICAL = "Int64 × text"
RANDOM = "10,000,000 rows, random ids, activity 0.7"
ACTIVITIES = (0.7, 1.5)
IDS = {"small": "small whole numbers", "random": "random 64-bit numbers", "uuid": "UUIDs as text"}
SIZES = {10_000_000: "10 million rows of a million users", 50_000_000: "50 million rows of five million users"}
OPENDP, TUMULT = "OpenDP, Context on Polars", "Tumult Analytics, local Spark"


def pipeline(rows: int, ids: str) -> Callable[[Result], str]:
    """From a log of so many rows to a published file; the clock only where the machine was quiet."""

    def measured(found: Result) -> str:
        cases = [f"{rows:,} rows, {ids} ids, activity {activity}" for activity in ACTIVITIES]
        cpu, memory, wall = (
            _both([f"{found['cases'][case]['ratios']['first release'][what]['median']:.2f}" for case in cases])
            for what in ("cpu_s", "peak_mb", "wall_s")
        )
        clock = "" if found["busy"] else f", {wall} times the time on the clock"
        return f"{cpu} times the CPU{clock}, {memory} times the memory of the plain count"

    return measured


def types(results: Path) -> str:
    """The rows of README's table: the cheapest, the typical and the dearest types, by CPU; the clock if quiet."""
    result = json.loads((results / "column_types.json").read_text(encoding="utf-8"))
    found = result["cases"]
    by_cpu = sorted((name for name in found if "×" in name), key=lambda name: found[name]["cpu_s"]["median"])
    shown = dict.fromkeys([by_cpu[0], TYPICAL, by_cpu[-1]])
    cells = {
        name: [f"{found[name][what]['median']:.2f}" for what in ("cpu_s", "wall_s", "peak_mb")] for name in shown
    }
    if result["busy"]:
        cells = {name: [cpu, "–", memory] for name, (cpu, _, memory) in cells.items()}
    return "".join(f"| {' | '.join([name, *own])} |\n" for name, own in cells.items())


def downloads(found: Result) -> str:
    """The log of the CRAN mirror; the clock only where the machine was quiet."""
    (case,) = (name for name in found["cases"] if name.startswith("CRAN"))
    runs = found["all"][case]["sparsehist"]
    wall = median([run["first release"]["wall_s"] for run in runs])
    start = median([run["imports"]["wall_s"] for run in runs])
    cpu, memory = _of_the_count(found, case)
    clock = "" if found["busy"] else f"{wall:.1f} s, of which Python and its libraries take {start:.1f} s to start; "
    return f"{clock}{cpu} times the CPU and {memory} times the memory of the plain count"


def peers(found: Result) -> str:
    """Other libraries."""
    opendp, tumult = (found["cases"][RANDOM]["ratios"][name] for name in (OPENDP, TUMULT))
    wall, cpu, memory = (
        [f"{one[what]['median']:.0f}" for one in (opendp, tumult)] for what in ("wall_s", "cpu_s", "peak_mb")
    )
    times = f"{memory[0]} times our memory each" if memory[0] == memory[1] else f"{_both(memory)} times our memory"
    return f"{_both(wall)} times our time on the clock, {_both(cpu)} times our CPU, {times}"


def release(found: Result) -> str:
    """Releases all in all."""
    sizes = (10_000, 100_000)

    def took(which: str, what: str) -> str:
        cases = [found["cases"][f"{which} release of {size} rows"]["medians"][what]["wall_s"] for size in sizes]
        return _both([f"{1e3 * case['median']:.0f}" for case in cases])

    whole = "release, all in all"
    return (
        f"{took('first', whole)} ms for the first release of a series, {took('tenth', whole)} ms for the tenth; "
        f"writing the table alone takes {took('first', 'write the table')} ms"
    )


def dense_sparse(found: Result) -> str:
    """A round beside the dense one."""
    (row,) = (row for row in found["compared"] if row["chunked"] and row["nonzero"] == 10**6)
    dense, sparse = (row[way]["rounds_wall_s"]["median"] for way in ("dense", "sparse"))
    return (
        f"{row['times_faster']['rounds_wall_s']['median']:.0f} times faster: {1e3 * sparse:.0f} ms instead of "
        f"{dense:.1f} s"
    )


def nonzero(found: Result) -> str:
    """A round by the number of nonzero cells."""
    apart = found["durable"]["first release"]["apart"]["cpu_s"]
    return f"CPU times differ by at most {math.ceil(100 * apart)} %"


def domain_size(found: Result) -> str:
    """A round by the size of the domain."""
    apart = found["arithmetic"]["apart"]["cpu_s"]
    return f"CPU times differ by at most {math.ceil(100 * apart)} %"


def workload_speed(found: Result) -> str:
    """Prefix sums and ranges."""
    ratios = {name: f"{one['median']:.1f}" for name, one in found["ratios"]["cpu_s"].items()}
    again, new = (
        _both([ratios[f"{name}, {what}"] for name in ("prefix sums", "ranges")])
        for what in ("first level", "a new path")
    )
    return f"{again} times the CPU; {new} times for the first release, which also prepares the workload"


def marginals(found: Result) -> str:
    """All pairs of columns."""
    shares = sorted(round(100 * one["median"]) for one in found["ratios"]["cpu_s"].values())
    wall = found["medians"]["noisy marginals, all in all"]["wall_s"]["median"]
    return f"{wall:.2f} s, {shares[0]} to {shares[-1]} % of the CPU of 435 GROUP BYs for these pairs"


def sql_front(found: Result) -> str:
    """SQL over Python."""
    cpu, wall = (found["ratios"][what]["median"] for what in ("cpu_s", "wall_s"))
    return f"{cpu:.2f} times the CPU, {wall:.2f} times the time on the clock"


def dense_round(found: Result) -> str:
    """Rounds over a vector."""
    ratios = sorted(one["median"] for name, one in found["ratios"].items() if name.startswith("Gaussian"))
    return f"{ratios[0]:.1f} to {ratios[-1]:.1f} times the CPU of numpy's `standard_normal`"


def discrete_laplace(found: Result) -> str:
    """Exact draws."""
    ours, theirs = (found["nanoseconds"][name]["median"] for name in ("sample 2", "opendp make_laplace, scale 2"))
    return f"{ours:.0f} ns; OpenDP's exact sampler takes {theirs / 1e3:.1f} µs"


ROWS: list[tuple[str, Callable[[Result], str], str]] = [
    *(
        (
            "pipeline",
            pipeline(rows, ids),
            f"a release of {size}, whose ids are {kind}",
        )
        for rows, size in SIZES.items()
        for ids, kind in IDS.items()
    ),
    (
        "pipeline",
        downloads,
        "a release of the packages that users downloaded from a CRAN mirror on twelve days, 1.6 million rows",
    ),
    (
        "peers",
        peers,
        "OpenDP (Context on Polars) and Tumult (local Spark) on the same 10 million rows with random ids and σ = 0.7",
    ),
    (
        "release",
        release,
        "a durable release of 10,000 and of 100,000 rows, from opening the store to the published Parquet file",
    ),
    (
        "dense_sparse",
        dense_sparse,
        "a durable sparse release of 10⁹ cells, 10⁶ of them nonzero, compared with a dense one",
    ),
    ("domain_size", nonzero, "a release of the same size if 10⁵, 10⁶ or 10⁷ keys were counted"),
    ("domain_size", domain_size, "the arithmetic of a release for domains of 10⁶, 10¹², 10¹⁸ and 10⁶⁹ cells"),
    (
        "workload_speed",
        workload_speed,
        "a release of prefix sums and of all ranges of 10⁷ keys, compared with two Fourier transforms of this length",
    ),
    ("marginals", marginals, "a release of all marginals over two of 30 columns, for 10⁶ nonzero cells of 10²⁰"),
    ("sql_front", sql_front, "a series and its release in SQL, compared with the same query in Python"),
    ("dense_round", dense_round, "a dense Gaussian release"),
    ("discrete_laplace", discrete_laplace, "an exact draw of discrete Laplace noise"),
]


def rows_of(results: Path) -> list[str]:
    """The table's rows."""
    rows = []
    for name, measured, question in ROWS:
        try:
            found = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
            rows.append(f"| {question} | {measured(found)} |\n")
        except (KeyError, ValueError, FileNotFoundError):  # that size, or that log, was not measured
            print(f"{question}: not measured")
    return rows


def beside_the_table(results: Path) -> set[str]:
    """What the text has to say: where all of it was measured, and how near to their bound workloads are."""
    found = {name: json.loads((results / f"{name}.json").read_text(encoding="utf-8")) for name, *_ in ROWS}
    cores = {1: "one core", 2: "two cores", 4: "four cores", 8: "eight cores"}
    machines = [one["machine"] for one in found.values()]
    said = {f"measured on {cores.get(one['cores'], one['cores'])} of an {one['processor']}" for one in machines}
    priced = json.loads((results / "workload_error.json").read_text(encoding="utf-8"))["rows"]
    over = [
        max(row["ratio"] for row in priced if row["chosen"] and (row["workload"], row["max_keys"]) == (workload, 1))
        for workload in ("all ranges", "prefix sums")
    ]
    return said | {f"at most {math.ceil(100 * (ratio - 1))} % above" for ratio in over}


def _of_the_count(found: Result, case: str) -> list[str]:
    ratios = found["cases"][case]["ratios"]["first release"]
    return [f"{ratios[what]['median']:.2f}" for what in ("cpu_s", "peak_mb")]


def _both(texts: list[str]) -> str:
    return " and ".join(texts)


def main() -> None:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "speed.md")
    parser.add_argument("--readme", type=Path, default=HERE.parent / "README.md")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    tables = {
        options.page: (HEADING, "".join(rows_of(options.results))),
        options.readme: (TYPES_HEADING, types(options.results)),
    }
    wrong = []
    for page, (heading, new) in tables.items():
        before, _, rest = page.read_text(encoding="utf-8").partition(heading)
        old, _, after = rest.partition("\n\n")
        wrong += sorted(set(old.splitlines()) ^ set(new.splitlines()))
        if not options.check:
            page.write_text(f"{before}{heading}{new}\n{after}", encoding="utf-8")
            print(new)
    text = options.page.read_text(encoding="utf-8")
    missing = [words for words in beside_the_table(options.results) if words not in text]
    if options.check and wrong + missing:
        raise SystemExit("docs/speed.md or README.md and benchmarks/results differ:\n" + "\n".join(wrong + missing))
    print("\n".join(f"not in docs/speed.md: {words}" for words in missing))


if __name__ == "__main__":
    main()
