"""Release the download log of a CRAN mirror day by day: as running counts and as a periodic series, at equal cost.

    python docs/examples/cran_days.py DIRECTORY

DIRECTORY contains the public log: files 2014-05-01.csv.gz and so on, with columns date, ip_id and package. Ids of
addresses restart every day, so a unit is an address on one day. Running counts are numbers of such units, and all
daily series together cost a unit as much as the costliest one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import sparsehist as sh

LEVEL, MAX_KEYS, COLUMNS = "0.1", 20, ["date", "ip_id", "package"]
DECLARED = {"unit": ("date", "ip_id"), "key": "package", "max_keys": MAX_KEYS, "domain": sh.Strings(max_bytes=32)}


def table(directory: Path, *, seed: int | None = None) -> pl.DataFrame:
    """Append and release every day.

    Returns:
        One row per day: date, and for `running` and `daily` how many packages were published (keys_…) and the
        standard deviation of their noise (std_…), in address-days.
    """
    files = sorted(directory.glob("*.csv.gz"))
    running = sh.create(sh.open(":memory:", seed=seed), name="so_far", steps=len(files), cap=LEVEL, **DECLARED)
    daily = sh.create(
        sh.open(":memory:", seed=seed), name="daily", **DECLARED,
        every=sh.Every("day", protects="user-day", budget=LEVEL, periods=len(files)),
    )  # fmt: skip
    rows = []
    for step, file in enumerate(files, 1):
        log = pl.read_csv(file, columns=COLUMNS, infer_schema=False, null_values="NA").drop_nulls()
        day = file.name.removesuffix(".csv.gz")
        running.append(log, step=step)
        made = {
            "running": running.release(f"day_{step}", step=step, level=LEVEL),
            "daily": daily.append(log, period=day).release("public", level=LEVEL),
        }
        row: dict[str, object] = {"date": day}
        for name, release in made.items():
            row |= {f"keys_{name}": len(release), f"std_{name}": round(release.metadata["std"], 1)}
        rows.append(row)
    return pl.DataFrame(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with pl.Config(tbl_rows=-1):
        sys.stdout.write(f"{table(Path(sys.argv[1]))}\n")
