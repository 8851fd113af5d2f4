"""Work on a store that is killed at a chosen moment, and what must hold afterwards; run as a script.

    python -m tests.store.crashing once WORK DIRECTORY       do the work once, in this process
    python -m tests.store.crashing check WORK DIRECTORY      fail unless the store is before or after the work
    python -m tests.store.crashing everywhere WORK DIRECTORY kill the work at each of its calls of the system

The last one prints how many moments there were. It runs every attempt and every check in a fork of a process that
itself never starts a thread.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import StoreRolledBackError
from sparsehist.release import (
    creation,  # noqa: F401 - read once, so that no fork of this process does it again
    query_session,  # noqa: F401
)
from sparsehist.store import NewRound, PathRecord, State, adopt, backup, create_store, open_state
from sparsehist.store.database import Database
from tests.store.example import Model, add_series, make_store

MOST_CALLS = 250
"""Twice what the longest work makes; where attempts leave something that the next one reads, there is no end."""
CALLS = ("open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate")


def release(path: Path) -> None:
    """Commit one more round on top of what is there."""
    with open_state(path) as state:
        model = grown(state)
        # Few levels: a round writes a row for each, and the moments to be killed at must come to an end.
        state.commit_round(model.make_round(Fraction(1, len(model.names) % 3 + 1), 3, 1))


def release_workload(path: Path) -> None:
    """Open a noise path for a workload, with an attachment."""
    with open_state(path) as state:
        record = state.series("queries")
        number = len(record.paths)
        file = state.write_attachment(record, ".npz", b"matrix")
        new = PathRecord(record.series_id, "workload", f"prefix({number})", "spectral")
        noise = np.full(9, float(number))
        state.commit_round(NewRound(new, f"prefix_{number}", Fraction(1), {}, {}, noise, attachments=[file]))


def grown(state: State) -> Model:
    """The model of a store that made as many releases as this one: rounds are drawn with fixed seeds."""
    path_id = state.series("queries").path_id
    model = Model(path_id)
    for release in state.releases(path_id):
        model.make_round(release.level, 3, 1)
    return model


def create(path: Path) -> None:
    """Make a store."""
    create_store(path)


def create_series(path: Path) -> None:
    """Add a series to a store."""
    with open_state(path) as state:
        add_series(state, "another")


def drop(path: Path) -> None:
    """Drop a series."""
    with open_state(path) as state:
        state.drop_series("another")


def take(path: Path) -> None:
    """Adopt a copy whose original is gone."""
    adopt(path.with_name("copy"), home_is_gone=True)


def copy(path: Path) -> None:
    """Make a backup."""
    backup(path, path.with_name("kept"))


def ask(path: Path) -> None:
    """Ask a session what is to be measured, and note the answer once it is given."""
    session = sh.open(path).series("visits").interactive("ad_hoc")
    answer = session.ask(pl.col("page") == session.answers.height - 1)
    path.with_name("given").write_text(f"{session.answers.height} {answer.value}")


def open_session(path: Path) -> None:
    """Open a session, with a release to start from."""
    series = sh.open(path).series("visits")
    series.interactive("ad_hoc", level=500, accuracy="0.1", start=series.release("public"))


def release_sums(path: Path) -> None:
    """Release counts and the sums of two measures, each from a noise path of its own."""
    sh.open(path).series("visits").release("sums", level=1, measures=1)


def check_release_sums(path: Path) -> None:
    """All three paths have their round and are charged, or none; then begin anew."""
    series = sh.open(path).series("visits")
    names = series.releases()["name"].to_list()
    assert names in ([], ["sums"])
    charged = series.store.ledger(full=True).filter(scope="path")["level"].drop_nulls()
    assert charged.to_list() == ["1"] * 3 * len(names)
    with open_state(path) as state:
        state.verify()
        record = state.series("visits")
        assert len(list(record.directory.glob("round-*"))) == len(state.series_releases(record)) == 3 * len(names)
    released = series.release("sums", level=1, measures=1).frame.filter(pl.col("page") < 8)
    assert released.height == 8 and series.release("sums").frame.filter(pl.col("page") < 8).equals(released)
    assert (released["price_sum"] - 50_000).abs().max() < 5_000 and released["events_sum"].min() > 11_000
    shutil.rmtree(path)
    prepare_visits(path)


def check_release(path: Path) -> None:
    """Every release that is there is whole, and the next one can be made."""
    with open_state(path) as state:
        grown(state).check(state)
        state.verify()
        assert state.generation == 1 + len(state.releases(1))


def check_release_workload(path: Path) -> None:
    """Every workload path that is there has its one round and its attachment, and nothing else is there."""
    with open_state(path) as state:
        grown(state).check(state)
        state.verify()
        record = state.series("queries")
        kept = {file.name for file in record.files}
        for number, workload in enumerate(record.paths[1:], start=1):
            (made,) = state.releases(workload.path_id)
            assert (made.name, workload.workload) == (f"prefix_{number}", f"prefix({number})")
            assert state.noise(workload.path_id, Fraction(1), 9).tolist() == [number] * 9
            kept |= {workload.files[0].name}
        n_rounds = len(list(record.directory.glob("round-*")))
        assert n_rounds == len(state.series_releases(record)) == state.generation - 1
        assert {place.name for place in record.directory.iterdir() if not place.name.startswith("round-")} == kept


def check_ask(path: Path) -> None:
    """What was given is kept, nothing is counted twice, and what is asked again is answered alike."""
    session = sh.open(path).series("visits").interactive("ad_hoc")
    answers = session.answers["value"].to_list()
    assert session.updates_left == 200 - (len(answers) - 1)
    given = path.with_name("given")
    if given.exists():
        height, value = given.read_text().split()
        assert answers[int(height) - 1] == float(value)
    kept = path.with_name("kept")
    before = list(map(int, kept.read_text().split())) if kept.exists() else []
    assert answers[: len(before)] == before
    assert len(answers) <= max(len(before), 1) + 1
    kept.write_text(" ".join(map(str, answers)))
    for number, value in enumerate(answers[1:]):
        assert session.ask(pl.col("page") == number).value == value
    with open_state(path) as state:
        state.verify()
        assert state.generation == 2 + len(answers) - 1
        record = state.series("visits")
        assert len(list(record.directory.glob("*.update"))) == len(record.paths[1].files) == len(answers) - 1


def check_open_session(path: Path) -> None:
    """The session is charged, can be asked, and begins from the release, or there is none; then begin anew."""
    series = sh.open(path).series("visits")
    names = [name for name in series.releases()["name"] if name != "public"]
    assert names in ([], ["ad_hoc"])
    assert series.store.ledger(full=True).filter(scope="path")["path"].to_list()[1:] == [
        f"interactive {name} multiplicative_weights" for name in names
    ]
    for name in names:
        answer = series.interactive(name).ask(pl.col("page") < 8)
        assert not answer.fresh and abs(answer.value - 100_000) < answer.error
    with open_state(path) as state:
        state.verify()
        assert len(list(state.series("visits").directory.glob("*.start"))) == len(names)
    if names:
        # A session cannot be dropped, and each one is a path to read: with one more per attempt there were one more
        # call per attempt, and no end.
        shutil.rmtree(path)
        prepare_start(path)


def check_create(path: Path) -> None:
    """The store is there and empty, or not there; then make room for the next attempt."""
    if path.exists():
        with open_state(path) as state:
            assert state.generation == 0
        shutil.rmtree(path)
    create_store(path)
    left = [place.name for place in path.parent.iterdir() if place.is_dir() and (place / "lock").exists()]
    assert left == [path.name], left
    shutil.rmtree(path)


def check_create_series(path: Path) -> None:
    """The series is whole, or there is none and nothing of it."""
    with open_state(path) as state:
        check_series(state)
        if state.series("another") is not None:
            state.drop_series("another")


def check_drop(path: Path) -> None:
    """The series is whole, or dropped; then give the next attempt one to drop."""
    with open_state(path) as state:
        check_series(state)
        if state.series("another") is None:
            add_series(state, "another")


def check_series(state: State) -> None:
    """All series are whole, nothing else is there, and the noise of a dropped one is nowhere."""
    state.verify()
    expected = {record.series_id for record in state.all_series()}
    assert {place.name for place in (state.path / "series").iterdir()} == expected
    for record in state.all_series():
        assert state.series_files(record).n_nonzero == 400


def check_take(path: Path) -> None:
    """The copy can be adopted, and then shuts out the other; then set up the next attempt."""
    place, other = path.with_name("copy"), path.with_name("other")
    adopt(place, home_is_gone=True)
    with open_state(place) as state:
        state.verify()
    with pytest.raises(StoreRolledBackError):
        adopt(other, home_is_gone=True)
    prepare_take(path)


def prepare_take(path: Path) -> None:
    """Two copies of a store whose original is gone."""
    for place in (path, path.with_name("copy"), path.with_name("other")):
        shutil.rmtree(place, ignore_errors=True)
    make_store(path)
    for name in ("copy", "other"):
        shutil.copytree(path, path.with_name(name))
    shutil.rmtree(path)


def check_copy(path: Path) -> None:
    """The backup is whole or not there, the store as before; then make room for the next attempt."""
    kept = path.with_name("kept")
    with open_state(path) as state:
        state.verify()
    if kept.exists():
        shutil.rmtree(kept)
    backup(path, kept)
    left = [place.name for place in path.parent.iterdir() if place.is_dir() and (place / "lock").exists()]
    assert sorted(left) == ["kept", path.name], left
    shutil.rmtree(kept)


def prepare(path: Path) -> None:
    """A store with one series and one release."""
    make_store(path)
    release(path)


def prepare_drop(path: Path) -> None:
    """A store with a second series."""
    prepare(path)
    create_series(path)


def prepare_session(path: Path) -> None:
    """A store with a session whose next questions will be measured."""
    prepare_visits(path).interactive("ad_hoc", level=500, accuracy="0.02", most_updates=200)


def prepare_start(path: Path) -> None:
    """A store with a release to start from."""
    prepare_visits(path).release("public", level=1)


def prepare_visits(path: Path) -> sh.Series:
    """A store with a series of 64 pages, of which eight hold all visits, and two measures."""
    held = {"count": 12_500, "price_steps": 500_000, "events_steps": 12_500}
    pages = pl.DataFrame({"page": range(8)} | {name: [number] * 8 for name, number in held.items()})
    counts = sh.Counts(pages, largest=1)
    return sh.create(
        path, counts, name="visits", key="page", max_keys=1, domain=sh.Integers(64), noise="discrete_laplace",
        measures=[sh.Measure("price", clip=100, step="0.1"), sh.Measure.events(most=50)],
    )  # fmt: skip


def prepare_nothing(path: Path) -> None:
    """An empty directory to work in."""
    path.parent.mkdir(exist_ok=True)


WORK: dict[str, tuple[Callable[[Path], object], Callable[[Path], None], Callable[[Path], None]]] = {
    "release": (prepare, release, check_release),
    "release_sums": (prepare_visits, release_sums, check_release_sums),
    "workload": (prepare, release_workload, check_release_workload),
    "ask": (prepare_session, ask, check_ask),
    "open_session": (prepare_start, open_session, check_open_session),
    "create": (prepare_nothing, create, check_create),
    "create_series": (prepare, create_series, check_create_series),
    "drop": (prepare_drop, drop, check_drop),
    "adopt": (prepare_take, take, check_take),
    "backup": (prepare, copy, check_copy),
}


def kill_at(number: int) -> None:
    """Let this process die by SIGKILL when it is about to make its call of that number."""
    left = [number]

    def wrapped(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*arguments, **named)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    for method in ("rows", "change", "close"):
        setattr(Database, method, wrapped(getattr(Database, method)))


def in_child(work: Callable[[], None]) -> int:
    """Run something in a fork; its exit code, negative when it was killed. One that hangs says where, and ends."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(300, exit=True)  # a machine may be busy
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  shown, and then the child ends
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def everywhere(name: str, path: Path) -> int:
    """Kill the work at each of its calls in turn, until it ends by itself; how many calls it makes."""
    before, work, check = WORK[name]
    assert in_child(lambda: before(path)) == 0
    for moment in range(MOST_CALLS):

        def attempt(moment: int = moment) -> None:
            kill_at(moment)
            work(path)

        ended = in_child(attempt)
        assert in_child(lambda: check(path)) == 0, f"after a kill at call {moment}"
        if ended == 0:
            return moment
        assert ended == -signal.SIGKILL, f"at call {moment} it was not killed: {ended}, as waitpid says it"
    raise AssertionError(f"after {MOST_CALLS} calls it had not ended: an attempt leaves more work for the next one")


def main() -> None:
    """Run what the command line says."""
    what, name, place = sys.argv[1:]
    path = Path(place) / "s"
    before, work, check = WORK[name]
    if what == "everywhere":
        print(everywhere(name, path))  # noqa: T201
    else:
        {"prepare": before, "once": work, "check": check}[what](path)


if __name__ == "__main__":
    main()
