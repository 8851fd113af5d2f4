"""Tests that errors recommend remedies that work, and that output shows the requested level first."""

from __future__ import annotations

import re
import string
import sys
from fractions import Fraction

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run
from sparsehist.errors import CountsWarning, DataError, DeclarationError, LevelError, NotFoundError, RefusedError
from sparsehist.privacy.levels import in_prose

DECLARED = {"name": "s", "unit": "UserID", "key": "key", "max_keys": 2, "domain": sh.Strings(max_bytes=4)}
LOG = pl.DataFrame({"UserID": range(400), "key": [f"k{unit % 2}" for unit in range(400)]})
SHELL = ("create", "s", *"--input log.csv --unit UserID --key key --max-keys 2 --name s --domain".split())
PAIR = "epsilon_delta(1, 1e-6)"


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Return a function that runs a command in the directory of a log file, and returns exit code and output."""
    monkeypatch.chdir(tmp_path)
    LOG.write_csv("log.csv")

    def ran(*words):
        capsys.readouterr()
        code = run(list(words))
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return ran


def create(store=":memory:", log=LOG, **overrides):
    """Create a series of `LOG`; keyword arguments override the default parameters."""
    return sh.create(store, log, **DECLARED | overrides)


def test_a_pair_as_a_cap_names_the_budget():
    """A cap given as an (ε, δ) pair is refused, and the error recommends `set_budget`."""
    with pytest.raises(LevelError, match="set_budget"):
        create(cap=sh.EpsilonDelta(1, 1e-6))


@pytest.mark.parametrize("kind", [{"every": "every('month', periods=3, budget='0.5')"}, {"steps": 3}])
def test_missing_units_are_dropped_by_a_series_declared_anew(kind):
    """The error about null units recommends on_null="drop", which works if the series is dropped and recreated."""
    store = sh.open(":memory:", seed=1)
    step = {"period": "2026-03"} if "every" in kind else {"step": 1}
    lacking = pl.concat([LOG, pl.DataFrame({"UserID": [None], "key": ["k0"]})], how="vertical_relaxed")
    with pytest.raises(DataError, match='create the series with on_null="drop"'):
        create(store, None, **kind).append(lacking, **step)
    store.drop("s")
    create(store, None, **kind, on_null="drop").append(lacking, **step)
    assert store.series("s").declaration.on_null == "drop"


def test_a_periodic_series_with_periods_is_not_dropped():
    """A periodic series can be dropped only if all its periods were dropped and none of them was ever released."""
    store = sh.open(":memory:", seed=1)
    for released in (False, True):
        period = create(store, None, every="week").append(LOG, period="2026-W11")
        with pytest.raises(RefusedError, match="drop the series of its periods instead"):
            store.drop("s")
        if released:
            period.release("r", level=1)
        store.drop(period.name)
        if released:
            with pytest.raises(RefusedError, match="had periods that were released"):
                store.drop("s")
        else:
            store.sql("DROP SERIES IF EXISTS s")
            with pytest.raises(NotFoundError):
                store.series("s")


def test_a_choice_at_too_small_a_level_names_one_that_serves():
    """If a level is too small to choose max_keys, the error states a sufficient level and how to plan one."""
    store, domain = sh.open(":memory:", seed=3), sh.Integers(1000)
    log = pl.DataFrame({"unit": range(20_000), "key": [unit % 4 for unit in range(20_000)]})
    choice = {"unit": "unit", "key": "key", "domain": domain}
    with pytest.raises(NotFoundError, match="noise alone") as refused:
        sh.choose_max_keys(store, log, level="0.0000001", **choice)
    named = re.search(r"tenth of the noise: ([\d.]+)", str(refused.value))
    assert named is not None
    assert sh.choose_max_keys(store, log, level=named[1], name="again", **choice).level == named[1]
    planned = sh.plan(domain=domain, max_keys=5, shows=4000).levels["level"].item()
    assert sh.choose_max_keys(store, log, level=4 * Fraction(planned), name="planned", **choice).max_keys >= 1


def test_a_wrong_word_of_a_command_names_a_near_one(command):
    """The error about a misspelt column suggests a similar column; an unknown option gets no unrelated suggestion."""
    code, printed = command(*SHELL, "strings(max_bytes=4)", "--unit", "userid")
    assert code == 2 and "did you mean 'UserID'?" in printed
    code, printed = command(*SHELL, "strings(max_bytes=4)", "--epsilon", "1")
    assert code == 2 and "--epsilon" in printed and "--sign" not in printed


def test_a_workload_is_planned_for_a_pair(command):
    """A workload plan for ε and δ states the same level as the release, in Python and on the command line."""
    LOG.with_columns(key=pl.col("UserID") % 8).write_csv("log.csv")
    assert command(*SHELL, "integers(8)")[0] == 0
    with sh.open("s") as store:
        series = store.series("s")
        level = series.plan_workload("ranges()", PAIR)["level"][0]
        assert level == series.plan_workload("ranges()", [PAIR])["level"][0]
        assert level == series.release("w", workload="ranges()", level=PAIR).metadata["level"]
    for words in (("--level", PAIR), ("--epsilon", "1", "--delta", "1e-6")):
        code, printed = command("plan", "s", "--series", "s", "--workload", "ranges()", *words)
        assert code == 0 and level in printed


@pytest.mark.parametrize(
    ("value", "domain", "kind", "served"),
    [
        ("2024-01-31 08:15:00", "dates('2024-01-01', '2024-12-31')", "date", "2024-01-31 09:00:00"),
        ("2.55", "integers(10)", "integer", "2.0"),
    ],
)
def test_text_of_another_kind_names_the_option_that_reads_it(command, value, domain, kind, served):
    """If text keys do not fit the domain, the error recommends `--key-type`.

    For a domain of integers, the error about text keys also says that fractions must first be scaled to whole
    numbers.
    """
    pl.DataFrame({"UserID": [1, 2], "key": [value, served]}).write_csv("log.csv")
    code, printed = command(*SHELL, domain)
    assert code == 2 and f"--key-type key={kind}" in printed
    assert kind == "date" or "scaled to whole numbers" in printed
    pl.DataFrame({"UserID": [1, 2], "key": [served, served]}).write_csv("log.csv")
    assert command(*SHELL, domain, "--key-type", f"key={kind}")[0] == 0


def test_the_metadata_of_a_workload_state_cuts():
    """The metadata of a workload release state that a unit's keys beyond max_keys are not counted."""
    keys = list(string.ascii_lowercase)
    log = pl.DataFrame({"UserID": range(260), "a": keys * 10, "b": ["x", "y"] * 130})
    domain = sh.Product(a=sh.Catalogue(keys), b=sh.Catalogue(["x", "y"]))
    series = create(sh.open(":memory:", seed=2), log, key=["a", "b"], max_keys=3, domain=domain)
    with pytest.warns(CountsWarning, match="beyond max_keys are missing"):
        sums = series.release("sums", workload="marginals(k=1)", level=1)
    assert "cells of a unit beyond max_keys are missing" in sums.metadata["counts"]


