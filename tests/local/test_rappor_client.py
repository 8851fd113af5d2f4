"""The client of one person: reports remembered, settings relaxed, a private file that survives."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import pickle
import stat
from datetime import date
from fractions import Fraction

import numpy as np
import pytest

from sparsehist.errors import (
    CapExceededError,
    DeclarationError,
    InputError,
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
)
from sparsehist.local import Rappor, RapporClient
from sparsehist.sessions import rappor_client
from tests.local.test_rappor import COARSE, FINE, STATES, enumerated
from tests.stats import assert_consistent, g_test

QUIET = Rappor(128, 2, "0.25", "0.65", "0.4")
OPEN = Rappor(128, 2, "0.5", "0.8", "0.25")
PLAIN = Rappor(128, 2, "0.9", "0.9", "0.1")


def test_a_day_has_one_report_whatever_happens(tmp_path):
    """Asked again, opened again, relaxed twice: the same bits for a day and setting."""
    client = RapporClient(QUIET, "secret page", path=tmp_path / "client")
    first = client.report(date(2024, 1, 1))
    assert first.shape == (128,)
    assert np.array_equal(client.report("2024-01-01"), first)
    client.relax(OPEN)
    second = client.report(date(2024, 1, 1))
    client = RapporClient.open(tmp_path / "client")
    client.relax(PLAIN)
    client.report(7)
    assert client.settings == (QUIET, OPEN, PLAIN)
    assert np.array_equal(client.report("2024-01-01", QUIET), first)
    assert np.array_equal(client.report("2024-01-01", OPEN), second)
    assert list(client.reports()) == ["2024-01-01", "7"]
    assert all(np.array_equal(report, client.report(day, QUIET)) for day, report in client.reports(QUIET).items())


@pytest.mark.parametrize("truth", [0, 1])
def test_clients_follow_the_joint_law(truth, monkeypatch):
    """A report before and one after relaxing, at both settings, over 15,000 clients: all 64 states."""
    rng = np.random.default_rng(70 + truth)
    monkeypatch.setattr(rappor_client, "generator", lambda: rng)
    monkeypatch.setattr(Rappor, "filter", lambda *_: np.array([bool(truth)]))
    seen = np.zeros(64, int)
    for _ in range(15_000):
        client = RapporClient(COARSE, "x")
        client.report(1)
        client.relax(FINE)
        client.report(2)
        coarse, fine = (client.reports(setting) for setting in (COARSE, FINE))
        memos = client._history.memos
        bits = [memos[0], coarse["1"], coarse["2"], memos[1], fine["1"], fine["2"]]
        seen[int("".join(str(int(bit[0])) for bit in bits), 2)] += 1
    law = np.array([float(enumerated(truth)[state]) for state in STATES])
    order = np.argsort(-law, kind="stable")
    assert_consistent(g_test(seen[order], law[order]))


def test_the_cap_holds_and_settings_that_do_not_follow_are_refused(tmp_path):
    """Nothing is drawn or written then."""
    client = RapporClient(QUIET, "x", cap=OPEN.epsilon(), path=tmp_path / "client")
    client.relax(OPEN)
    before = (tmp_path / "client").read_bytes()
    with pytest.raises(CapExceededError, match="nothing was drawn"):
        client.relax(PLAIN)
    with pytest.raises(DeclarationError, match="keep"):
        client.relax(QUIET)
    assert (tmp_path / "client").read_bytes() == before
    with pytest.raises(CapExceededError):
        RapporClient(OPEN, "x", cap=1)
    with pytest.raises(InputError, match="relax to it first"):
        client.report(1, PLAIN)
    with pytest.raises(InputError):
        client.report(1.5)


def test_a_report_that_could_not_be_kept_was_not_made(tmp_path, monkeypatch):
    """A full disk refuses the report; the day is drawn afresh later, as nobody saw the first draw."""
    client = RapporClient(QUIET, "x", path=tmp_path / "client")
    real = rappor_client.write_file

    def full(*_, **__):
        raise StoreError("the disk is full")

    monkeypatch.setattr(rappor_client, "write_file", full)
    for attempt in (lambda: client.report(1), lambda: client.relax(OPEN)):
        with pytest.raises(StoreError):
            attempt()
    monkeypatch.setattr(rappor_client, "write_file", real)
    assert client.settings == (QUIET,)
    assert client.reports() == {}
    assert np.array_equal(client.report(1), RapporClient.open(tmp_path / "client").report(1))


def _report(path, day):
    return RapporClient.open(path).report(day).tobytes()


def test_two_processes_never_draw_one_day_twice(tmp_path):
    """Four processes ask for the same days at once and get the same reports."""
    RapporClient(QUIET, "x", path=tmp_path / "client")
    jobs = [(tmp_path / "client", day) for day in range(5)] * 4
    with multiprocessing.get_context("fork").Pool(4) as pool:
        reports = pool.starmap(_report, jobs)
    assert all(len(set(reports[day::5])) == 1 for day in range(5))


_IN_MEMORY = RapporClient(QUIET, "x")


def _asked_in_a_child():
    try:
        _IN_MEMORY.report(1)
    except StoreError:
        return "refused"
    return "drawn"


def test_a_link_to_the_file_is_the_same_client(tmp_path):
    """Opened by a link in another folder, it has the same history and the same lock, and the link stays."""
    (tmp_path / "elsewhere").mkdir()
    setting = Rappor(64, 2, keep=0.25, one_if_set=0.65, one_if_not=0.4)
    client = RapporClient(setting, "value", path=tmp_path / "client")
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(tmp_path / "client")
    linked = RapporClient.open(link)
    assert (linked.report("monday") == client.report("monday")).all()
    assert (client.report("tuesday") == linked.report("tuesday")).all()
    assert link.is_symlink()


def test_a_client_in_memory_stays_in_its_process():
    """A fork is refused, and so is a copy."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_asked_in_a_child) == "refused"
    with pytest.raises(InputError, match="cost twice"):
        pickle.dumps(_IN_MEMORY)


