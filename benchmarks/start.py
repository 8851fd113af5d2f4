"""How long until something happens: `sparsehist --help`, `import sparsehist`, a first release in a fresh process?

    python benchmarks/start.py --runs 20 --out start.json

Every run is a process of its own, in turns with an empty Python process and one that imports Polars and numpy.
Targets: help within 0.3 s on the clock; of the CPU of those imports, help 0.8, show, ledger and plan 1.2, a repeated
release 1.6.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _measure import arguments, as_installed, costs, figure, in_turns, options_of, ratio, report, summary

TARGET_S = 0.3
IMPORTS = "import polars, numpy"
COMMANDS = {
    "--help": (["--help"], 0.8),
    "show": (["show", "STORE"], 1.2),
    "ledger": (["ledger", "STORE"], 1.2),
    "plan": (["plan", "STORE", "--series", "visits", "--level", "0.1"], 1.2),
    "repeated release": (["release", "STORE", "--series", "visits", "--name", "public", "--out", "OUT"], 1.6),
}
"""Words, and the CPU they may take as a share of that of the imports."""
HERE = Path(__file__).resolve().parent.parent

RELEASE = """
import sys
import sparsehist as sh
series = sh.create(sys.argv[1] + "/store", sys.argv[2], name="visits", unit="user_id", key="url", max_keys=10,
                   domain=sh.Strings(max_bytes=32), counting=sh.Counting(progress=False))
series.release("public", level="0.1", false_keys=1).write_parquet(sys.argv[1] + "/public.parquet")
"""


def python(*arguments_: str) -> None:
    """Run Python once; what it prints is not looked at."""
    subprocess.run([sys.executable, *arguments_], check=True, capture_output=True, cwd=HERE, env=as_installed())


def first_release() -> None:
    """Count the shipped log, release it once, write it."""
    with tempfile.TemporaryDirectory() as directory:
        python("-c", RELEASE, directory, str(HERE / "data" / "msweb_1998.csv"))


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = arguments(__doc__, runs=20)
    options = options_of(parser)
    contenders: dict[str, Callable[[], None]] = {
        "empty Python process": lambda: python("-c", "pass"),
        "import polars, duckdb, numpy": lambda: python("-c", "import polars, duckdb, numpy"),
        "import sparsehist": lambda: python("-c", "import sparsehist"),
        IMPORTS: lambda: python("-c", IMPORTS),
        "first release of a small log": first_release,
    }
    with tempfile.TemporaryDirectory() as directory:
        python("-c", RELEASE, directory, str(HERE / "data" / "msweb_1998.csv"))
        places = {"STORE": directory + "/store", "OUT": directory + "/public.parquet"}
        for name, (words, _) in COMMANDS.items():
            told = [places.get(word, word) for word in words]
            contenders[f"sparsehist {name}"] = partial(python, "-m", "sparsehist", *told)
        timings = in_turns(contenders, options.runs, warm=1)
    print(costs(timings))
    print(f"target: help within {TARGET_S} s on the clock")
    shares = {name: ratio(timings, f"sparsehist {name}", IMPORTS) for name in COMMANDS}
    for name, (_, target) in COMMANDS.items():
        print(f"{name}: {figure(shares[name])} of the CPU of {IMPORTS!r}, target {target}")
    result = {
        "shares": shares,
        "target_s": {"sparsehist --help": TARGET_S},
        "medians": summary(timings),
    }
    report("time to start", options, result, timings)


if __name__ == "__main__":
    main()
