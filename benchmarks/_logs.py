"""The logs that contenders are given: generated ones of any size, and the download log of the CRAN mirror.

Every log is one Parquet file with the columns `user_id` and `query`, written before the clock runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from real_logs import downloads


class Log(NamedTuple):
    """A log: its name, how many keys a unit may have, and what writes it."""

    name: str
    max_keys: int
    write: Callable[[Path], None]


def generated(rows: int, *, text_units: bool = False) -> Log:
    """A made-up search log."""
    units = "text" if text_units else "integer"
    return Log(f"{rows:,} rows, {units} units", 20, partial(generate, rows=rows, text_units=text_units))


def packages(cran: Path) -> Log:
    """Who downloaded which package: a unit is a visitor on a day, a string; the bound is that of `real_logs.py`."""
    return Log("CRAN, twelve days: package", 30, partial(_write_packages, cran=cran))


def generate(path: Path, rows: int, *, text_units: bool = False) -> None:
    """Write a log with ten rows a unit and twice as many rows as queries to draw from, in a process of its own."""
    generator = Path(__file__).with_name("generated_log.py")
    # There are no more than 2^24 queries to invent.
    scale = [f"--rows={rows}", f"--units={max(rows // 10, 1)}", f"--keys={max(min(rows // 2, 2**24), 1)}"]
    subprocess.run([sys.executable, generator, path, *scale, *["--text-units"] * text_units], check=True)


def _write_packages(path: Path, cran: Path) -> None:
    log = downloads(sorted(cran.glob("*.csv.gz")))
    log.select("user_id", query="package").drop_nulls().write_parquet(path)
