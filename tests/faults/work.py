"""Define kinds of work to be interrupted, each with functions that prepare, do and check the work.

The check runs the next command and inspects the store: the store opens and passes `verify`, no release has changed
since it was made, every published file agrees with the state and the ledgers, and there are no other files. Then the
check prepares the next attempt.
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
    """Create a series and make one release of it."""
    place.create().release("first", level="0.1", false_keys=5)


def level(number):
    """Return the privacy level of the release with this number."""
    return LEVELS[number % len(LEVELS)]


def released(place, **how):
    """Make the next release, of cells or of a workload, and write the release to a file."""
    n = place.number()
    how = how or {"threshold": 42.0 + n % 5}
    place.create().release(f"r{n}", level=level(n), **how).write_parquet(place.out / f"r{n}.parquet")


def day(place, step):
    """Return the log of a step or week; half of the users were also in the previous step or week."""
    return pl.scan_parquet(place.log).with_columns(pl.col("user") + 400 * step)


def appended(place):
    """Append the next step to a running series, release its counts and write the release to a file."""
    series = place.create("days", steps=MOST_STEPS)
    step = min(series.appended() + 1, MOST_STEPS)
    series.append(day(place, step), step=step)
    release = series.release(f"day_{step}", step=step, level=level(step), threshold=90.0)
    release.write_parquet(place.out / f"day_{step}.parquet")


def prepare_append(place):
    """Create a running series with three steps, so that appending the fourth merges it with stored steps."""
    for _ in range(3):
        appended(place)


def check_append(place):
    """Check that running counts never decrease, and that every appended step is counted exactly once."""
    inspect(place)
    series = place.open().series("days")
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        counts = files.counts_at(range(files.n_steps), np.arange(files.all_keys.height))
    assert (np.diff(counts, axis=0) >= 0).all()
    log = pl.concat([day(place, step) for step in range(1, files.n_steps + 1)]).unique().collect()
    assert counts[-1].sum() == log.group_by("user").len()["len"].clip(upper_bound=3).sum()


def added(place):
    """Append the next week to a periodic series, release the week's counts and write the release to a file."""
    series = place.create("weeks", every=sh.Every("week", most_periods=2, budget="1"))
    number = min(len(series.appended()) + 1, 52)
    log = day(place, number).collect()
    release = series.append(log, period=f"2026-W{number:02}").release("public", level="0.3", threshold=20.0)
    release.write_parquet(place.out / f"week_{number}.parquet")


def check_add(place):
    """Check that each user counts in the first two weeks in which the user has rows, and in no later week."""
    inspect(place)
    times = Counter()
    for number, (week, units) in enumerate(who_counts(place.open().series("weeks")).items(), 1):
        assert week == f"2026-W{number:02}"
        wanted = {user for user in day(place, number).collect()["user"].unique() if times[user] < 2}
        assert units == wanted
        times.update(wanted)


def uncreate(place):
    """Check that an interrupted creation of a series can be completed; then delete the store for the next attempt."""
    place.create("new").release("all", level=100, threshold=2.0)
    inspect(place)
    shutil.rmtree(place.store)
    Path(f"{place.store}.generation").unlink()


def undrop(place):
    """Check that the ledger keeps the cost of a dropped series; then create a new store for the next attempt."""
    inspect(place)
    opened = place.open()
    if "more" in opened.series_names():
        opened.drop("more")
        inspect(place)
    kept = opened.ledger(full=True).filter(scope="path", series="more").height
    assert kept == 1, "the ledger lost what a dropped series spent"
    shutil.rmtree(place.store)
    place.seen.unlink()
    prepare_drop(place)


def prepare_drop(place):
    """Create two series, and make a release of the second series, which will be dropped."""
    place.create()
    place.create("more").release("once", level="0.1", false_keys=5)


def budget(place):
    """Raise the budget of the store."""
    opened = place.open()
    opened.set_budget(rho=str(10 + opened.events().height), reason="more is needed")


def backed_up(place):
    """Make a backup of the store."""
    place.open().backup(place.root / "kept")


def cannot_adopt(copy):
    """Check that a copy of a store cannot be adopted; then delete the copy."""
    with pytest.raises(SparsehistError):
        sh.adopt(copy, home_is_gone=True)
    shutil.rmtree(copy)


def unbackup(place):
    """Check that an interrupted backup is complete or absent, cannot be adopted, and is removed by another backup."""
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
    """Check that after one of two backups is adopted, the other cannot be adopted; prepare the next attempt."""
    sh.adopt(place.root / "kept", home_is_gone=True)
    cannot_adopt(place.root / "other")
    (place.root / "kept").rename(place.store)
    inspect(place)
    prepare_adopt(place)


def prepare_adopt(place):
    """Make two backups of a store, and delete the store."""
    prepare(place)
    for name in ("kept", "other"):
        place.open().backup(place.root / name)
    shutil.rmtree(place.store)


