"""Tests of a RAPPOR client, which repeats its reports, can add a finer setting, and can be stored as bytes."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import CapExceededError, DeclarationError, InputError, StoreDamagedError
from sparsehist.local import Rappor, RapporClient
from tests.local.test_rappor import COARSE, FINE, STATES, enumerated
from tests.stats import assert_consistent, assert_detected, g_test

QUIET = Rappor(128, 2, "0.25", "0.65", "0.4")
FRANK = Rappor(128, 2, "0.5", "0.8", "0.25")
PLAIN = Rappor(128, 2, "0.9", "0.9", "0.1")
RNG = entropy.seeded(71)


def test_a_day_has_one_report_whatever_happens():
    """A RAPPOR client never changes a report that it has made, even if it is restored or gets a finer setting."""
    client = RapporClient.start(QUIET, "page", rng=RNG)
    client, first = client.report(date(2024, 1, 1), rng=RNG)
    assert first.shape == (128,)
    assert np.array_equal(client.report("2024-01-01", rng=RNG)[1], first)
    client = client.relax(FRANK, rng=RNG)
    _, second = client.report(date(2024, 1, 1), rng=RNG)
    client = RapporClient.from_bytes(client.to_bytes()).relax(PLAIN, rng=RNG)
    client, _ = client.report(7, rng=RNG)
    again = RapporClient.from_bytes(client.to_bytes())
    assert (again.settings, again.days) == ((QUIET, FRANK, PLAIN), ("2024-01-01", "7"))
    assert np.array_equal(again.reports(QUIET)["2024-01-01"], first)
    assert np.array_equal(again.reports(FRANK)["2024-01-01"], second)
    assert again.to_bytes() == client.to_bytes()


@pytest.mark.parametrize("truth", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_clients_follow_the_joint_law(truth, monkeypatch):
    """Reports of 6,000 clients have the exact joint distribution, before and after a change to a finer setting."""
    rng = np.random.default_rng(70 + truth)
    monkeypatch.setattr(Rappor, "filter", lambda *_: np.array([bool(truth)]))
    seen, redrawn = np.zeros(64, int), np.zeros(64, int)
    for _ in range(6_000):
        client, _ = RapporClient.start(COARSE, "x", rng=rng).report(1, rng=rng)
        client, _ = client.relax(FINE, rng=rng).report(2, rng=rng)
        bits = [client.memos[0, 0], *client.drawn[0, :, 0], client.memos[1, 0], *client.drawn[1, :, 0]]
        seen[int("".join(str(int(bit)) for bit in bits), 2)] += 1
        other, _ = RapporClient.start(FINE, "x", rng=rng).report(1, rng=rng)
        redrawn[int("".join(str(int(bit)) for bit in [*bits[:4], other.drawn[0, 0, 0], bits[5]]), 2)] += 1
    law = np.array([float(enumerated(truth)[state]) for state in STATES])
    order = np.argsort(-law, kind="stable")
    assert_consistent(g_test(seen[order], law[order]))
    assert_detected(g_test(redrawn[order], law[order]), "a past report drawn afresh")


def test_the_cap_holds_and_settings_that_do_not_follow_are_refused():
    """A client refuses a setting that is above its cap or coarser than its current setting; the error says why."""
    client = RapporClient.start(QUIET, "x", cap=FRANK.epsilon(), rng=RNG).relax(FRANK, rng=RNG)
    with pytest.raises(CapExceededError, match="nothing was drawn"):
        client.relax(PLAIN, rng=RNG)
    with pytest.raises(DeclarationError, match="holds: keep"):
        client.relax(QUIET, rng=RNG)
    with pytest.raises(CapExceededError):
        RapporClient.start(FRANK, "x", cap=1, rng=RNG)


def test_bytes_are_checked_and_nothing_secret_is_shown():
    """Altered or unrelated bytes are refused, and the repr of a client shows neither value nor Bloom filter."""
    client = RapporClient.start(QUIET, "secret page", rng=RNG)
    content = client.to_bytes()
    assert "secret" not in repr(client)
    with pytest.raises(StoreDamagedError):
        RapporClient.from_bytes(content[:-40] + b"0" + content[-39:])
    with pytest.raises(InputError):
        RapporClient.from_bytes(b"something else")
