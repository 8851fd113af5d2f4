"""A log that goes on: what a day costs to append, a year of daily releases, and what is published beside fresh ones.

    python benchmarks/running.py --cran DIRECTORY --out running.json

Days are made up (`_logs.Year`): random 64-bit ids that come back, keys that come up and die. Without the download log
of the CRAN mirror, the comparison with fresh series is that of the made-up year alone.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _child import answered_parent, in_child
from _logs import Year
from _measure import arguments, figure, options_of, ratio, report, summary, table, timed
from real_logs import downloads

import sparsehist as sh
from sparsehist.counting.count import count_keys
from sparsehist.release.steps import StepFiles

QUESTION = "What does a log that goes on cost, day by day, and what does it publish beside fresh series?"
TARGETS = {"append": 1.5, "last_release_s": 10, "last_release_mb": 4000, "first_release_s": 1}
MAX_KEYS, DOMAIN = 20, sh.Strings(max_bytes=32)
TOGETHER = "0.1"
"""Level of all releases of a log together."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for a store and a day's file."""
    directory = Path(tempfile.mkdtemp())
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def opened(directory: Path, steps: int) -> sh.RunningSeries:
    """A running series of made-up days."""
    return sh.create(
        directory / "store",
        name="year",
        unit="user_id",
        key="query",
        max_keys=MAX_KEYS,
        domain=DOMAIN,
        steps=steps,
    )


def appended(rows: int, after: Sequence[int], keys: int, units: int, runs: int) -> list[dict[str, Any]]:
    """Append days of so many rows, beside counting them, once so many steps and all keys are there."""
    found = []
    with scratch() as directory:
        log, path = Year(keys, units, rows), directory / "day.parquet"
        series = opened(directory, 2000)
        # The first day has every key, so that whatever comes meets all of them.
        everything = pl.DataFrame({"query": [f"q{i * 2654435761 % 2**32}" for i in range(keys)]})
        everything.with_row_index("user_id").cast({"user_id": pl.Int64}).write_parquet(path)
        series.append(path, step=1)
        step = 1

        def count() -> None:
            count_keys(
                path, unit="user_id", key=["query"], max_keys=MAX_KEYS, domain=DOMAIN, salt=bytes(16),
                temporary_directory=directory,
            )  # fmt: skip

        def append() -> None:
            series.append(path, step=step)

        def create() -> None:
            sh.create(
                directory / f"fresh_{step}", path, name="day", unit="user_id", key="query", max_keys=MAX_KEYS,
                domain=DOMAIN,
            )  # fmt: skip

        count(), create()  # what is loaded once
        shutil.rmtree(directory / "fresh_1")
        for steps in after:
            timings: dict[str, list[Any]] = {"append": [], "count": [], "a series of the day": []}
            while len(timings["append"]) < runs:
                step += 1
                log.day(step).write_parquet(path)
                if step <= steps:
                    append()
                    continue
                for name, work in (("append", append), ("count", count), ("a series of the day", create)):
                    timings[name].append(timed(work))
                shutil.rmtree(directory / f"fresh_{step}")
            found.append({"rows": rows, "after": steps, "timings": timings})
    return found


def year(days: int, keys: int, units: int, rows: int, level: str) -> dict[str, Any]:
    """Append a year of days, release after each; what each took."""
    log, spans = Year(keys, units, rows), []
    with scratch() as directory:
        series, path = opened(directory, days), directory / "day.parquet"
        for step in range(1, days + 1):
            log.day(step).write_parquet(path)
            append = timed(lambda step=step: series.append(path, step=step))
            release = timed(lambda step=step: series.release(f"day_{step}", step=step, level=level))
            spans.append({"step": step, "append": append._asdict(), "release": release._asdict()})
        published = len(series.release(f"day_{days}"))
        with series._hold() as (state, record):
            tracked = state.tracked(record.path_id).position.size
        stored = sum(file.stat().st_size for file in (directory / "store").rglob("*") if file.is_file())
    return {"spans": spans, "published": published, "tracked": tracked, "stored_mb": stored / 1e6}


