"""Tests that a query session is charged before its first query, and commits each answer before returning it."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import (
    BudgetExceededError,
    CapExceededError,
    DeclarationError,
    InputError,
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
    StoreInUseError,
)
from sparsehist.interactive import Weighing
from sparsehist.noise import DiscreteLaplace
from sparsehist.release.query_session import Update
from sparsehist.store import State
from tests.interactive.watching import checks_of_one_query, epoch
from tests.stats import assert_consistent, assert_detected, g_test

KEYS = 64
TRUE = np.r_[np.full(8, 12_500), np.zeros(KEYS - 8, int)]
EARLY, EVEN, LATE = pl.col("page") < 8, pl.col("page") % 2 == 0, pl.col("page") >= 32
# At this level, the noise is so small that the tests can predict which queries are measured.
ASKED = {"level": 20, "accuracy": "0.2"}


def visits(store, *, noise="discrete_laplace", per_page=12_500, **more):
    """Create a series of 64 pages, of which the first eight have `per_page` users each and the others have none."""
    counts = sh.Counts(pl.DataFrame({"page": range(8), "count": [per_page] * 8}), largest=1)
    declared = {"name": "visits", "key": "page", "max_keys": 1, "domain": sh.Integers(KEYS)} | more
    return sh.create(store, counts, noise=noise, **declared)


def row_of(store, **begins):
    """Return the one row of `ledger(full=True)` in which a column starts with a text, such as path="interactive"."""
    ((column, text),) = begins.items()
    return store.ledger(full=True).row(by_predicate=pl.col(column).str.starts_with(text), named=True)


@pytest.fixture
def series():
    """A series in a new in-memory store with a fixed seed."""
    return visits(sh.open(":memory:", seed=5))


@pytest.fixture
def silent(monkeypatch):
    """Set all discrete Laplace noise to 0."""
    monkeypatch.setattr(DiscreteLaplace, "sample", lambda _, size, *__, **___: np.zeros(size, np.int64))


@pytest.mark.usefixtures("silent")
def test_without_noise_it_is_the_session_in_memory(series):
    """Without noise, a query session in a store gives the same answers and hypothesis as a session in memory."""
    session = series.interactive("ad_hoc", level=1, accuracy="0.1", mass=100_000)
    rng = np.random.default_rng(6)
    beside = Weighing(KEYS, mass=100_000, level=1, accuracy="0.1").start(TRUE, rng=rng)
    assert session.parameters.levels == beside.parameters.levels
    for _ in range(60):
        asked = rng.random(KEYS) < 0.3
        answer = session.ask(pl.col("page").is_in(np.flatnonzero(asked).tolist()))
        beside, expected = beside.ask(asked, rng=rng)
        assert answer == expected
    assert (session.hypothesis["estimate"].to_numpy() == beside.hypothesis).all()
    assert session.updates_left < session.parameters.updates - 3


def test_it_is_charged_whole_before_anything_is_asked(series):
    """The ledger charges a query session once, before its first query, and queries do not change the charge."""
    series.release("public", level="0.5")
    session = series.interactive("ad_hoc", level="1.5", accuracy="0.3")
    before = series.store.ledger(full=True).drop("releases", "last_release")
    row = row_of(series.store, path="interactive ad_hoc")
    assert (row["level"], row["currency"], row["noise"]) == ("1.5", "epsilon", "discrete_laplace")
    for predicate in (EARLY, EVEN, LATE):
        session.ask(predicate)
    assert series.store.ledger(full=True).drop("releases", "last_release").equals(before)
    assert row_of(series.store, scope="everybody")["level"] == "2"


def test_levels_beside_gaussian_noise_are_rho():
    """In a series with Gaussian noise, a query session's level is a ρ. It covers all updates and the noisy total."""
    series = visits(sh.open(":memory:", seed=5), noise="gaussian")
    series.release("public", level="0.5")
    session = series.interactive("ad_hoc", level="0.1", accuracy="0.2")
    assert session.parameters.mass != TRUE.sum()  # without `mass=`, the sum of all counts is measured with noise
    assert session.ask(EARLY).fresh
    assert [session._state.threshold_noise] == [update.threshold_noise for update in session._updates.values()]
    watch, answer = map(float, session.parameters.levels)
    k = session.parameters.updates
    parts = [k * watch * math.tanh(watch / 2), k * answer * math.tanh(answer / 2), watch * math.tanh(watch / 2)]
    assert 0.1 * (1 - 1e-11) <= math.fsum(parts) <= 0.1
    row = row_of(series.store, path="interactive")
    assert (row["level"], row["cost"], row["currency"]) == ("0.1", 0.1, "rho")
    # The ledger converts the session's rho to epsilon by zCDP; for Gaussian noise, it would state a smaller epsilon.
    assert row["epsilon"] > sh.privacy.zcdp.epsilon("1e-6", "0.1") * (1 - 1e-9)
    assert "0.1-zCDP" in session.metadata["guarantee"]


