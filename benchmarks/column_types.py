"""What does counting cost by the type of the unit, the type of the key and the kind of source?

    python benchmarks/column_types.py --out types.json            (10^7 rows; half an hour)
    python benchmarks/column_types.py --rows 5_000_000 --runs 1   (`make bench`: under five minutes)
    python benchmarks/column_types.py --only 'UInt64 × text' --runs 5
    python benchmarks/column_types.py --rows 50_000_000 --only 'Int64 × text' 'UInt64 × text' 'text × text'

For each case two programs run in turn, each in its own process: ours reads the log, releases a histogram and writes a
Parquet file; Polars counts the distinct units per key of the same columns, without bounds and without privacy. We
report CPU time, wall time and peak resident memory of each process, imports included. `added` is our CPU time minus
that of Polars in the same turn, scaled to 10^7 rows. CSV fields are text for both. Rows per unit are log-normal with
sigma 1.5, and there are half as many different queries as rows, at most 2**24. Importing takes half a second, visible
in short logs. Only the columns and files of the cases asked for are written, which is needed at 50 million rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _measure import Spread, arguments, as_installed, options_of, report, spread, table
from generated_log import numbers_by_law, queries, uuids

from sparsehist.entropy import seeded

HERE = Path(__file__).resolve().parent
SMALL_FILES = 400
MOST_QUERIES = 1 << 24  # as many as `queries` can invent
TEXT, PRODUCT = "strings(max_bytes=64)", ["k_text", "k_hour", "k_day"]
DOMAINS = {
    "k_text": TEXT, "k_category": TEXT, "k_nulls": TEXT, "k_small": "integers(0, 9999999)",
    "k_hashed": f"integers({-(2**63)}, {2**63 - 1})", "k_hour": "integers(0, 23)",
    "k_day": "dates('2024-01-01', '2024-12-31')",
}  # fmt: skip
PARQUET = "pl.scan_parquet(directory + '/log.parquet')"


class Case(NamedTuple):
    """Columns that are counted, and the expressions that open the log for the plain count and for us."""

    unit: list[str]
    key: list[str]
    plain: str = PARQUET
    ours: str = "directory + '/log.parquet'"


JOINED = (
    "pl.scan_parquet(directory + '/log.parquet').filter(pl.col('k_hour') < 20)"
    ".join(pl.scan_parquet(directory + '/hours.parquet'), on='k_hour').filter(pl.col('open'))"
)
RELATION = "duckdb.read_parquet(directory + '/log.parquet')"
BEST = "Int64 × text"
CASES = {
    BEST: Case(["u_int64"], ["k_text"]),
    "UInt64 × text": Case(["u_uint64"], ["k_text"]),
    "UInt32 × text": Case(["u_uint32"], ["k_text"]),
    "Int32 × text": Case(["u_int32"], ["k_text"]),
    "text × text": Case(["u_text"], ["k_text"]),
    "Categorical × text": Case(["u_category"], ["k_text"]),
    "Binary × text": Case(["u_binary"], ["k_text"]),
    "(date, text) × text": Case(["u_day", "u_address"], ["k_text"]),
    "Int64 × Int64, small": Case(["u_int64"], ["k_small"]),
    "Int64 × Int64, hashed": Case(["u_int64"], ["k_hashed"]),
    "Int64 × Categorical": Case(["u_int64"], ["k_category"]),
    "Int64 × (text, integer, date)": Case(["u_int64"], PRODUCT),
    "1 % nulls": Case(["u_nulls"], ["k_nulls"], f"{PARQUET}.drop_nulls(['u_nulls', 'k_nulls'])"),
    "CSV, all text": Case(
        ["u_int64"], ["k_text"], "pl.scan_csv(directory + '/log.csv', infer_schema=False)", "directory + '/log.csv'"
    ),
    f"{SMALL_FILES} files": Case(
        ["u_int64"], ["k_text"], "pl.scan_parquet(directory + '/files/*.parquet')", "directory + '/files/*.parquet'"
    ),
    "one row group": Case(
        ["u_int64"], ["k_text"], "pl.scan_parquet(directory + '/group.parquet')", "directory + '/group.parquet'"
    ),
    "LazyFrame, filter and join": Case(["u_int64"], ["k_text"], JOINED, JOINED),
    "DuckDB relation": Case(["u_int64"], ["k_text"], f"{RELATION}.pl(lazy=True)", RELATION),
    "Arrow stream": Case(
        ["u_int64"], ["k_text"], "pl.DataFrame(stream(directory)).lazy()", "stream(directory)"
    ),
}  # fmt: skip
START = """
import sys, time
begin = time.monotonic()
def stream(directory):
    import pyarrow, pyarrow.parquet
    file = pyarrow.parquet.ParquetFile(directory + "/log.parquet")
    columns = ["u_int64", "k_text"]
    schema = pyarrow.schema([file.schema_arrow.field(name) for name in columns])
    return pyarrow.RecordBatchReader.from_batches(schema, file.iter_batches(columns=columns))
