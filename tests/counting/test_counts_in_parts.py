"""Counts that Spark wrote and the store refers to: the same keys, read where they lie, whole or absent."""

import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.domain import Domain
from sparsehist.errors import DataError, StoreDamagedError, StoreError
from sparsehist.store.support import BOUNDING, salt_for
from tests.counting import spark
from tests.counting.logs import a_log, count
from tests.counting.one_histogram import CASES
from tests.test_layout import CHECKOUT

pytestmark = pytest.mark.spark
DECLARED = {"name": "queries", "unit": "user_id", "key": "query", "max_keys": 3, "domain": "strings(max_bytes=32)"}
ALL = {"level": 10**4, "threshold": 0.5}


def _files(series):
    with series.store._hold() as state:
        return state.series_files(state.series(series.name))


def _made(directory, log=None, **declared):
    log = a_log(900, 60) if log is None else log
    return sh.create(
        directory / "store", spark.frame(log), **{**DECLARED, **declared}, counts_directory=directory / "c"
    )


def is_whole(series, log):
    """Every file has its digest, and keys and counts are those of Polars with the same bounding salt."""
    with series.store._hold() as state:
        record = state.series(series.name)
        state.verify()
        found, salt = state.series_files(record).all_counted(), salt_for(BOUNDING, record.salt)
    own = {name: DECLARED[name] for name in ("unit", "max_keys")}
    by_polars = count(log, **own, domain=Domain.parse(DECLARED["domain"]), salt=salt, portable=True).frame
    return found.sort("key_0").equals(by_polars.sort("key_0").select(found.columns))


_SLOW = [
    pytest.param(case, marks=pytest.mark.slow)
    for case in ("products", "hashes", "dates by moments", "listed integers")
]


@pytest.mark.parametrize("case", ["text by integers", *_SLOW])
def test_the_same_counts_wherever_they_lie(tmp_path, case):
    """Keys, counts and groups are those of a series in the store; keys are found at their positions."""
    asked = CASES[case]
    told = {**DECLARED, **asked.declared, "on_null": "drop", "on_outside": "drop"}
    series = _made(tmp_path, asked.log, **told)
    files, local = _files(series), _files(sh.create(":memory:", asked.log, **told, portable=True, seed=1))
    counted = files.all_counted()
    assert counted["count"].is_sorted()
    names = [*counted.drop("count").columns, "count"]
    if asked.max_keys >= 3:  # the salts differ: what is cut does too, but not how much
        assert counted["count"].sum() == local.all_counted()["count"].sum()
    positions = np.random.default_rng(1).permutation(counted.height)
    assert files.keys(positions).equals(counted.drop("count")[positions])
    assert files.positions(counted.drop("count")).tolist() == list(range(counted.height))
    assert counted.schema == local.all_counted().select(names).schema
    count, start, size = files.groups
    assert counted["count"].to_numpy()[start].tolist() == count.tolist() and size.sum() == counted.height
    shown = series.release("all", **ALL).frame
    assert shown.height == counted.height
    assert shown["noisy_count"].round(0).sort().equals(counted["count"].cast(pl.Float64).alias("noisy_count"))


@pytest.mark.slow
def test_keys_without_a_count_are_found_nowhere(tmp_path):
    """Candidate empty keys are looked up among the hashes, from the first to the last of them and beyond."""
    files = _files(_made(tmp_path))
    held = files.all_keys()
    others = pl.DataFrame({"key_0": [f"never {n}" for n in range(300)]})
    mixed = pl.concat([others, held]).sample(fraction=1, shuffle=True, seed=1)
    assert files.contains(mixed).tolist() == mixed["key_0"].is_in(held["key_0"].implode()).to_list()
    assert files.contains(mixed.clear()).size == 0


def test_a_changed_directory_is_an_error_and_spends_nothing(tmp_path):
    """A file that is missing, shorter or altered is noticed by a round or by a check; the series stays as it was."""
    series = _made(tmp_path)
    (place,) = (tmp_path / "c").iterdir()
    (file,) = sorted((place / "counts").glob("*.parquet"))[:1]
    content = file.read_bytes()
    for wrong in (None, content[:-1], content + b"x"):
        file.unlink() if wrong is None else file.write_bytes(wrong)
        with pytest.raises(StoreError, match="c/"):
            series.release("all", **ALL)
    file.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with series.store._hold() as state, pytest.raises(StoreDamagedError, match="altered"):
        state.verify()
    file.write_bytes(content)
    with series.store._hold() as state:
        state.verify()
    assert series.releases().is_empty()
    assert series.release("all", **ALL).frame.height > 0


def test_rows_that_cannot_be_read_after_the_commit_come_back_with_their_file(tmp_path):
    """A bit that flipped is told from a place out of reach; the release is spent once, and drawn once."""
    series, local = _made(tmp_path), sh.create(tmp_path / "local", a_log(900, 60), **DECLARED)
    (place,) = (tmp_path / "c").iterdir()
    files = {file: file.read_bytes() for file in (place / "counts").glob("*.parquet")}
    for file, content in files.items():
        middle = content.index(b"PAR1") + 60
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(StoreDamagedError, match=r"altered.*'all' is committed and spent"):
        series.release("all", **ALL)
    spent = series.store.ledger()
    for file, content in files.items():
        file.write_bytes(content)
    shown = series.release("all").frame
    assert shown.height == local.release("all", **ALL).frame.height
    assert shown.equals(series.release("all", **ALL).frame)
    assert series.store.ledger().equals(spent)