def test_the_file_is_private_whole_and_checked(tmp_path):
    """Mode 0600; a changed byte, another file, a taken name and a missing file are refused; no secret is shown."""
    path = tmp_path / "client"
    client = RapporClient(QUIET, "secret page", path=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in repr(client) + path.read_text()
    with pytest.raises(NameTakenError):
        RapporClient(QUIET, "x", path=path)
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"0" + content[-2:])
    with pytest.raises(StoreDamagedError):
        RapporClient.open(path)
    path.write_bytes(b"something else")
    with pytest.raises(InputError):
        client.report(1)
    with pytest.raises(NotFoundError):
        RapporClient.open(tmp_path / "none")


def test_relaxing_costs_what_the_finest_setting_costs():
    """The settings state their own cost; the client adds nothing."""
    client = RapporClient(QUIET, "x")
    client.relax(OPEN)
    assert client.setting.epsilon() == pytest.approx(4 * math.log(3))
    assert client.setting.kept == Fraction(1, 2)


def _reporting(path, pipe):
    client = RapporClient.open(path)
    for day in range(10_000):
        pipe.send((day, client.report(day).tobytes()))


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.11])
def test_a_killed_client_has_forgotten_nothing_it_reported(tmp_path, seconds):
    """Killed at any moment, the file holds every report that left the process, and goes on."""
    path = tmp_path / "client"
    RapporClient(QUIET, "x", path=path)
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_reporting, args=(path, theirs))
    child.start()
    theirs.close()
    sent = [ours.recv()]  # it is under way
    child.join(seconds)
    child.kill()
    child.join()
    with contextlib.suppress(EOFError):
        while ours.poll():
            sent.append(ours.recv())
    client = RapporClient.open(path)
    kept = client.reports()
    assert all(kept[str(day)].tobytes() == report for day, report in sent)
    assert len(kept) <= len(sent) + 1
    client.report("after")
