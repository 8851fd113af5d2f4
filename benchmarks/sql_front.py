"""What does SQL cost over the Python interface: the same series from the same log, released once?

    python benchmarks/sql_front.py --rows 10_000_000 --runs 5 --out sql_front.json

Each contender runs in a process of its own, in turns: it creates a store, counts the log into a series, releases it
and reads the ten largest rows. Ids of users are random numbers of 63 bits. Both fronts are given the same query.
Beside them stands the Python interface on the file itself, which Polars counts. Target: SQL within 5 % of Python on
the same query.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _logs import generate
from _measure import arguments, costs, figure, in_turns, options_of, ratio, report, summary

TARGET = 1.05
SQL, PYTHON, ON_FILE = "SQL", "Python, the same query", "Python, the file"

DECLARED = """name="queries", unit="user_id", key="query", max_keys=20, domain="strings(max_bytes=64)",
                   counting=sh.Counting(progress=False)"""
BY_PYTHON = f"""
import sys
import sparsehist as sh
log, store = sys.argv[1:]
source = SOURCE
series = sh.create(store, source, {DECLARED})
largest = series.release("public", level="0.1", false_keys=1).frame.head(10)
"""
SOURCES = {
    PYTHON: """sh.Query(f"select user_id, query from read_parquet('{log}')")""",
    ON_FILE: "log",
}
BY_SQL = """
import sys
import sparsehist as sh
log, store = sys.argv[1:]
largest = sh.sql(f'''
    create series queries
        with (unit = user_id, key = query, max_keys = 20, domain = strings(max_bytes=64))
        as select user_id, query from read_parquet('{log}');
    release public from queries at level 0.1 expecting 1 false keys;
    select * from queries.public order by noisy_count desc limit 10;
''', store=store).frame
"""
PROGRAMS = {SQL: BY_SQL} | {name: BY_PYTHON.replace("SOURCE", source) for name, source in SOURCES.items()}


def run(program: str, log: Path) -> None:
    """Run a contender once, into a store of its own."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-c", program, str(log), f"{directory}/store"], check=True)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = options_of(parser)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log.parquet"
        generate(log, options.rows, ids="random")
        contenders: dict[str, Callable[[], None]] = {
            name: partial(run, program, log) for name, program in PROGRAMS.items()
        }
        timings = in_turns(contenders, options.runs, warm=1)
    ratios = {what: ratio(timings, SQL, PYTHON, what) for what in ("cpu_s", "wall_s")}
    print(costs(timings))
    print(f"SQL over Python: CPU {figure(ratios['cpu_s'])}, wall {figure(ratios['wall_s'])}; target {TARGET}")
    result = {
        "rows": options.rows,
        "target": TARGET,
        "medians": summary(timings),
        "ratios": ratios,
    }
    report("SQL over Python", options, result, timings)


if __name__ == "__main__":
    main()
