"""How long until something happens: `sparsehist --help`, `import sparsehist`, a first release in a fresh process?

    python benchmarks/start.py --runs 20 --out start.json

Every run is a process of its own, in turns with an empty Python process. Target: help within 0.3 s on the clock.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from _measure import arguments, context, in_turns, milliseconds, report, seconds, summary, table

TARGET_S = 0.3
HERE = Path(__file__).resolve().parent.parent

RELEASE = """
import sys
import sparsehist as sh
series = sh.create(sys.argv[1] + "/store", sys.argv[2], name="visits", unit="user_id", key="url", max_keys=10,
                   domain=sh.Strings(max_bytes=32), progress=False)
series.release("public", level="0.1", false_keys=1).write_parquet(sys.argv[1] + "/public.parquet")
"""


def python(*arguments_: str) -> None:
    """Run Python once; what it prints is not looked at."""
    subprocess.run([sys.executable, *arguments_], check=True, capture_output=True, cwd=HERE)


def first_release() -> None:
    """Count the shipped log, release it once, write it."""
    with tempfile.TemporaryDirectory() as directory:
        python("-c", RELEASE, directory, str(HERE / "data" / "msweb_1998.csv"))


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = context()
    contenders: dict[str, Callable[[], None]] = {
        "empty Python process": lambda: python("-c", "pass"),
        "import polars, duckdb, numpy": lambda: python("-c", "import polars, duckdb, numpy"),
        "import sparsehist": lambda: python("-c", "import sparsehist"),
        "sparsehist --help": lambda: python("-m", "sparsehist", "--help"),
        "first release of a small log": first_release,
    }
    timings = in_turns(contenders, options.runs, warm=1)
    rows = [["", "CPU ms", "wall ms"]]
    for name, runs in timings.items():
        rows.append([name, milliseconds(seconds(runs)), milliseconds(seconds(runs, "wall_s"))])
    print(table(rows))
    print(f"target: help within {TARGET_S} s on the clock")
    result = {"runs": options.runs, "target_s": {"sparsehist --help": TARGET_S}, "medians": summary(timings)}
    report("time to start", started, result, timings, options.out)


if __name__ == "__main__":
    main()
