"""Kill work at chosen system calls, or let a call fail: `python -m tests.faults.campaign PLACE --kills 100`.

One process imports everything and starts no thread. Every attempt is a fork of it, traced by strace, which kills the
fork at its n-th call of one kind, or lets that call fail. After every attempt a second fork runs the next command and
checks the store: it opens and verifies, every release still has the numbers first seen, every published file is in
the state and in both ledgers, and there are no other files.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.errors import SparsehistError
from sparsehist.privacy import as_level
from sparsehist.release.steps import StepFiles

# All that the work imports on its way, so that an attempt makes its own calls only.
from sparsehist.sqlfront import session as _session  # noqa: F401
from tests.periods.logs import who_counts

KINDS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir", "rmdir", "unlinkat")
LEVELS = ["0.05", "0.4", "0.1", "0.2", "0.05", "0.3"]
REFUSED, FAILED = 3, 1
MOST_STEPS = 400
SCRIPT = """
create series if not exists by_script with (unit = user, key = key, max_keys = 3, domain = 'strings(max_bytes=8)')
  as select "user", key from log;
release {name} from by_script at level {level} expecting 5 false keys to '{file}';
"""


def log() -> pl.DataFrame:
    """A small log, the same in every process."""
    rng = np.random.default_rng(5)
    return pl.DataFrame({"user": np.repeat(np.arange(800), 3), "key": [f"k{k}" for k in rng.zipf(1.4, 2400) % 60]})


class Place:
    """Where the work is done: a store, a directory to publish in, and what was seen so far.

    Attributes:
        root: Holds all of it.
        store: The store.
        out: What is published.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.store, self.out = root, root / "store", root / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self._seen, self.log = root / "seen.json", root.parent / "log.parquet"  # outside of what is put back
        if not self.log.exists():
            forked(lambda: log().write_parquet(self.log))  # Polars starts no thread in this process

    def create(self, name: str = "visits", **more: object) -> sh.Series:
        """Create a series, or go on where a killed run left off."""
        return sh.create(
            sh.open(self.store, create=True, wait=20), self.log, name=name, unit="user", key="key", max_keys=3,
            domain="strings(max_bytes=8)", if_exists="reuse", **more,
        )  # fmt: skip

    def number(self) -> int:
        """How many releases the store has made."""
        with sh.open(self.store, wait=20) as opened:
            return sum(event["what"] == "release" for event in _rows(opened.events()))

    def keep(self, found: dict[str, str]) -> None:
        """Compare releases with those seen before, and remember them."""
        known = json.loads(self._seen.read_text()) if self._seen.exists() else {}
        changed = {name for name in found if known.get(name, found[name]) != found[name]}
        assert not changed, f"drawn twice: {changed}"
        self._seen.write_text(json.dumps(known | found))


def digest(release: sh.Release) -> str:
    """What tells the numbers of one release from those of another."""
    return hashlib.sha256(json.dumps([release.frame.rows(), release.metadata], default=str).encode()).hexdigest()