def test_caps_and_budgets_refuse_it_before_anything_is_drawn():
    """A query session that exceeds a cap or budget is refused, and the error names the largest level that would fit.

    If a budget cannot charge a query session at all, the error names the accounting routes that can.
    """
    store = sh.open(":memory:", seed=5)
    series = visits(store, noise="gaussian", cap=1)
    store.set_budget(epsilon=1, delta="1e-6")
    with pytest.raises(BudgetExceededError, match="route='rho' or route='renyi'"):
        series.interactive("ad_hoc", level="0.001", accuracy="0.2")
    store.set_budget(rho="0.5", reason="sessions")
    with pytest.raises(BudgetExceededError, match=r"largest level that would fit is 0\.5"):
        series.interactive("ad_hoc", level="0.6", accuracy="0.2")
    store.set_budget(rho=5, reason="sessions")
    with pytest.raises(CapExceededError, match="largest level that would fit is 1;"):
        series.interactive("ad_hoc", level="1.5", accuracy="0.2")
    assert store.ledger(full=True).height == 4
    series.release("public", level="0.4")
    series.interactive("ad_hoc", level="0.6", accuracy="0.2")
    with pytest.raises(CapExceededError, match=r"remaining 0\.4"):
        series.release("finer", level="0.41")
    assert row_of(store, scope="population")["remaining"] == "rho 4"


def test_it_goes_on_wherever_it_is_opened(tmp_path):
    """If a query session is opened twice, both objects share one state, and repeating a query spends nothing."""
    session = visits(tmp_path / "s").interactive("ad_hoc", **ASKED, most_updates=2)
    measured = session.ask(EARLY)
    generation = sh.open(tmp_path / "s").events()["generation"].max()
    again = sh.open(tmp_path / "s").series("visits").interactive("ad_hoc")
    assert again.answers.equals(session.answers)
    assert again.hypothesis.equals(session.hypothesis)
    assert again.parameters == session.parameters
    assert again._state.threshold_noise == session._state.threshold_noise
    assert again.ask(EARLY) == measured
    assert sh.open(tmp_path / "s").events()["generation"].max() == generation
    second = again.ask(pl.col("page") < 4)
    assert (second.fresh, second.updates_left) == (True, 0)
    assert session.ask(pl.col("page") < 4) == second
    assert session.answers["update"].to_list() == [0, 1, 2]
    for used_up in (session, again):
        with pytest.raises(BudgetExceededError, match="all 2 updates of 'ad_hoc' are used up"):
            used_up.ask(EVEN)


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), KeyboardInterrupt()])
def test_an_answer_that_could_not_be_committed_is_paid_for_first(series, monkeypatch, failure):
    """If an update cannot be committed, its query fails, and the next query first commits this update.

    A failed query reveals that an update was needed, so this update must be committed and paid for.
    """
    session = series.interactive("ad_hoc", **ASKED)
    k = session.updates_left

    def refuse(*_):
        raise failure

    monkeypatch.setattr(State, "commit_round", refuse)
    for _ in range(3):
        with pytest.raises(type(failure)):
            session.ask(EARLY)
    monkeypatch.undo()
    assert (session.updates_left, session.answers.height) == (k, 1)
    near = session.ask(pl.lit(value=True))
    assert (near.fresh, near.updates_left) == (False, k - 1)
    assert session.ask(EARLY).updates_left == k - 1