def beside_fresh(logs: Sequence[Callable[[], pl.DataFrame]], unit: str, key: str) -> list[dict[str, Any]]:
    """The running count of every day, and a fresh series of it every day, at the same level in total."""
    steps, found = len(logs), []
    running = sh.create(
        sh.open(":memory:", seed=1), name="log", unit=unit, key=key, max_keys=MAX_KEYS, domain=DOMAIN,
        steps=steps, on_outside="drop",
    )  # fmt: skip
    for step, log in enumerate(logs, 1):
        running.append(log(), step=step)
        truth = counts_of(running, step, key)
        fresh = sh.create(
            sh.open(":memory:", seed=step),
            sh.Counts(truth, largest=1),
            name="log",
            key=key,
            max_keys=MAX_KEYS,
            domain=DOMAIN,
        )
        share = f"1/{10 * steps}"
        released = {
            "running": running.release(f"r{step}", step=step, level=TOGETHER),
            "fresh": fresh.release("r", level=share),
        }
        beside = {name: errors(one, truth, key) for name, one in released.items()}
        found.append({"step": step, "keys": truth.height, **beside})
    return found


def counts_of(series: sh.RunningSeries, step: int, key: str) -> pl.DataFrame:
    """The running counts that noise was added to: columns of the key and count."""
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys
        counts = files.counts_at([step - 1], np.arange(keys.height))[0]
    return keys.select(pl.col("key_0").alias(key), count=pl.Series(counts)).filter(pl.col("count") > 0)


def errors(released: sh.Release, truth: pl.DataFrame, key: str) -> dict[str, float]:
    """How many keys are published, and the root mean square error over them."""
    off = released.frame.join(truth, on=key, how="left").select(
        (pl.col("noisy_count") - pl.col("count").fill_null(0)).pow(2).mean()
    )
    return {"published": len(released), "rms_error": math.sqrt(off.item() or 0.0), "std": released.metadata["std"]}


def main() -> None:
    """Measure, print a table, write JSON."""
    if answered_parent({"year": year}):
        return
    parser = arguments(__doc__, runs=8)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--keys", type=int, default=10**6)
    parser.add_argument("--units", type=int, default=2_000_000)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--many", type=int, default=10**6, help="rows of a large day")
    parser.add_argument("--after", type=int, nargs="+", default=[5, 50, 300])
    parser.add_argument("--level", default="20", help="of the year; at 20 some 100,000 keys are tracked in the end")
    parser.add_argument("--cran", type=Path)
    options = options_of(parser)
    measured = [
        case
        for rows in (options.rows, options.many)
        for case in appended(rows, options.after, options.keys, options.units, options.runs)
    ]
    rows = [["rows of a day, after steps", "append, CPU ms", "over counting it", "over a series of it"]]
    cases = []
    for case in measured:
        timings = case.pop("timings")
        ratios = {name: ratio(timings, "append", name) for name in ("count", "a series of the day")}
        cases.append({**case, "medians": summary(timings), "ratios": ratios, "all": timings})
        of_append = cases[-1]["medians"]["append"]["cpu_s"].median
        rows.append([f"{case['rows']:,}, {case['after']}", f"{1e3 * of_append:.0f}", *map(figure, ratios.values())])
    print(table(rows), flush=True)
    whole = in_child(
        __file__, work="year", days=options.days, keys=options.keys, units=options.units, rows=options.rows,
        level=options.level,
    )  # fmt: skip
    print({name: found for name, found in whole.items() if name != "spans"}, whole["spans"][0], whole["spans"][-1])
    small = Year(options.keys // 50, options.units // 50, options.rows // 10)
    logs = {"a made-up month": ([lambda step=step: small.day(step) for step in range(1, min(options.days, 30) + 1)],
                                "user_id", "query")}  # fmt: skip
    if options.cran is not None:
        files = sorted(options.cran.glob("*.csv.gz"))
        logs["CRAN, twelve days: package"] = (
            [lambda file=file: of_cran(file) for file in files],
            "user_id",
            "package",
        )
    fresh = {name: beside_fresh(*given) for name, given in logs.items()}
    for name, days in fresh.items():
        print(name, days[0], days[-1], sep="\n")
    everything = {"appends": [case.pop("all") for case in cases], "year": whole.pop("spans")}
    first, last = everything["year"][0], everything["year"][-1]
    result = {
        "targets": TARGETS, "max_keys": MAX_KEYS, "keys": options.keys, "append": cases, "level": options.level,
        "days": options.days, "rows": options.rows,
        "year": whole | {"first": first, "last": last}, "together": TOGETHER, "fresh": fresh,
    }  # fmt: skip
    report(QUESTION, options, result, everything)


def of_cran(file: Path) -> pl.DataFrame:
    """Who downloaded which package on a day: a unit is a visitor on that day."""
    return downloads([file]).select("user_id", "package").drop_nulls()


if __name__ == "__main__":
    main()
