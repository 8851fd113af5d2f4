"""Tests of multiplicative weights: its update rule, its error bound and its privacy cost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sparsehist.errors import BudgetExceededError, DataError, DeclarationError, StoreDamagedError
from sparsehist.interactive import MultiplicativeWeights, Weighing
from sparsehist.interactive.multiplicative_weights import first_guess


def started(counts, release=None, *, rng=None, **parameters):
    """Start a multiplicative-weights session over these counts with a fixed seed."""
    about = Weighing(cells=len(counts), started=release is not None, **parameters)
    return about.start(counts, release, rng=np.random.default_rng(7) if rng is None else rng)


@pytest.fixture
def silent(monkeypatch):
    """Set the noise of multiplicative weights to 0, so that a test can compute the expected answers."""
    monkeypatch.setattr(MultiplicativeWeights, "_noise", lambda *_, **__: 0.0)


def test_a_session_costs_the_sum_of_its_updates():
    """The level of a multiplicative-weights session is the sum of the levels of its updates, and so is its ρ."""
    session = Weighing(cells=4, mass=1000, level="1.5", accuracy=0.2, most_updates=50)
    watch, answer = session.levels
    assert session.updates * (watch + answer) == Fraction(3, 2)
    assert session.rho == pytest.approx(
        50 * math.fsum(float(each) * math.tanh(float(each) / 2) for each in (watch, answer)), rel=1e-15
    )


@pytest.mark.usefixtures("silent")
def test_a_scripted_session_without_noise_follows_the_rule():
    """Without noise, multiplicative weights agrees to 13 digits with a direct computation of its update rule."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(100_000, rng.dirichlet(np.full(32, 0.2)))
    session = started(counts, mass=100_000, level=1, accuracy=0.1)
    alpha, hypothesis, left = 0.025, [1 / 32] * 32, session.parameters.updates
    kinds = set()
    for _ in range(200):
        query = rng.random(32) < 0.4
        guess = 100_000 * math.fsum(y for y, asked in zip(hypothesis, query, strict=True) if asked)
        truth = int(counts[query].sum())
        session, answer = session.ask(query, rng=rng)
        if abs(guess - truth) >= 3 * alpha * 100_000:
            left -= 1
            towards = query if guess > truth else ~query
            moved = [y * math.exp(-8 * alpha * r) for y, r in zip(hypothesis, towards, strict=True)]
            hypothesis = [y / math.fsum(moved) for y in moved]
            assert (answer.value, answer.fresh) == (truth, True)
            kinds.add("high" if guess > truth else "low")
        else:
            assert answer.value == pytest.approx(guess, rel=1e-14)
            assert not answer.fresh
            kinds.add("near")
        assert answer.updates_left == left
        assert session.hypothesis / 100_000 == pytest.approx(hypothesis, rel=1e-13)
    assert kinds == {"high", "low", "near"}


@pytest.mark.usefixtures("silent")
def test_updates_end_before_they_are_used_up():
    """Without noise, multiplicative weights needs fewer updates than allowed, even with all counts in one cell.

    The test always asks the query whose hypothesis answer has the largest error, until no update is needed.
    """
    counts = np.zeros(256, np.int64)
    counts[3] = 50_000
    session, rng = started(counts, mass=50_000, level=1, accuracy=0.2), np.random.default_rng(9)
    fresh = 0
    for _ in range(session.parameters.updates + 50):
        gap = session.hypothesis - counts
        worst = gap > 0 if gap[gap > 0].sum() >= -gap[gap < 0].sum() else gap < 0
        session, answer = session.ask(worst, rng=rng)
        fresh += answer.fresh
        if not answer.fresh:
            break
    assert fresh < session.parameters.updates
    assert not answer.fresh


def test_many_sessions_keep_their_bound():
    """Among 300 sessions, answers exceed the error bound in no more sessions than the stated probability allows."""
    rng = np.random.default_rng(8)
    counts = rng.multinomial(40_000, rng.dirichlet(np.full(16, 0.3)))
    parameters = Weighing(cells=16, mass=40_000, level="0.28", accuracy=0.4)
    bound, failed = parameters.failure(40), 0
    assert 1e-4 < bound < 0.2
    for _ in range(300):
        session, wrong = parameters.start(counts, rng=rng), False
        for query in rng.random((40, 16)) < 0.5:
            session, answer = session.ask(query, rng=rng)
            wrong |= abs(answer.value - counts[query].sum()) > parameters.error
        failed += wrong
    assert failed <= 300 * bound + 5 * math.sqrt(300 * bound)


def test_a_used_up_session_refuses():
    """After the last update of a session, every further query is refused."""
    rng, query = np.random.default_rng(4), [True, False, False, False]
    session = started([100_000, 0, 0, 0], mass=100_000, level=100, accuracy=0.1, most_updates=1)
    session, answer = session.ask(query, rng=rng)
    assert answer.updates_left == session.updates_left == 0
    with pytest.raises(BudgetExceededError, match="used up"):
        session.ask(query, rng=rng)


def test_a_state_goes_on_from_its_bytes():
    """A session restored from bytes has the same parameters, hypothesis and next answer as the original."""
    counts, rng = np.repeat([9_000, 10], [8, 56]), np.random.default_rng(4)
    session = started(counts, mass=72_560, level="1/3", accuracy="1/5", sensitivity=2)
    session, _ = session.ask(np.arange(64) < 8, rng=rng)
    again = MultiplicativeWeights.from_bytes(session.to_bytes())
    assert again.parameters.levels == session.parameters.levels
    assert np.array_equal(again.hypothesis, session.hypothesis)
    query = np.arange(64) % 3 == 0
    one, other = (state.ask(query, rng=np.random.default_rng(5)) for state in (session, again))
    assert one[1] == other[1]
    with pytest.raises(StoreDamagedError):
        MultiplicativeWeights.from_bytes(session.to_bytes() + b"x")


def test_a_session_starts_from_what_fits_its_cells():
    """A session can start from a release, unless the number of cells is wrong or no released count is positive."""
    session = Weighing(cells=4, mass=1000, level=1, accuracy=0.1, started=True)
    assert first_guess(session, [1, 0, 0, 3]).tolist() == [0.25, 1 / 64, 1 / 64, 1 / 64 + 45 / 64]
    for counts, release in ((np.zeros(4, int), [1, 2, 3]), (np.zeros(4, int), [0, 0, 0, -1]), (np.zeros(3), [1] * 4)):
        with pytest.raises((DataError, DeclarationError)):
            session.start(counts, release, rng=np.random.default_rng(1))