def inspect(place: Place) -> None:
    """Run the next command, and look at everything."""
    opened = sh.open(place.store, wait=20)
    with opened.home.hold() as state:
        state.verify()
        files = state._database._connection.execute(
            "select series_id, name from file where not erased "
            "union all select series_id, file from release where file is not null"
        )
        registered = {f"{series}/{name}" for series, name in files}
        store_id = state.store_id
    found, by_round = {}, {}
    for name in opened.series_names():
        series = opened.series(name)
        for row in _rows(series.releases()):
            again = series.release
            release = again(row["name"])
            found[str(release.metadata["round"])] = digest(release)
            by_round[release.metadata["round"]] = release
    place.keep(found)
    for path in place.out.glob("*.parquet"):
        left = sh.read(path)
        if left.metadata["series"] in opened.series_names():
            assert by_round[left.metadata["round"]].frame.equals(left.frame), f"{path.name} is not in the state"
    ledger = place.out / "sparsehist-ledger.json"
    entries = (
        json.loads(ledger.read_text())["stores"].get(store_id, {"releases": []})["releases"]
        if ledger.exists()
        else []
    )
    assert {entry["round"] for entry in entries if entry["series"] in opened.series_names()} <= set(by_round)
    ledger_rows = _rows(opened.ledger(full=True))
    populations = {row["population"]: row["level"] for row in ledger_rows if row["scope"] == "population"}
    paths = {row["series"]: row["level"] for row in ledger_rows if row["scope"] == "path" and row["path"] == "cells"}
    for release in by_round.values():
        if release.metadata["kind"] == "cells":
            # Of a periodic series the ledger has one row, that of its population.
            spent = (
                paths.get(release.metadata["series"]) or populations[release.metadata["declaration"]["population"]]
            )
            assert as_level(spent) >= release.level, "the ledger shows less than what left"
    _check_remains(place, registered)


def _rows(frame: object) -> list[dict[str, object]]:
    return frame.to_dicts() if isinstance(frame, pl.DataFrame) else list(frame)  # type: ignore[call-overload]


def _check_remains(place: Place, registered: set[str]) -> None:
    """Nothing is there but what is meant to be."""
    top = {path.name for path in place.root.iterdir()} - {"seen.json"}
    assert top <= {"store", "store.generation", "out", "kept", "kept.generation"}, top
    inside = {path.name for path in place.store.iterdir()}
    assert inside <= {"format", "lock", "state.sqlite", "state.digest", "series", "tmp"}, inside
    assert not list((place.store / "tmp").iterdir()), "spill"
    files = {
        str(path.relative_to(place.store / "series"))
        for path in (place.store / "series").rglob("*")
        if path.is_file()
    }
    assert files == registered, files ^ registered


def released(place: Place) -> None:
    """Release at a level and publish."""
    n = place.number()
    release = place.create().release(f"r{n}", level=LEVELS[n % len(LEVELS)], threshold=42.0 + n % 5)
    release.write_parquet(place.out / f"r{n}.parquet")


def workload(place: Place) -> None:
    """Open the noise path of a workload, or release from it again, and publish."""
    n = place.number()
    release = place.create().release(f"w{n}", workload="marginals([[]])", level=LEVELS[n % len(LEVELS)])
    release.write_parquet(place.out / f"w{n}.parquet")


def day(place: Place, step: int) -> pl.LazyFrame:
    """The log of a step or a week: half of its users were there before."""
    return pl.scan_parquet(place.log).with_columns(pl.col("user") + 400 * step)


def appended(place: Place) -> None:
    """Append the next step to a running series, release its counts and publish."""
    series = sh.create(
        sh.open(place.store, create=True, wait=20), name="days", unit="user", key="key", max_keys=3,
        domain="strings(max_bytes=8)", steps=MOST_STEPS, if_exists="reuse",
    )  # fmt: skip
    step = min(series.appended() + 1, MOST_STEPS)
    series.append(day(place, step), step=step)
    release = series.release(f"day_{step}", step=step, level=LEVELS[step % len(LEVELS)], threshold=90.0)
    release.write_parquet(place.out / f"day_{step}.parquet")


def prepare_append(place: Place) -> None:
    """A running series with three steps: the fourth merges what the store knows of those before."""
    for _ in range(3):
        appended(place)


def check_append(place: Place) -> None:
    """The counts are those of whole steps, each counted once."""
    inspect(place)
    series = sh.open(place.store).series("days")
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        counts = files.counts_at(range(files.n_steps), np.arange(files.all_keys.height))
    assert (np.diff(counts, axis=0) >= 0).all()
    log = pl.concat([day(place, step) for step in range(1, files.n_steps + 1)]).unique().collect()
    assert counts[-1].sum() == log.group_by("user").len()["len"].clip(upper_bound=3).sum()