@pytest.mark.slow
def test_dropping_a_series_erases_what_spark_wrote(tmp_path):
    """The directory of the series goes with it, or is gone; of a disk that is gone, the drop says so and is done."""
    series = _made(tmp_path)
    series.store.drop("queries")
    assert list((tmp_path / "c").iterdir()) == []
    again = _made(tmp_path)
    (place,) = (tmp_path / "c").iterdir()
    shutil.rmtree(place)
    again.store.drop("queries")
    last = _made(tmp_path)
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(StoreError, match="dropped all the same"):
        last.store.drop("queries")
    assert last.store.series_names() == []


def _while_it_runs(what):
    """Do something again and again beside the run, until it is over."""
    over = threading.Event()

    def again():
        while not over.wait(0.02):
            what()

    thread = threading.Thread(target=again)
    thread.start()
    return over, thread


@pytest.mark.slow
def test_tasks_that_are_killed_are_run_again(tmp_path):
    """Each of the first tasks is killed once as it runs: no row is lost or there twice."""
    scala = spark.session().sparkContext._jsc.sc()
    log = a_log(20_000, 3000)
    tracker, killed = spark.session().sparkContext.statusTracker(), set()

    def kill():
        for stage in tracker.getActiveStageIds():
            begun = tracker.getStageInfo(stage)
            if begun is not None and begun.numActiveTasks and stage not in killed and len(killed) < 4:
                killed.update(
                    {stage} if any(scala.killTaskAttempt(task, True, "test") for task in range(4000)) else ()
                )

    over, thread = _while_it_runs(kill)
    series = _made(tmp_path, log)
    over.set()
    thread.join()
    assert killed
    local = _files(sh.create(":memory:", log, **DECLARED, portable=True, seed=1))
    assert _files(series).all_counted()["count"].sum() == local.all_counted()["count"].sum()


@pytest.mark.slow
def test_a_place_that_vanishes_leaves_no_series(tmp_path):
    """Where the place is taken away while executors write, there is no series, and a rerun makes it."""
    over, thread = _while_it_runs(lambda: shutil.rmtree(tmp_path / "c", ignore_errors=True))
    with pytest.raises((StoreError, DataError)):
        _made(tmp_path)
    over.set()
    thread.join()
    assert sh.open(tmp_path / "store", create=True).ledger().is_empty()
    assert _made(tmp_path).release("all", **ALL).frame.height > 0


_RUN = """
import sys, polars as pl, sparsehist as sh
from pathlib import Path
from tests.counting.logs import a_log
from tests.counting.spark import frame
from tests.counting.test_counts_in_parts import DECLARED
place = Path(sys.argv[1])
print("ready", flush=True)
sh.create(place / "store", frame(a_log(900, 60)), **DECLARED, counts_directory=place / "c")
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_series(tmp_path):
    """Killed once executors have begun to write, it leaves a store without the series, and a rerun makes it."""
    spark.session()
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", _RUN, str(tmp_path)], cwd=CHECKOUT) as run:
        while run.poll() is None and not any(tmp_path.glob("c/*/counts/_temporary")):
            time.sleep(0.01)
        run.kill()
    assert run.returncode == -9
    with sh.open(tmp_path / "store") as store:
        assert store.ledger().is_empty()
    assert _made(tmp_path).release("all", **ALL).frame.height > 0


_LOCAL_CLUSTER = """
import os, signal, sys, threading, time
import sparsehist as sh
from pathlib import Path
from pyspark.sql import SparkSession
from tests.counting.test_counts_in_parts import DECLARED
place = Path(sys.argv[1])
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.executor.memory", "600m")
for name, value in {
    "spark.driver.memory": "700m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8", "spark.local.dir": f"{place}/local",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
driver, tracker = spark._jvm.java.lang.ProcessHandle.current().pid(), spark.sparkContext.statusTracker()

def executors():
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == driver and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return sorted(found)

killed = []
over = threading.Event()

def kill():
    # Once a stage has ended, so that what it left with an executor is lost too, and another runs.
    while not over.wait(0.01):
        active = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage.numActiveTasks and stage.stageId > first for stage in active if stage is not None):
            killed.append(executors()[0])
            os.kill(killed[0], signal.SIGKILL)
            return

log = spark.read.parquet(f"{place}/log.parquet")
log.count()
first = max(stage for job in tracker.getJobIdsForGroup(None) for stage in tracker.getJobInfo(job).stageIds)
thread = threading.Thread(target=kill)
thread.start()
sh.create(place / "store", log, **DECLARED, counts_directory=place / "c")
over.set()
thread.join()
assert killed and killed[0] not in executors(), (killed, executors())
"""


@pytest.mark.slow
def test_an_executor_that_is_killed_loses_no_row(tmp_path):
    """A process with one of two executors is killed by SIGKILL while it counts: keys and counts are as elsewhere."""
    spark.session()
    rng = np.random.default_rng(1)
    log = pl.DataFrame({"user_id": rng.integers(20_000, size=100_000), "query": rng.integers(30_000, size=100_000)})
    log = log.with_columns(pl.col("query").cast(pl.String))
    log.write_parquet(tmp_path / "log.parquet", row_group_size=5000)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOCAL_CLUSTER, str(tmp_path)],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    with sh.open(tmp_path / "store") as store:
        assert is_whole(store.series("queries"), log)
