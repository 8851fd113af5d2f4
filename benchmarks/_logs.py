"""The logs that contenders are given: generated ones of any size, and the download log of the CRAN mirror.

Every log is one Parquet file with the columns `user_id` and `query`, written before the clock runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from real_logs import downloads


class Log(NamedTuple):
    """A log: its name, how many keys a unit may have, and what writes it."""

    name: str
    max_keys: int
    write: Callable[[Path], None]


def generated(rows: int, ids: str, activity: float) -> Log:
    """A made-up search log; of heavier tails, larger row groups."""
    row_group = 100_000 if activity < 1 else 1_000_000
    work = partial(generate, rows=rows, ids=ids, activity=activity, row_group=row_group)
    return Log(f"{rows:,} rows, {ids} ids, activity {activity}", 20, work)


def packages(cran: Path) -> Log:
    """Who downloaded which package: a unit is a visitor on a day, a string; the bound is that of `real_logs.py`."""
    return Log("CRAN, twelve days: package", 30, partial(_write_packages, cran=cran))


def generate(
    path: Path, rows: int, *, ids: str = "small", activity: float = 0.7, row_group: int | None = None
) -> None:
    """Write a log with ten rows per unit and twice as many rows as queries to draw from, in a process of its own."""
    generator = Path(__file__).with_name("generated_log.py")
    # There are no more than 2^24 queries to invent.
    scale = [f"--rows={rows}", f"--units={max(rows // 10, 1)}", f"--keys={max(min(rows // 2, 2**24), 1)}"]
    kind = [f"--ids={ids}", f"--activity={activity}", *([f"--row-group={row_group}"] if row_group else [])]
    subprocess.run([sys.executable, generator, path, *scale, *kind], check=True)


@dataclass(frozen=True)
class Year:
    """A made-up log that goes on: keys come up, are the talk of some weeks, and die; users come back.

    Attributes:
        keys: How many there are over the year.
        units: Random numbers of 64 bits.
        rows: Of a day.
    """

    keys: int
    units: int
    rows: int

    def day(self, step: int) -> pl.DataFrame:
        """The log of a day, from 1, the same in every process: columns user_id and query.

        A day looks at the keys through a window that moves by a two-thousandth of them a day, the middle of it most;
        keys whose number is a multiple of 16 last the whole year.
        """
        rng = np.random.default_rng(step)
        units = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, self.units)
        ahead = (self.keys * rng.random(self.rows) ** 6).astype(np.int64)
        lasting = rng.random(self.rows) < 0.3
        keys = np.where(lasting, ahead // 16 * 16, (ahead + step * self.keys // 2000) % self.keys)
        names = pl.Series(keys * 2654435761 % 2**32).cast(pl.String)
        return pl.DataFrame({"user_id": units[rng.integers(0, self.units, self.rows)], "query": "q" + names})


def _write_packages(path: Path, cran: Path) -> None:
    log = downloads(sorted(cran.glob("*.csv.gz")))
    log.select("user_id", query="package").drop_nulls().write_parquet(path)
