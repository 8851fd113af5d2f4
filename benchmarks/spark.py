"""What does counting on Spark cost, next to Spark's own count of distinct units by key?

    python benchmarks/spark.py --rows 50_000_000 --out spark.json

Both run on two cores of one JVM, in turns, after a warm-up of both. Ours is all of `create`: units bounded in the
portable order, two sorted copies written and read back for their digests, the series committed. Spark's own count is
written nowhere. CPU is user plus system time of the JVM and of this process.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from _logs import generate
from _measure import Timing, arguments, options_of, report

import sparsehist as sh

OURS, PLAIN = "sparsehist create", "groupBy(key).agg(countDistinct(unit))"
TARGET = 3


def session(memory: str, directory: str) -> Any:
    """A Spark on two cores of this machine, with its own settings for all that is not said here."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", memory)
    builder = builder.config("spark.ui.enabled", "false").config("spark.local.dir", directory)
    return builder.config("spark.sql.warehouse.dir", f"{directory}/warehouse").getOrCreate()


def cpu_seconds(spark: Any) -> float:
    """User plus system time so far, of the JVM and of this process."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # noqa: SLF001  there is no other way to it
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def timed(spark: Any, name: str, path: Path, max_keys: int) -> Timing:
    """Count the log once."""
    from pyspark.sql.functions import count_distinct

    frame = spark.read.parquet(str(path))
    cpu, wall = cpu_seconds(spark), time.perf_counter()
    if name == OURS:
        with tempfile.TemporaryDirectory() as directory:
            declared: dict[str, Any] = {"unit": "user_id", "key": "query", "domain": "strings(max_bytes=32)"}
            place = Path(directory) / "counts"
            store = Path(directory) / "store"
            sh.create(store, frame, name="log", max_keys=max_keys, counts_directory=place, **declared)
            return Timing(cpu_seconds(spark) - cpu, time.perf_counter() - wall)
    counted = frame.groupBy("query").agg(count_distinct("user_id"))
    counted.write.format("noop").mode("overwrite").save()
    return Timing(cpu_seconds(spark) - cpu, time.perf_counter() - wall)


def main() -> None:
    """Measure, print the ratio, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--warm", type=int, default=2_000_000, help="rows of the log that both warm up on")
    parser.add_argument("--max-keys", type=int, default=20)
    parser.add_argument("--memory", default="6g", help="of the JVM")
    options = options_of(parser)
    runs: dict[str, list[Timing]] = {PLAIN: [], OURS: []}
    with tempfile.TemporaryDirectory() as directory:
        paths = {rows: Path(directory) / f"log-{rows}.parquet" for rows in (options.warm, options.rows)}
        for rows, path in paths.items():
            generate(path, rows, ids="random", activity=0.7, row_group=1_000_000)
        spark = session(options.memory, directory)
        for run in range(-1, options.runs):
            for name, found in runs.items():
                timing = timed(spark, name, paths[options.rows if run >= 0 else options.warm], options.max_keys)
                print(
                    f"{'warming up: ' * (run < 0)}{name}: {timing.cpu_s:.1f} s CPU, {timing.wall_s:.1f} s", flush=True
                )
                if run >= 0:
                    found.append(timing)
        versions = {"pyspark": spark.version}
        spark.stop()
    ratios = [ours.cpu_s / plain.cpu_s for ours, plain in zip(runs[OURS], runs[PLAIN], strict=True)]
    ratio = statistics.median(ratios)
    print(f"ours over Spark's own: {ratio:.2f} in CPU (target: at most {TARGET})")
    options.started["versions"] |= versions
    asked = {name: getattr(options, name) for name in ("rows", "runs", "max_keys", "warm")}
    report("counting on Spark", options, asked | {"ratio": ratio, "target": TARGET}, runs)


if __name__ == "__main__":
    main()