def plant(place):
    """Check the store; then write temporary files like those that killed runs leave, with and without a lock file."""
    inspect(place)
    for name in ("sparsehist-spill-died", "sparsehist-spill-open", "other"):
        parts = place.store / "tmp" / name / "parts"
        parts.mkdir(parents=True)
        for file in (parts.parent / "a", parts / "b"):
            file.write_text("user 17")
    (place.store / "tmp" / "sparsehist-spill-died" / "lock").touch()
    (place.store / "tmp" / "sparsehist-spill-empty").mkdir()


def prepare_clear(place):
    """Create a store with a release, and write temporary files like those that killed runs leave."""
    prepare(place)
    plant(place)


def unmove(place):
    """Check that a moved store opens, and is intact when moved back; then move it again for the next attempt."""
    sh.open(place.root / "kept")
    (place.root / "kept").rename(place.store)
    inspect(place)
    place.store.rename(place.root / "kept")


def prepare_move(place):
    """Create a store and move it."""
    prepare(place)
    place.store.rename(place.root / "kept")


def script(place):
    """Run an SQL script that creates a series, makes a release and writes the release to a file."""
    n = place.number() if place.store.exists() else 0
    text = SCRIPT.format(name=f"s{n}", level=level(n), file=place.out / f"s{n}.parquet")
    sh.sql(text, store=place.store, tables={"log": place.log})


def unscript(place):
    """Check that running the interrupted script again completes it; drop the series after every fifth release."""
    script(place)
    inspect(place)
    if place.number() % 5 == 4 and "by_script" in place.open().series_names():
        place.open().drop("by_script")
        shutil.rmtree(place.out)
        place.out.mkdir()


def unmake(place):
    """Check that an interrupted creation left an empty store or none, and can be repeated; then delete the store."""
    if place.store.exists():
        with open_state(place.store) as state:
            assert state.generation == 0
        shutil.rmtree(place.store)
    create_store(place.store)
    assert {path.name for path in place.root.iterdir() if (path / "lock").exists()} == {"store"}
    shutil.rmtree(place.store)


def round_committed(place):
    """Commit a round of three new cells with made-up noise."""
    with open_state(place.store) as state:
        model = grown(state)
        # Use only three levels: a round writes a row for each level, and every call adds another attempt.
        state.commit_round(model.make_round(Fraction(1, len(model.names) % 3 + 1), 3, 1))


def grown(state):
    """Return the tracked cells and noise that a store must contain, given the levels of its releases.

    `round_committed` stores made-up noise from fixed seeds, so that this function can draw the same noise again.
    """
    record = state.series("queries")
    model = Model(record.path_id)
    for release in state.releases(record):
        model.make_round(release.level, 3, 1)
    return model


def check_rounds(place):
    """Check that every committed round contains the noise that was drawn, and that the state is consistent."""
    with open_state(place.store) as state:
        grown(state).check(state)
        state.verify()
        assert state.generation == 1 + len(state.releases(state.series("queries")))


def prepare_round(place):
    """Create a store with one committed round."""
    make_store(place.store)
    round_committed(place)


def visits(place):
    """Create a series of visits to 64 pages with two measures; only eight pages have visits."""
    held = {"count": 12_500, "price_steps": 500_000, "events_steps": 12_500}
    pages = pl.DataFrame({"page": range(8)} | {name: [number] * 8 for name, number in held.items()})
    return sh.create(
        place.store, sh.Counts(pages, largest=1), name="visits", key="page", max_keys=1, domain=sh.Integers(64),
        noise="discrete_laplace",
        measures=[sh.Measure("price", clip=100, step="0.1"), sh.Measure.events(most=50)],
    )  # fmt: skip


def again(place):
    """Delete the store and its published files, and create the series of visits again."""
    shutil.rmtree(place.store)
    shutil.rmtree(place.out)
    place.out.mkdir()
    return visits(place)


def sums_released(place):
    """Release counts and the sums of two measures, each on its own noise path, and write them to a file."""
    made = place.open().series("visits").release("sums", level=1, measures=1)
    made.write_parquet(place.out / "sums.parquet")


def check_sums(place):
    """Check that a release's three noise paths are all stored and charged, or all absent; then create a new store."""
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
    """Ask an interactive session a query that needs a new measurement, and write the answer to a file."""
    session = place.open().series("visits").interactive("ad_hoc")
    answer = session.ask(pl.col("page") == session.answers.height - 1)
    (place.out / "given").write_text(f"{session.answers.height} {answer.value}")


def check_asked(place):
    """Check that an interactive session keeps and repeats all written answers.

    Each new answer must also use up exactly one of the session's updates.
    """
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
    """Open an interactive session that starts from an earlier release."""
    series = place.open().series("visits")
    series.interactive("ad_hoc", level=500, accuracy="0.1", start=series.release("public"))


def check_session(place):
    """Check that a session does not exist, or is charged and answers queries. If it exists, create a new store."""
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
    if names:  # a session cannot be dropped, and would add calls to the next attempt
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
"""By name: (prepare, work, check). The last two kinds of work use the state only."""