def added(place: Place) -> None:
    """Append the log of the next week to a periodic series in which a user counts in two weeks, release, publish."""
    series = sh.create(
        sh.open(place.store, create=True, wait=20), name="weeks", unit="user", key="key", max_keys=3,
        domain="strings(max_bytes=8)", if_exists="reuse", every=sh.Every("week", most_periods=2, budget="1"),
    )  # fmt: skip
    number = min(len(series.appended()) + 1, 52)
    log = day(place, number).collect()
    release = series.append(log, period=f"2026-W{number:02}").release("public", level="0.3", threshold=20.0)
    release.write_parquet(place.out / f"week_{number}.parquet")


def prepare_add(place: Place) -> None:
    """A periodic series with a released week."""
    added(place)


def check_add(place: Place) -> None:
    """Nobody counts in more than two weeks, and everybody in the first two they were in."""
    inspect(place)
    series, times = sh.open(place.store).series("weeks"), Counter[int]()
    for number, (week, units) in enumerate(who_counts(series).items(), 1):
        assert week == f"2026-W{number:02}"
        wanted = {user for user in day(place, number).collect()["user"].unique() if times[user] < 2}
        assert units == wanted
        times.update(wanted)


def created(place: Place) -> None:
    """Create a store with a series."""
    place.create("new")


def uncreate(place: Place) -> None:
    """The same creation again gives the whole series; then make room for the next attempt."""
    place.create("new").release("all", level=100, threshold=2.0)
    inspect(place)
    shutil.rmtree(place.store)
    Path(f"{place.store}.generation").unlink()


def dropped(place: Place) -> None:
    """Drop a series."""
    sh.open(place.store).drop("more")


def undrop(place: Place) -> None:
    """What was spent stays in the ledger; give the next attempt a series to drop."""
    inspect(place)
    opened = sh.open(place.store)
    levels = [
        row["level"] for row in _rows(opened.ledger(full=True)) if row["scope"] == "path" and row["series"] == "more"
    ]
    if "more" in opened.series_names():
        opened.drop("more")
        inspect(place)
    known = json.loads((place.root / "seen.json").read_text())
    assert len(levels) >= known.get("drops", 0), "the ledger lost what a dropped series spent"
    (place.root / "seen.json").write_text(json.dumps(known | {"drops": len(levels)}))
    prepare_drop(place)


def prepare_drop(place: Place) -> None:
    """A series with a release."""
    place.create()
    place.create("more").release("once", level="0.1", false_keys=5)


def budget(place: Place) -> None:
    """Raise the budget."""
    with sh.open(place.store, wait=20) as opened:
        opened.set_budget(rho=str(10 + len(_rows(opened.events()))), reason="more is needed")


def backed_up(place: Place) -> None:
    """Make a backup."""
    sh.open(place.store, wait=20).backup(place.root / "kept")


def unbackup(place: Place) -> None:
    """The backup is complete or absent, cannot be adopted beside the store, and the next backup cleans up."""
    kept = place.root / "kept"
    for half in place.root.glob(".kept.*.new"):
        half.rename(place.out / half.name)
    inspect(place)
    for half in place.out.glob(".kept.*.new"):
        half.rename(place.root / half.name)
    if kept.exists():
        try:
            sh.adopt(kept, home_is_gone=True)
        except SparsehistError:
            shutil.rmtree(kept)
        else:
            raise AssertionError("a backup was adopted beside the store")
    backed_up(place)
    assert not list(place.root.glob(".kept.*.new"))
    shutil.rmtree(kept)


def adopted(place: Place) -> None:
    """Adopt a backup whose original is gone."""
    sh.adopt(place.root / "kept", home_is_gone=True)


def unadopt(place: Place) -> None:
    """The backup can be adopted, and then no other copy can; it is the store from then on."""
    kept, other = place.root / "kept", place.root / "other"
    sh.adopt(kept, home_is_gone=True)
    try:
        sh.adopt(other, home_is_gone=True)
    except SparsehistError:
        shutil.rmtree(other)
    else:
        raise AssertionError("two copies were adopted")
    kept.rename(place.store)
    sh.open(place.store)
    inspect(place)
    prepare_adopt(place)


