"""Work that is interrupted: what it needs, what it does, and what must hold after it was done, killed or cut off.

The check runs the next command and looks at the store: it opens and verifies, every release still has the numbers
first seen, every published file is in the state and in both ledgers, and there are no other files. Then it gives the
next attempt something to do.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import SparsehistError
from sparsehist.release.steps import StepFiles
from sparsehist.store import create_store, open_state
from tests.faults.place import inspect
from tests.periods.logs import who_counts
from tests.store.example import Model, make_store

LEVELS = ["0.05", "0.4", "0.1", "0.2", "0.05", "0.3"]
MOST_STEPS = 400
SCRIPT = """
create series if not exists by_script with (unit = user, key = key, max_keys = 3, domain = 'strings(max_bytes=8)')
  as select "user", key from log;
release {name} from by_script at level {level} expecting 5 false keys to '{file}';
"""


def prepare(place):
    """A store with a series and a release."""
    place.create().release("first", level="0.1", false_keys=5)


def level(number):
    """The level of the release of that number."""
    return LEVELS[number % len(LEVELS)]


def released(place, **how):
    """Release at a level, of cells or of a workload, and publish."""
    n = place.number()
    how = how or {"threshold": 42.0 + n % 5}
    place.create().release(f"r{n}", level=level(n), **how).write_parquet(place.out / f"r{n}.parquet")


def day(place, step):
    """The log of a step or a week: half of its users were there before."""
    return pl.scan_parquet(place.log).with_columns(pl.col("user") + 400 * step)


def appended(place):
    """Append the next step to a running series, release its counts and publish."""
    series = place.create("days", steps=MOST_STEPS)
    step = min(series.appended() + 1, MOST_STEPS)
    series.append(day(place, step), step=step)
    release = series.release(f"day_{step}", step=step, level=level(step), threshold=90.0)
    release.write_parquet(place.out / f"day_{step}.parquet")


def prepare_append(place):
    """A running series with three steps: the fourth merges what the store knows of those before."""
    for _ in range(3):
        appended(place)


def check_append(place):
    """The counts are those of whole steps, each counted once."""
    inspect(place)
    series = place.open().series("days")
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        counts = files.counts_at(range(files.n_steps), np.arange(files.all_keys.height))
    assert (np.diff(counts, axis=0) >= 0).all()
    log = pl.concat([day(place, step) for step in range(1, files.n_steps + 1)]).unique().collect()
    assert counts[-1].sum() == log.group_by("user").len()["len"].clip(upper_bound=3).sum()


def added(place):
    """Append the log of the next week to a periodic series in which a user counts in two weeks, release, publish."""
    series = place.create("weeks", every=sh.Every("week", most_periods=2, budget="1"))
    number = min(len(series.appended()) + 1, 52)
    log = day(place, number).collect()
    release = series.append(log, period=f"2026-W{number:02}").release("public", level="0.3", threshold=20.0)
    release.write_parquet(place.out / f"week_{number}.parquet")


def check_add(place):
    """Nobody counts in more than two weeks, and everybody in the first two they were in."""
    inspect(place)
    times = Counter()
    for number, (week, units) in enumerate(who_counts(place.open().series("weeks")).items(), 1):
        assert week == f"2026-W{number:02}"
        wanted = {user for user in day(place, number).collect()["user"].unique() if times[user] < 2}
        assert units == wanted
        times.update(wanted)


def uncreate(place):
    """Check that creating the series again gives it whole; then delete the store for the next attempt."""
    place.create("new").release("all", level=100, threshold=2.0)
    inspect(place)
    shutil.rmtree(place.store)
    Path(f"{place.store}.generation").unlink()


def undrop(place):
    """What was spent stays in the ledger; give the next attempt a series to drop."""
    inspect(place)
    opened = place.open()
    drops = opened.ledger(full=True).filter(scope="path", series="more").height
    if "more" in opened.series_names():
        opened.drop("more")
        inspect(place)
    known = json.loads(place.seen.read_text())
    assert drops >= known.get("drops", 0), "the ledger lost what a dropped series spent"
    place.seen.write_text(json.dumps(known | {"drops": drops}))
    prepare_drop(place)


def prepare_drop(place):
    """A series with a release."""
    place.create()
    place.create("more").release("once", level="0.1", false_keys=5)


def budget(place):
    """Raise the budget."""
    opened = place.open()
    opened.set_budget(rho=str(10 + opened.events().height), reason="more is needed")


def backed_up(place):
    """Make a backup."""
    place.open().backup(place.root / "kept")


def cannot_adopt(copy):
    """A copy is refused; then it goes."""
    with pytest.raises(SparsehistError):
        sh.adopt(copy, home_is_gone=True)
    shutil.rmtree(copy)


def unbackup(place):
    """The backup is complete or absent, cannot be adopted beside the store, and the next backup cleans up."""
    halves = [(half, place.out / half.name) for half in place.root.glob(".kept.*.new")]
    for half, aside in halves:
        half.rename(aside)
    inspect(place)
    for half, aside in halves:
        aside.rename(half)
    if (place.root / "kept").exists():
        cannot_adopt(place.root / "kept")
    backed_up(place)
    assert not list(place.root.glob(".kept.*.new"))
    shutil.rmtree(place.root / "kept")


def unadopt(place):
    """The backup can be adopted, and then no other copy can; it is the store from then on."""
    sh.adopt(place.root / "kept", home_is_gone=True)
    cannot_adopt(place.root / "other")
    (place.root / "kept").rename(place.store)
    inspect(place)
    prepare_adopt(place)


def prepare_adopt(place):
    """Two backups of a store that is gone."""
    prepare(place)
    for name in ("kept", "other"):
        place.open().backup(place.root / name)
    shutil.rmtree(place.store)


def plant(place):
    """Check the store; then plant temporary files of killed runs, with and without a lock."""
    inspect(place)
    for name in ("sparsehist-spill-died", "sparsehist-spill-open", "other"):
        parts = place.store / "tmp" / name / "parts"
        parts.mkdir(parents=True)
        for file in (parts.parent / "a", parts / "b"):
            file.write_text("user 17")
    (place.store / "tmp" / "sparsehist-spill-died" / "lock").touch()
    (place.store / "tmp" / "sparsehist-spill-empty").mkdir()


def prepare_clear(place):
    """A store with a release, and the remains of dead runs."""
    prepare(place)
    plant(place)


def unmove(place):
    """It opens at its new place, and back at the old one; then move it again."""
    sh.open(place.root / "kept")
    (place.root / "kept").rename(place.store)
    inspect(place)
    place.store.rename(place.root / "kept")


def prepare_move(place):
    """A store that was moved."""
    prepare(place)
    place.store.rename(place.root / "kept")


def script(place):
    """Run a script that makes a series, releases and publishes."""
    n = place.number() if place.store.exists() else 0
    text = SCRIPT.format(name=f"s{n}", level=level(n), file=place.out / f"s{n}.parquet")
    sh.sql(text, store=place.store, tables={"log": place.log})


def unscript(place):
    """The same script again does what is left; now and then the series goes."""
    script(place)
    inspect(place)
    if place.number() % 5 == 4 and "by_script" in place.open().series_names():
        place.open().drop("by_script")
        shutil.rmtree(place.out)
        place.out.mkdir()


def unmake(place):
    """The store is there and empty, or not there; the next one cleans up; then make room for the next attempt."""
    if place.store.exists():
        with open_state(place.store) as state:
            assert state.generation == 0
        shutil.rmtree(place.store)
    create_store(place.store)
    assert {path.name for path in place.root.iterdir() if (path / "lock").exists()} == {"store"}
    shutil.rmtree(place.store)


def round_committed(place):
    """Commit one more round of made-up noise on top of what is there."""
    with open_state(place.store) as state:
        model = grown(state)
        # Few levels: a round writes a row for each, and the moments to be killed at must come to an end.
        state.commit_round(model.make_round(Fraction(1, len(model.names) % 3 + 1), 3, 1))


def grown(state):
    """The model of a store that made as many releases as this one: rounds are drawn with fixed seeds."""
    record = state.series("queries")
    model = Model(record.path_id)
    for release in state.releases(record):
        model.make_round(release.level, 3, 1)
    return model


def check_rounds(place):
    """Every number of every round that is there is the one that was drawn, and the next one can be made."""
    with open_state(place.store) as state:
        grown(state).check(state)
        state.verify()
        assert state.generation == 1 + len(state.releases(state.series("queries")))


def prepare_round(place):
    """A store with one round."""
    make_store(place.store)
    round_committed(place)


def visits(place):
    """A store with a series of 64 pages, of which eight hold all visits, and two measures."""
    held = {"count": 12_500, "price_steps": 500_000, "events_steps": 12_500}
    pages = pl.DataFrame({"page": range(8)} | {name: [number] * 8 for name, number in held.items()})
    return sh.create(
        place.store, sh.Counts(pages, largest=1), name="visits", key="page", max_keys=1, domain=sh.Integers(64),
        noise="discrete_laplace",
        measures=[sh.Measure("price", clip=100, step="0.1"), sh.Measure.events(most=50)],
    )  # fmt: skip


def again(place):
    """Remove the store and what was published from it, and begin anew."""
    shutil.rmtree(place.store)
    shutil.rmtree(place.out)
    place.out.mkdir()
    return visits(place)


def sums_released(place):
    """Release counts and the sums of two measures, each from a noise path of its own, and publish."""
    made = place.open().series("visits").release("sums", level=1, measures=1)
    made.write_parquet(place.out / "sums.parquet")


def check_sums(place):
    """All three paths have their round and are charged, or none; then begin anew."""
    series = place.open().series("visits")
    names = series.releases()["name"].to_list()
    assert names in ([], ["sums"])
    charged = series.store.ledger(full=True).filter(scope="path")["level"].drop_nulls()
    assert charged.to_list() == ["1"] * 3 * len(names)
    with open_state(place.store) as state:
        state.verify()
        record = state.series("visits")
        assert len(list(record.directory.glob("round-*"))) == len(state.releases(record)) == 3 * len(names)
    frame = series.release("sums", level=1, measures=1).frame
    assert series.release("sums").frame.equals(frame)
    for left in place.out.glob("*.parquet"):
        assert names and sh.read(left).frame.equals(frame)
    again(place)


def asked(place):
    """Ask a session what is to be measured, and note the answer once it is given."""
    session = place.open().series("visits").interactive("ad_hoc")
    answer = session.ask(pl.col("page") == session.answers.height - 1)
    (place.out / "given").write_text(f"{session.answers.height} {answer.value}")


def check_asked(place):
    """What was given is kept, nothing is counted twice, and what is asked again is answered alike."""
    session = place.open().series("visits").interactive("ad_hoc")
    answers = session.answers["value"].to_list()
    assert session.updates_left == 200 - (len(answers) - 1)
    given, kept = place.out / "given", place.out / "kept"
    if given.exists():
        height, value = given.read_text().split()
        assert answers[int(height) - 1] == float(value)
    before = json.loads(kept.read_text()) if kept.exists() else []
    assert answers[: len(before)] == before and len(answers) <= max(len(before), 1) + 1
    kept.write_text(json.dumps(answers))
    for number, value in enumerate(answers[1:]):
        assert session.ask(pl.col("page") == number).value == value
    with open_state(place.store) as state:
        state.verify()
        assert state.generation == 2 + len(answers) - 1
        record = state.series("visits")
        assert len(list(record.directory.glob("*.update"))) == len(record.paths[-1].files) == len(answers) - 1


def session_opened(place):
    """Open a session, with a release to start from."""
    series = place.open().series("visits")
    series.interactive("ad_hoc", level=500, accuracy="0.1", start=series.release("public"))


def check_session(place):
    """The session is charged, can be asked, and begins from the release, or there is none; then begin anew."""
    series = place.open().series("visits")
    names = [name for name in series.releases()["name"] if name != "public"]
    assert names in ([], ["ad_hoc"])
    paths = series.store.ledger(full=True).filter(scope="path")["path"].to_list()
    assert paths[1:] == [f"interactive {name} multiplicative_weights" for name in names]
    for name in names:
        answer = series.interactive(name).ask(pl.col("page") < 8)
        assert not answer.fresh and abs(answer.value - 100_000) < answer.error
    with open_state(place.store) as state:
        state.verify()
        assert len(list(state.series("visits").directory.glob("*.start"))) == len(names)
    if names:  # a session cannot be dropped, and each one is a path to read: the calls would come to no end
        again(place).release("public", level=1)


WORK = {
    "create": (lambda _: None, lambda place: place.create("new"), uncreate),
    "release": (prepare, released, inspect),
    "sums": (visits, sums_released, check_sums),
    "workload": (prepare, lambda place: released(place, workload="marginals([[]])"), inspect),
    "append": (prepare_append, appended, check_append),
    "add": (added, added, check_add),
    "drop": (prepare_drop, lambda place: place.open().drop("more"), undrop),
    "budget": (prepare, budget, inspect),
    "backup": (prepare, backed_up, unbackup),
    "adopt": (prepare_adopt, lambda place: sh.adopt(place.root / "kept", home_is_gone=True), unadopt),
    "clear": (prepare_clear, lambda place: place.create().release("first"), plant),
    "move": (prepare_move, lambda place: sh.open(place.root / "kept"), unmove),
    "script": (lambda _: None, script, unscript),
    "ask": (
        lambda place: visits(place).interactive("ad_hoc", level=500, accuracy="0.02", most_updates=200),
        asked,
        check_asked,
    ),
    "session": (lambda place: visits(place).release("public", level=1), session_opened, check_session),
    "store": (lambda _: None, lambda place: create_store(place.store), unmake),
    "round": (prepare_round, round_committed, check_rounds),
}
"""What is needed, what is done, and what must hold after it. The last two work on the state alone."""