def test_the_requested_pair_stands_first(command):
    """Printed output shows the requested ε and δ first, then a rounded ρ. Only metadata show the exact level."""
    series = create("s")
    store, release = series.store, series.release("r", epsilon=1, delta=1e-6)
    assert release.metadata["level"] == "0.0280144819126"
    asked, rounded = "epsilon 1 at delta 1e-06", "0.02802"
    assert f"{asked} (level {rounded})" in repr(release)
    assert release.metadata["guarantee"].startswith(f"{asked} was asked for: {rounded}-zCDP")
    assert f"{asked} was asked for: {rounded}-zCDP" in " ".join(store.report().split())
    store.close()
    for words in (("release", "s", "--series", "s", "--name", "r"), ("ledger", "s"), ("show", "s")):
        code, printed = command(*words)
        assert code == 0 and rounded in printed and "0.0280144" not in printed
    _, ledger = command("ledger", "s")
    assert ledger.index("epsilon") < ledger.index("spent") and f"1.0 rho {rounded}" in ledger


@pytest.mark.parametrize("level", ["0.0280144819126", "123456", "1/3", "1e-40", "0.5"])
def test_prose_rounds_a_level_up(level):
    """A level that is rounded for display is at least the exact level, and at most 0.1 % larger."""
    exact = Fraction(level)
    assert exact <= in_prose(exact) <= exact * Fraction(1001, 1000)


def test_a_missing_extra_is_named(monkeypatch):
    """Without Altair, a report is refused with the pip command that installs Altair."""
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(NotFoundError, match=r"pip install 'sparsehist\[plots\]'"):
        sh.open(":memory:").report()


def test_ranges_of_dates_are_given_as_keys():
    """If ranges of keys are given in the wrong parameter, the error shows how to pass them as `keys=`."""
    weeks = [("2026-03-02", "2026-03-08")]
    with pytest.raises(DeclarationError, match=re.escape("keys=[('2026-03-02', '2026-03-08')]")):
        sh.workload.Ranges(weeks)
    series = create(log=LOG.with_columns(key=pl.lit("2026-03-03")), domain="dates('2026-03-01', '2026-03-31')")
    assert series.release("week", workload=sh.workload.Ranges(keys=weeks), level=1).frame.height == 1
