"""How little could counting a log take? A C program does the same work on the decoded columns.

    python benchmarks/floor.py --out floor.json              (six logs of 10^7 rows; five minutes; needs cc)

`floor.c` codes texts exactly, parts rows by unit, removes duplicates, bounds units and counts keys, with hash tables
that fit a cache, on two threads; Arrow and Polars read the columns. Nothing is private, and neither the domain nor
nulls are looked at. CPU of each step without imports, clock and peak of the process; beside them the plain counts of
Polars and DuckDB, in processes of their own, imports included, in turns. There is no target: it says what is left.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from _child import answered_parent, in_child
from _logs import generated
from _measure import Spread, arguments, figure, options_of, report, spread, table
from pipeline import MEASURES, PLAIN, PUBLISHED, measure
from pyarrow import parquet

SOURCE = Path(__file__).with_name("floor.c")
STEPS = ("reading", "parting", "coding", "bounding")
COMPILER = os.environ.get("CC", "cc")


def compiled(directory: Path) -> Path:
    """Compile the program."""
    library = directory / "floor.so"
    asked = [COMPILER, "-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-o", str(library), str(SOURCE)]
    subprocess.run(asked, check=True, capture_output=True, text=True, timeout=120)
    return library


def counted(library: str, log: str, max_keys: int, threads: int) -> dict[str, Any]:
    """Read a log and count it; in a process of its own."""
    program = ctypes.CDLL(library)
    program.floor_begin.restype = ctypes.c_void_p
    metadata = parquet.read_metadata(log)
    firsts = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))]).tolist()
    text = pl.read_parquet_schema(log)["user_id"] == pl.String
    cpu, wall = time.process_time(), time.perf_counter()
    job = ctypes.c_void_p(program.floor_begin(threads))
    numbers = iter(range(metadata.num_row_groups))

    def add(thread: int) -> float:
        took = 0.0
        for number in numbers:  # the next one that no thread has
            for units, keys in _row_group(log, metadata, number, firsts, text=text):
                seconds = ctypes.c_double()
                held = units.buffers()
                entries = keys.dictionary.buffers()
                program.floor_add(
                    job, thread, ctypes.c_int64(len(units)), None if text else _at(held[1], units.offset * 8),
                    _at(held[2]) if text else None, _at(held[1], units.offset * 8) if text else None,
                    _at(keys.indices.buffers()[1], keys.indices.offset * 4), ctypes.c_int64(len(keys.dictionary)),
                    _at(entries[2]), _at(entries[1]), ctypes.byref(seconds),
                )  # fmt: skip
                took += seconds.value
        return took

    with ThreadPoolExecutor(threads) as pool:
        parting = sum(pool.map(add, range(threads)))
    reading = time.process_time() - cpu - parting
    later, found = (ctypes.c_double * 2)(), (ctypes.c_int64 * 4)()
    program.floor_end(job, ctypes.c_int64(max_keys), later, found)
    took = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    steps = dict(zip(STEPS, (reading, parting, *later), strict=True))
    return took | {"steps": steps} | dict(zip(("pairs", "units_above", "keys", "counts"), found, strict=True))


def _row_group(
    log: str, metadata: parquet.FileMetaData, number: int, firsts: list[int], *, text: bool
) -> Iterator[tuple[pa.Array, pa.DictionaryArray]]:
    """Units and keys of a row group, in pieces of one dictionary each."""
    with parquet.ParquetFile(log, metadata=metadata, read_dictionary=["query"], pre_buffer=False) as file:
        names = ["query"] if text else ["query", "user_id"]
        found = file.read_row_group(number, columns=names, use_threads=False)
    if text:  # which Polars reads in half of Arrow's time
        rows = pl.scan_parquet(log).slice(firsts[number], firsts[number + 1] - firsts[number])
        units = rows.select("user_id").collect()["user_id"].rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    else:
        units = found["user_id"].combine_chunks()
        units = units.chunk(0) if isinstance(units, pa.ChunkedArray) else units
    first = 0
    for keys in found["query"].chunks:
        yield units.slice(first, len(keys)), keys
        first += len(keys)


def _at(buffer: pa.Buffer, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(buffer.address + offset)


def compared(log: Path, library: Path, max_keys: int, runs: int) -> dict[str, list[dict[str, Any]]]:
    """Let the floor and the plain counts take turns."""
    floor = partial(in_child, __file__, work="counted", library=str(library), log=str(log), max_keys=max_keys)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("floor", *PLAIN)}
    for _ in range(runs):
        found["floor"].append(floor(threads=2))
        for name in PLAIN:
            found[name].append(measure(name, log, max_keys, None)[PUBLISHED])
    return found


def summed_up(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Spread]]:
    """Medians of the floor, and its ratios to the plain count that is cheaper in the same turn."""
    ratios = {}
    for what in MEASURES:
        turns = zip(runs["floor"], *(runs[name] for name in PLAIN), strict=True)
        ratios[what] = spread([own[what] / min(run[what] for run in plain) for own, *plain in turns])
    return {
        "floor": {what: spread([run[what] for run in runs["floor"]]) for what in MEASURES},
        "steps": {step: spread([run["steps"][step] for run in runs["floor"]]) for step in STEPS},
        "ratios": ratios,
    }


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ids", nargs="+", choices=("small", "random", "uuid"), default=["small", "random", "uuid"])
    parser.add_argument("--activity", type=float, nargs="+", default=[0.7, 1.5])
    options = options_of(parser)
    cases: dict[str, Any] = {}
    everything: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        library = compiled(Path(directory))
        for ids, activity in product(options.ids, options.activity):
            log = generated(options.rows, ids, activity)
            path = Path(directory) / "log.parquet"
            log.write(path)
            runs = everything[log.name] = compared(path, library, log.max_keys, options.runs)
            cases[log.name] = case = summed_up(runs)
            rows = [
                ["", "median"],
                *([f"{step}, CPU s", f"{took.median:.2f}"] for step, took in case["steps"].items()),
            ]
            rows += [[f"{what}, of the cheaper plain count", figure(took)] for what, took in case["ratios"].items()]
            print(f"{log.name}\n{table(rows)}\n", flush=True)
    report("how little could counting a log take", options, {"cases": cases}, everything)


if __name__ == "__main__" and not answered_parent({"counted": counted}):
    main()
