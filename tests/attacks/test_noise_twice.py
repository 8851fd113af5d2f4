"""Copies, other file systems, lost marks, interrupts: never two noises for one level, never a shorter ledger."""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError, SparsehistError
from sparsehist.store import LEDGER_NAME

COUNTS = pl.DataFrame({"word": [f"key{i}" for i in range(50)], "count": range(1, 101, 2)})


def a_series(path: Path, name: str = "words") -> sh.Series:
    """Make a series of fifty words."""
    return sh.create(
        path, sh.Counts(COUNTS, largest=1), name=name, key="word", max_keys=2, domain=sh.Strings(max_bytes=6)
    )


@pytest.mark.parametrize("name", ["q?x", "a.generation"])
def test_a_name_that_would_be_misread_is_refused(tmp_path: Path, name: str) -> None:
    """DuckDB reads options after a question mark, and a store's mark stands under its name and .generation."""
    with pytest.raises(DeclarationError, match="question mark"):
        a_series(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_series_made_again_under_a_dropped_name_is_another_one(tmp_path: Path) -> None:
    """An old handle refuses, `reuse` counts anew, and the ledger adds up both."""
    old = a_series(tmp_path / "store")
    old.release("first", level=1)
    sh.open(tmp_path / "store").drop("words")
    new = sh.create(tmp_path / "store", sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2,
                    domain=sh.Strings(max_bytes=6), if_exists="reuse")  # fmt: skip
    new.release("first", level="1/2")
    with pytest.raises(SparsehistError):
        old.release("first")
    with sh.open(tmp_path / "store") as store:
        population = store.ledger(full=True).filter(scope="population")
    assert population["cost"].to_list() == [1.5]


def test_one_release_name_in_two_series_and_two_stores(tmp_path: Path) -> None:
    """The public ledger distinguishes equal names of releases in several series, stores and dropped series."""
    out = tmp_path / "public"
    out.mkdir()
    for store in ("one", "two"):
        for name in ("words", "others"):
            a_series(tmp_path / store, name).release("first", level=1).write_parquet(out / f"{store}-{name}.parquet")
        sh.open(tmp_path / store).drop("words")
        a_series(tmp_path / store).release("first", level=1).write_parquet(out / f"{store}.parquet")
    stores = json.loads((out / LEDGER_NAME).read_text())["stores"].values()
    assert len({release["digest"] for store in stores for release in store["releases"]}) == 6


INTERRUPTED = """
import sys, sparsehist as sh, polars as pl
series = sh.open(sys.argv[1]).series("words")
series.release(f"{sys.argv[2]}_first", level="1/7")  # what a release imports is imported then
print("ready", flush=True)
i = 0
while True:
    release = series.release(f"{sys.argv[2]}_{i}", level=f"{i % 5 + 1}/7")
    print(release.name, release.frame.hash_rows(seed=1).sum() if len(release) else 0, flush=True)
    i += 1
"""


def test_an_interrupt_at_any_moment_changes_no_release(tmp_path: Path) -> None:
    """Every release that a run printed before Ctrl-C has the same numbers in the next run."""
    a_series(tmp_path / "store")
    seen: dict[str, str] = {}
    for attempt in range(2):
        command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "store"), f"r{attempt}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            assert run.stdout is not None
            run.stdout.readline()
            name, digest = run.stdout.readline().split()  # at least one release, however slow the machine
            seen[name] = digest
            timer = threading.Timer(0.1 + 0.0431 * attempt, run.send_signal, [signal.SIGINT])
            timer.start()
            for line in run.stdout:
                if line.endswith("\n") and len(line.split()) == 2:  # the interrupt may cut a line short
                    name, digest = line.split()
                    seen[name] = digest
            timer.join()
    series = sh.open(tmp_path / "store", wait=5).series("words")
    assert seen
    for name, digest in seen.items():
        frame = series.release(name).frame
        assert digest == str(frame.hash_rows(seed=1).sum() if frame.height else 0)


def test_interrupted_at_every_call_a_release_is_whole_or_not_there(tmp_path: Path) -> None:
    """A KeyboardInterrupt on entering any function of ours: the store opens, a name keeps its numbers, locks go.

    Generators aside: one that is dropped half-way is entered again to be closed, where nothing it raises gets out.
    """
    series = a_series(tmp_path / "store")
    series.release("before", level="1/3")
    package = str(Path(sh.__file__).parent)
    calls = 0

    def interrupt_at(target: int) -> object:
        def trace(frame, event, _):
            nonlocal calls
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(package) and not code.co_flags & inspect.CO_GENERATOR:
                calls += 1
                if calls == target:
                    sys.settrace(None)
                    raise KeyboardInterrupt

        return trace

    known = {"before": series.release("before").frame}
    sys.settrace(interrupt_at(-1))
    series.release("counted", level="1/5")
    sys.settrace(None)
    for i, target in enumerate(range(1, calls, max(1, calls // 30))):
        calls = 0
        sys.settrace(interrupt_at(target))
        try:
            series.release(f"at_{i}", level=f"{i % 9 + 1}/11")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        again = series.release(f"at_{i}", level=f"{i % 9 + 1}/11")
        known[again.name] = again.frame
    assert len(known) > 20
    for name, frame in known.items():
        assert series.release(name).frame.equals(frame)