def prepare_adopt(place: Place) -> None:
    """Two backups of a store that is gone."""
    place.create().release("first", level="0.1", false_keys=5)
    for name in ("kept", "other"):
        sh.open(place.store).backup(place.root / name)
    inspect_and_forget(place)


def inspect_and_forget(place: Place) -> None:
    """The original goes."""
    shutil.rmtree(place.store)


def cleared(place: Place) -> None:
    """The next command removes what runs left that died while they counted."""
    place.create().release("first")


def plant(place: Place) -> None:
    """Check the store; then plant temporary files of killed runs, with and without a lock."""
    assert forked(lambda: inspect(place)) == 0
    for name in ("sparsehist-spill-died", "sparsehist-spill-open", "other"):
        directory = place.store / "tmp" / name
        (directory / "parts" / "more").mkdir(parents=True)
        for file in ("a", "parts/b", "parts/more/c"):
            (directory / file).write_text("user 17")
    (place.store / "tmp" / "sparsehist-spill-died" / "lock").touch()
    (place.store / "tmp" / "sparsehist-spill-empty").mkdir()


def prepare_clear(place: Place) -> None:
    """A store with a release, and the remains of dead runs."""
    assert forked(lambda: prepare(place)) == 0
    plant(place)


def moved(place: Place) -> None:
    """Open a store that was moved."""
    sh.open(place.root / "kept")


def unmove(place: Place) -> None:
    """It opens at its new place, and back at the old one; then move it again."""
    sh.open(place.root / "kept")
    (place.root / "kept").rename(place.store)
    inspect(place)
    place.store.rename(place.root / "kept")


def prepare_move(place: Place) -> None:
    """A store that was moved."""
    place.create().release("first", level="0.1", false_keys=5)
    place.store.rename(place.root / "kept")


def script(place: Place) -> None:
    """Run a script that makes a series, releases and publishes."""
    n = place.number() if place.store.exists() else 0
    text = SCRIPT.format(name=f"s{n}", level=LEVELS[n % len(LEVELS)], file=place.out / f"s{n}.parquet")
    sh.sql(text, store=place.store, tables={"log": place.log})


def unscript(place: Place) -> None:
    """The same script again does what is left; now and then the series goes."""
    script(place)
    inspect(place)
    if place.number() % 5 == 4 and "by_script" in sh.open(place.store).series_names():
        sh.open(place.store).drop("by_script")
        shutil.rmtree(place.out)
        place.out.mkdir()


def prepare(place: Place) -> None:
    """A store with a series and a release."""
    place.create().release("first", level="0.1", false_keys=5)


def nothing(place: Place) -> None:
    """Nothing is there yet."""


Step = Callable[[Place], None]
STEPS = {"prepare": 0, "work": 1, "check": 2}
WORK: dict[str, tuple[Step, Step, Step]] = {
    "create": (nothing, created, uncreate),
    "release": (prepare, released, inspect),
    "workload": (prepare, workload, inspect),
    "append": (prepare_append, appended, check_append),
    "add": (prepare_add, added, check_add),
    "drop": (prepare_drop, dropped, undrop),
    "budget": (prepare, budget, inspect),
    "backup": (prepare, backed_up, unbackup),
    "adopt": (prepare_adopt, adopted, unadopt),
    "clear": (prepare_clear, cleared, plant),
    "move": (prepare_move, moved, unmove),
    "script": (nothing, script, unscript),
}