"""
PLAIN = """
import polars as pl
{imports}
units = pl.struct({unit}) if len({unit}) > 1 else pl.col({unit}[0])
({plain}).group_by({key}).agg(units.n_unique()).collect(engine="streaming")
"""
OURS = """
import polars as pl
{imports}
import sparsehist as sh
series = sh.create(out + "/store", {ours}, name="keys", unit={unit}, key={key}, max_keys=20, domain={domain!r},
                   on_null="drop")
series.release("release", level="0.1", false_keys=1).write_parquet(out + "/released.parquet")
"""
PROGRAMS = {"plain": PLAIN, "ours": OURS}
END = """
import json
sys.path.append(benchmarks)
from _child import peak_mb
print(json.dumps({"cpu_s": time.process_time(), "wall_s": time.monotonic() - begin, "peak_mb": peak_mb()}))
"""


def write_logs(directory: Path, rows: int, cases: Sequence[Case]) -> None:
    """Write one log with a column for each type, and the same rows as other kinds of source, as far as cases need."""
    rng = seeded(1)
    units, keys = max(rows // 10, 1), min(max(rows // 2, 1), MOST_QUERIES)
    unit = numbers_by_law(np.exp(1.5 * rng.standard_normal(units)), rows, rng)
    key = numbers_by_law(np.arange(1, keys + 1, dtype=np.float64) ** -1.05, rows, rng)
    ids, hashes = (rng.integers(-(2**63), 2**63 - 1, size=size) for size in (units, keys))
    addresses = pl.Series(rng.integers(2**31, size=units)).cast(pl.String)
    query = queries(keys, rng).gather(key)
    null = rng.random(rows) < 0.01
    nullable = pl.when(pl.Series(~null))
    made: dict[str, Callable[[], Any]] = {
        "u_int64": lambda: ids[unit],
        "u_uint64": lambda: ids[unit].view(np.uint64),
        "u_uint32": lambda: ids[unit].astype(np.uint32),
        "u_int32": lambda: ids[unit].astype(np.int32),
        "u_text": lambda: uuids(units, rng).gather(unit),
        "u_category": lambda: pl.Series(ids).cast(pl.String).cast(pl.Categorical).gather(unit),
        "u_binary": lambda: uuids(units, rng).str.replace_all("-", "").str.decode("hex").gather(unit),
        "u_day": lambda: pl.Series((ids[unit] % 12).astype(np.int32)).cast(pl.Date),
        "u_address": lambda: addresses.gather(unit),
        "u_nulls": lambda: pl.select(nullable.then(pl.Series(ids[unit]))).to_series(),
        "k_text": lambda: query,
        "k_category": lambda: query.cast(pl.Categorical),
        "k_small": lambda: key.astype(np.int64),
        "k_hashed": lambda: hashes[key],
        "k_hour": lambda: rng.integers(24, size=rows),
        "k_day": lambda: pl.Series((19723 + rng.integers(366, size=rows)).astype(np.int32)).cast(pl.Date),
        "k_nulls": lambda: pl.select(nullable.then(query)).to_series(),
    }
    wanted = {name for case in cases for name in (*case.unit, *case.key)} | {"k_hour"}
    log = pl.DataFrame({name: make() for name, make in made.items() if name in wanted})
    log.write_parquet(directory / "log.parquet", row_group_size=1_000_000)
    pl.DataFrame({"k_hour": np.arange(24), "open": np.arange(24) != 3}).write_parquet(directory / "hours.parquet")
    if not {"u_int64", "k_text"} <= wanted:
        return
    pair, opened = log.select("u_int64", "k_text"), "".join(case.ours for case in cases)
    if "group.parquet" in opened:
        pair.write_parquet(directory / "group.parquet", row_group_size=rows)
    if "log.csv" in opened:
        pair.write_csv(directory / "log.csv")
    if "files" in opened:
        (directory / "files").mkdir()
        for number, part in enumerate(pair.iter_slices(-(-rows // SMALL_FILES))):
            part.write_parquet(directory / "files" / f"{number:03}.parquet")


def measure(program: str, case: Case, directory: Path) -> dict[str, float]:
    """Run one contender in a process of its own."""
    parts = [DOMAINS[name] for name in case.key]
    domain = (
        parts[0] if len(parts) == 1 else f"product({', '.join(map('='.join, zip(case.key, parts, strict=True)))})"
    )
    imports = "import duckdb" if case.ours == RELATION else ""
    work = program.format(**case._asdict(), domain=domain, imports=imports)
    with tempfile.TemporaryDirectory() as out:
        given = f"directory, out, benchmarks = {str(directory)!r}, {out!r}, {str(HERE)!r}\n"
        command = [sys.executable, "-c", f"{given}{START}{work}{END}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=as_installed())
    if run.returncode:
        raise RuntimeError(run.stderr[-3000:])
    found: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


Runs = list[dict[str, dict[str, float]]]


def compared(runs: Runs, rows: int) -> dict[str, Spread]:
    """Ratios to the plain count turn by turn, and CPU seconds added to it for 10^7 rows."""
    ratios = {
        what: spread([turn["ours"][what] / turn["plain"][what] for turn in runs])
        for what in ("cpu_s", "wall_s", "peak_mb")
    }
    added = spread([(turn["ours"]["cpu_s"] - turn["plain"]["cpu_s"]) * 1e7 / rows for turn in runs])
    plain = spread([turn["plain"]["cpu_s"] for turn in runs])
    return {"plain_cpu_s": plain, **ratios, "added_cpu_s": added}


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--logs", type=Path, help="directory that keeps the logs for another run")
    options = options_of(parser)
    runs: dict[str, Runs] = {name: [] for name in options.only}
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.logs or Path(temporary)
        if not (directory / "log.parquet").exists():
            directory.mkdir(exist_ok=True)
            write_logs(directory, options.rows, [CASES[name] for name in options.only])
        for _ in range(options.runs):
            for name in options.only:
                case = CASES[name]
                turn = {
                    what: measure(program, case, directory) for what, program in (("plain", PLAIN), ("ours", OURS))
                }
                runs[name].append(turn)
    result = {name: compared(turns, options.rows) for name, turns in runs.items()}
    rows = [["unit × key, or source", "plain CPU s", "CPU", "clock", "peak", "added CPU s for 10^7 rows"]]
    rows += [[name, *(f"{one.median:.2f}" for one in found.values())] for name, found in result.items()]
    print(f"{options.rows:,} rows, to the published file, over Polars' plain count; medians of {options.runs}")
    print(table(rows))
    report("counting by type of column and kind of source", options, {"rows": options.rows, "cases": result}, runs)


if __name__ == "__main__":
    main()
