"""What does counting with bounding cost, next to the plain counts that need none?

    python benchmarks/counting.py --rows 10_000_000 --runs 5 --out counting.json

Each contender runs in a process of its own, in turns; CPU is user plus system time, memory is the peak resident
set, both of the whole process including imports. Ratios are to the cheaper plain count, each measure for itself.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _logs import generate
from _measure import arguments, as_installed, options_of, report

PLAIN = ("plain polars", "plain duckdb")

COUNT = """
import tempfile
from pathlib import Path
from sparsehist.counting import count_keys
from sparsehist.domain.base import Domain
with tempfile.TemporaryDirectory() as directory:
    result = count_keys(path, unit="user_id", key=["query"], max_keys={max_keys},
                        domain=Domain.parse("strings(max_bytes=32)"), salt=bytes(range(16)),
                        temporary_directory=Path(directory))
"""

CONTENDERS = {
    "plain polars": """
import polars as pl
result = pl.scan_parquet(path).group_by("query").agg(pl.col("user_id").n_unique()).collect(engine="streaming")
""",
    "plain duckdb": """
import duckdb
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
connection.execute("create temp table result as select query, count(distinct user_id) as units "
                   "from read_parquet($path) group by query", {"path": path})
""",
    "sparsehist": COUNT,
}

REPORT = """
import json, sys
sys.path.append(benchmarks)
from _child import peak_mb
print(json.dumps({"cpu_s": time.process_time(), "wall_s": time.monotonic() - begin, "peak_mb": peak_mb()}))
"""


def measure(code: str, path: Path) -> dict[str, float]:
    """Run one contender in a process of its own."""
    given = f"path, benchmarks = {str(path)!r}, {str(Path(__file__).resolve().parent)!r}"
    program = f"import time\nbegin = time.monotonic()\n{given}\n{code}\n{REPORT}"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=as_installed()
    )
    measured: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    return measured


def table(medians: dict[str, dict[str, float]]) -> str:
    """Lay out the medians with their ratios to the cheaper plain count."""
    best = {what: min(medians[name][what] for name in PLAIN) for what in ("cpu_s", "wall_s", "peak_mb")}
    lines = [f"{'':20}{'CPU s':>8}{'ratio':>7}{'wall s':>8}{'ratio':>7}{'peak MB':>9}{'ratio':>7}"]
    for name, found in medians.items():
        ratio = {what: found[what] / best[what] for what in best}
        lines.append(
            f"{name:20}{found['cpu_s']:8.2f}{ratio['cpu_s']:7.2f}{found['wall_s']:8.2f}{ratio['wall_s']:7.2f}"
            f"{found['peak_mb']:9.0f}{ratio['peak_mb']:7.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--max-keys", type=int, default=20)
    parser.add_argument("--ids", choices=("small", "random", "uuid"), default="random")
    parser.add_argument("--activity", type=float, default=0.7)
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--log", type=Path, help="a Parquet log with user_id and query, instead of a generated one")
    options = options_of(parser)
    names = [*PLAIN, *(name for name in options.contenders.split(",") if name not in PLAIN)]
    with tempfile.TemporaryDirectory() as directory:
        path = options.log or Path(directory) / "log.parquet"
        if options.log is None:
            generate(path, options.rows, ids=options.ids, activity=options.activity)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(options.runs):
            for name in names:
                runs[name].append(measure(CONTENDERS[name].replace("{max_keys}", str(options.max_keys)), path))
    medians = {
        name: {what: statistics.median(run[what] for run in found) for what in found[0]}
        for name, found in runs.items()
    }
    print(table(medians))
    asked = {name: getattr(options, name) for name in ("rows", "runs", "max_keys", "ids", "activity")}
    report("counting with bounding next to plain counts", options, asked | {"medians": medians}, runs)


if __name__ == "__main__":
    main()