def forked(step: Callable[[], None]) -> int:
    """Run something in a fork; its exit code, negative when it was killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # a machine may be busy
        code = FAILED
        try:
            step()
            code = 0
        except SparsehistError:
            code = REFUSED
            if os.environ.get("SPARSEHIST_SHOW"):
                sys.excepthook(*sys.exc_info())
        except BaseException:  # noqa: BLE001  shown, and then the child ends
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def traced(injection: str, trace: Path) -> None:
    """Trace this process from here on. A failing `write` is made in Python, so that only file writes fail."""
    call, _, what = injection.partition(":")
    if call == "write" and what.startswith("error="):
        fail_write(*what.removeprefix("error=").split(":when="), trace)
        return
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # its own child may trace it
    words = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={injection}"]
    subprocess.Popen([*words, "-p", str(os.getpid())], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = Path("/proc/self/status")
    for _ in range(2000):
        if "TracerPid:\t0\n" not in status.read_text():
            return
        time.sleep(0.005)
    raise TimeoutError("strace did not attach")


def fail_write(error: str, when: str, trace: Path) -> None:
    """Let the n-th os.write fail: files are written by it."""
    left, real = [int(when)], os.write

    def write(descriptor: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] == 0:
            trace.write_text("(INJECTED)")
            raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
        return real(descriptor, data)

    os.write = write


def attempts(
    name: str,
    root: Path,
    injection: Callable[[str, int], str],
    *,
    most: int,
    all_kinds: list[str],
    once: bool = False,
    report: Counter[str],
) -> None:
    """Interrupt a piece of work at every call of every kind in turn, and check after each, up to `most` attempts."""
    place = Place(root)
    before, work, check = WORK[name]
    assert forked(lambda: before(place)) == 0, f"{name}: not prepared"
    trace = root.parent / f"{name}.trace"
    done, n, kinds, came_before = 0, 0, list(all_kinds), True
    while done < most and (kinds or came_before):
        if not kinds:  # every kind has come to its end: once more from the first call
            n, kinds, came_before = 0, list(all_kinds), False
        n += 1
        for kind in list(kinds):
            trace.write_text("")

            def attempt(injected: str = injection(kind, n)) -> None:
                traced(injected, trace)
                work(place)

            ended = forked(attempt)
            came = ended == -signal.SIGKILL or "(INJECTED)" in trace.read_text(errors="replace")
            assert ended in ((0, REFUSED, -signal.SIGKILL) if came else (0,)), f"{name}: {kind} {n}: ended {ended}"
            assert forked(lambda: check(place)) == 0, f"{name}: {injection(kind, n)}: ended {ended}, check failed"
            if not came:
                kinds.remove(kind)
                continue
            came_before = True
            done += 1
            ending = "refused" if ended == REFUSED else "killed" if ended < 0 else "succeeded"
            report.update((kind, f"of {name}", ending))
            if done >= most:
                return
        if once and not kinds:
            return


def main() -> None:
    """Run what the command line says, and print how many of each kind there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("--work", nargs="*", default=list(WORK))
    parser.add_argument("--step", choices=[*STEPS, "for ever"])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--errors", nargs="*", default=[])
    asked = parser.parse_args()
    if asked.step:
        place, (name,) = Place(asked.place), asked.work
        if asked.step not in STEPS:
            print("begun", flush=True)  # noqa: T201
        while True:
            WORK[name][STEPS.get(asked.step, 1)](place)
            if asked.step in STEPS:
                return
    report: Counter[str] = Counter()
    for name in asked.work:
        share = -(-asked.kills // len(asked.work))
        if share:
            kill = lambda kind, n: f"{kind}:signal=SIGKILL:when={n}"  # noqa: E731
            attempts(name, asked.place / f"{name}-kill" / "w", kill, most=share, all_kinds=asked.kinds, report=report)
        for error in asked.errors:
            fail = lambda kind, n, error=error: f"{kind}:error={error}:when={n}"  # noqa: E731
            place, kinds = asked.place / f"{name}-{error}" / "w", asked.kinds
            attempts(name, place, fail, most=1000, all_kinds=kinds, once=True, report=report)
        print(json.dumps({"after": name, **report}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