def test_a_commit_that_was_interrupted_late_is_not_made_twice(series, monkeypatch):
    """If an interrupt comes just after a commit, repeating the query returns the committed answer."""
    session = series.interactive("ad_hoc", **ASKED)
    k, commit = session.updates_left, State.commit_round

    def interrupted(self, record):
        commit(self, record)
        raise KeyboardInterrupt

    monkeypatch.setattr(State, "commit_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.ask(EARLY)
    monkeypatch.undo()
    answer = session.ask(EARLY)
    assert (answer.fresh, answer.updates_left) == (True, k - 1)
    assert session.answers.height == 2


def test_whether_the_store_is_in_use_never_depends_on_the_truth(tmp_path):
    """If the store is locked, a session refuses every query, whether or not the query needs a measurement."""
    session = visits(tmp_path / "s").interactive("ad_hoc", **ASKED)
    with sh.open(tmp_path / "s").hold():
        for predicate in (EARLY, pl.lit(value=True)):
            with pytest.raises(StoreInUseError):
                session.ask(predicate)


def test_a_release_to_start_from_is_free_and_kept(series):
    """A session can start from a release at no cost, and keeps a copy in case the release's series is dropped."""
    other = visits(series.store, name="other")
    start = other.release("public", level=1)
    session = series.interactive("ad_hoc", **ASKED, start=start)
    assert not session.ask(EARLY).fresh
    assert "other.public" in session.metadata["start"]
    series.store.drop("other")
    again = series.interactive("ad_hoc")
    assert again.hypothesis.equals(session.hypothesis)
    assert session.hypothesis["estimate"][63] == pytest.approx(session.parameters.mass / 16 / KEYS)
    with pytest.raises(NameTakenError, match="start="):
        series.interactive("ad_hoc", start=series.release("public", level=1))


def test_what_is_no_session_is_refused_by_name(series):
    """Invalid or changed parameters of a query session are refused, and so are names that other releases use."""
    series.interactive("ad_hoc", **ASKED)
    series.release("public", level=1)
    for wrong, match in (({"level": 3}, "level='20'"), ({"mass": 5}, "no mass")):
        with pytest.raises(NameTakenError, match=match):
            series.interactive("ad_hoc", **ASKED | wrong)
    with pytest.raises(NameTakenError, match="is a release of kind 'cells'"):
        series.interactive("public")
    with pytest.raises(NameTakenError, match="is a release of kind 'interactive'"):
        series.release("ad_hoc")
    for wrong in ({"level": 0}, {"accuracy": 0.7}, {"mass": 0}, {"most_updates": 0}, {"start": "public"}):
        with pytest.raises(DeclarationError):
            series.interactive("other", **ASKED | wrong)


def test_what_is_no_predicate_is_refused(series):
    """A query that is not boolean or that uses an unknown column is refused, and nothing is measured."""
    session = series.interactive("ad_hoc", **ASKED)
    for wrong in ("page < 8", pl.col("visitor") < 8, pl.col("page") * 2):
        with pytest.raises(DeclarationError):
            session.ask(wrong)
    assert session.answers.height == 1
    null = session.ask(pl.when(pl.col("page") >= 8).then(statement=True))
    assert abs(null.value) <= null.error


def test_nothing_secret_is_shown_copied_or_left(tmp_path):
    """No repr of a session shows counts or noise. Pickling a session, or using a damaged one, is refused."""
    series = visits(tmp_path / "s")
    session = series.interactive("ad_hoc", **ASKED)
    session.ask(EARLY)
    assert "12500" not in repr(session)
    assert "7654321" not in repr(replace(session._state, threshold_noise=7_654_321))
    assert "object at" in repr(Update(True, 5, 77, b"x"))
    with pytest.raises(InputError, match="open the session again"):
        pickle.dumps(session)
    (kept,) = (tmp_path / "s" / "series").glob("*/*.update")
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreDamagedError):
        series.interactive("ad_hoc")
    series.store.drop("visits")
    with pytest.raises(NotFoundError, match="was dropped"):
        session.ask(EVEN)


def test_one_question_follows_its_law():
    """Queries are classified as high, low or near with the exact probabilities. Half the noise would be detected."""
    asked, seen = pl.col("page").is_in([0, *range(8, 14)]), np.zeros(3, int)
    for number in range(600):
        if number % 50 == 0:
            series = visits(sh.open(":memory:", seed=number), per_page=125)
        session = series.interactive(f"s{number}", level="0.5", accuracy="0.1", mass=1000, most_updates=3)
        session.ask(asked)
        found = [update.high for update in session._updates.values()]
        seen[[True, False].index(found[0]) if found else 2] += 1
    gap = 1000 * 7 / 64 - 125
    assert_consistent(g_test(seen, checks_of_one_query(session.parameters, gap)))
    assert_detected(g_test(seen, checks_of_one_query(session.parameters, gap, checks=2)), "half the noise")


def test_watching_costs_no_more_than_it_may():
    """Testing whether the hypothesis answers of five queries are accurate costs at most the stated epsilon.

    The cost is the largest over all outcomes. Negative control: with half the noise, it exceeds the stated epsilon.
    """

    def loss(guesses, moves, checks=4):
        one, other = (epoch(gaps, 12, 1.0, checks=checks) for gaps in (guesses, np.add(guesses, moves)))
        return np.abs(np.log(one / other)).max()

    scripts = [(0,) * 5, (12,) * 5, (-11,) * 5, (12, -12, 12, -12, 0), (11, 11, 11, 11, -13)]
    moves = list(itertools.product((-1, 0, 1), repeat=5))
    assert max(loss(script, move) for script in scripts for move in moves) <= 1 + 1e-12
    assert max(loss(script, move, checks=2) for script in scripts for move in moves) > 1.2
