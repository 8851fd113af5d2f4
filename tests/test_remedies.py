"""The remedy that a refusal names exists and works, and outputs begin with the level as it was requested."""

from __future__ import annotations

import re
import string
from fractions import Fraction

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run
from sparsehist.errors import (
    CountsWarning,
    DataError,
    DeclarationError,
    LevelError,
    NotFoundError,
    RefusedError,
)
from sparsehist.privacy.levels import in_prose

DECLARED = {"unit": "UserID", "key": "key", "max_keys": 2}
SHELL = ("--unit", "UserID", "--key", "key", "--max-keys", "2", "--name", "s")


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Run a command in a directory of its own: its exit code, and what it printed on one line."""
    monkeypatch.chdir(tmp_path)

    def ran(*words):
        capsys.readouterr()
        code = run(list(words))
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return ran


def keys_of(units: int = 400) -> pl.DataFrame:
    """Units with one of two keys each."""
    return pl.DataFrame({"UserID": range(units), "key": [f"k{unit % 2}" for unit in range(units)]})


def series_of(store: str | sh.Store = ":memory:", **more: object) -> sh.Series:
    """Declare a series of these units; `more` replaces parameters."""
    domain = sh.Strings(max_bytes=4)
    return sh.create(store, keys_of(), **{"name": "s", "domain": domain, **DECLARED, **more})  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("goes_on", [{"every": "every('month', periods=3, budget='0.5')"}, {"steps": 3}])
def test_missing_units_are_answered_by_a_series_declared_anew(goes_on):
    """An appended log is left out rows of by the declaration alone; one without a log is dropped and made again."""
    store = sh.open(":memory:", seed=1)
    step = {"period": "2026-03"} if "every" in goes_on else {"step": 1}
    declared = {"name": "s", "domain": sh.Strings(max_bytes=4), **DECLARED, **goes_on}
    lacking = pl.concat([keys_of(), pl.DataFrame({"UserID": [None], "key": ["k0"]})], how="vertical_relaxed")
    with pytest.raises(DataError, match='create the series with on_null="drop"'):
        sh.create(store, **declared).append(lacking, **step)
    store.drop("s")
    declared |= {"on_null": "drop"} | ({"every": "every('week', periods=9)"} if "every" in goes_on else {})
    made = sh.create(store, **declared)
    made.append(lacking, **step | ({"period": "2026-W11"} if "every" in goes_on else {}))
    assert store.series("s").declaration.on_null == "drop"
    ledger = store.ledger(full=True)
    assert ledger["budget"].null_count() == ledger.height  # the budget of the first went with it


def test_a_periodic_series_with_periods_is_not_dropped():
    """Its periods are, each a series; what was released stays declared."""
    store = sh.open(":memory:", seed=1)
    declared = {"name": "s", "domain": sh.Strings(max_bytes=4), **DECLARED, "every": "week"}
    for released in (False, True):
        period = sh.create(store, **declared).append(keys_of(), period="2026-W11")
        with pytest.raises(RefusedError, match="drop its periods"):
            store.drop("s")
        if released:
            period.release("r", level=1)
        store.drop(period.name)
        if released:
            with pytest.raises(RefusedError, match="none was released"):
                store.drop("s")
        else:
            store.sql("DROP SERIES IF EXISTS s")
            with pytest.raises(NotFoundError):
                store.series("s")


def test_a_choice_at_too_small_a_level_names_one_that_does():
    """The level it names shows a key of as many units as it says; the plan names a quarter of what serves."""
    store, domain = sh.open(":memory:", seed=3), sh.Integers(1000)
    log = pl.DataFrame({"unit": range(20_000), "key": [unit % 4 for unit in range(20_000)]})
    asked = {"unit": "unit", "key": "key", "domain": domain}
    with pytest.raises(NotFoundError, match="noise alone") as refused:
        sh.choose_max_keys(store, log, level="0.0000001", **asked)
    told = re.search(
        r"at level ([\d.]+), with a tenth of the noise, where one of more than ([\d,]+)", str(refused.value)
    )
    assert told is not None and int(told[2].replace(",", "")) < 5000
    assert sh.choose_max_keys(store, log, level=told[1], name="again", **asked).level == told[1]
    planned = sh.plan(domain=domain, max_keys=5, shows=4000).levels["level"].item()
    assert sh.choose_max_keys(store, log, level=4 * Fraction(planned), name="planned", **asked).max_keys >= 1


def test_a_pair_for_a_cap_is_told_of_levels_and_budgets(command):
    """Not of vectors."""
    with pytest.raises(LevelError, match="set_budget"):
        series_of(cap=sh.EpsilonDelta(1, 1e-6))
    keys_of().write_csv("log.csv")
    code, told = command(
        "create", "s", "--input", "log.csv", *SHELL, "--domain", "strings(max_bytes=4)", "--cap",
        "epsilon_delta(1, 1e-6)",
    )  # fmt: skip
    assert code == 2 and "a cap is a level" in told


def test_unknown_options_and_columns_suggest_what_was_meant(command):
    """Or nothing, where nothing is near."""
    keys_of().write_csv("log.csv")
    domain = ("--domain", "strings(max_bytes=4)")
    code, told = command("create", "s", "--input", "log.csv", *SHELL, *domain, "--epsilon", "1")
    assert code == 2 and "--epsilon" in told and "--sign" not in told
    wrong = ["userid" if word == "UserID" else word for word in SHELL]
    code, told = command("create", "s", "--input", "log.csv", *wrong, *domain)
    assert code == 2 and "did you mean 'UserID'?" in told


def test_a_workload_is_planned_for_a_pair(command):
    """By the level that a release of it takes, in Python and from a shell."""
    keys_of().with_columns(key=pl.col("UserID") % 8).write_csv("log.csv")
    assert command("create", "s", "--input", "log.csv", *SHELL, "--domain", "integers(8)")[0] == 0
    pair, about = "epsilon_delta(1, 1e-6)", ("--series", "s", "--workload", "ranges()")
    with sh.open("s") as store:
        series = store.series("s")
        planned = series.plan_workload("ranges()", pair)
        assert (
            planned["level"].unique().to_list()
            == series.plan_workload("ranges()", [pair])["level"].unique().to_list()
        )
        assert planned["level"][0] == series.release("w", workload="ranges()", level=pair).metadata["level"]
    for level in (("--level", pair), ("--epsilon", "1", "--delta", "1e-6")):
        code, told = command("plan", "s", *about, *level)
        assert code == 0 and planned["level"][0] in told


@pytest.mark.parametrize(
    ("value", "domain", "kind", "read"),
    [
        ("2024-01-31 08:15:00", "dates('2024-01-01', '2024-12-31')", "date", "2024-01-31 09:00:00"),
        ("2.55", "integers(10)", "integer", "2.0"),
    ],
)
def test_text_of_another_kind_is_told_how_it_is_read(command, value, domain, kind, read):
    """The option that is named serves what it can; prices have to be scaled, and that is said."""
    made = ("create", "s", "--input", "log.csv", *SHELL, "--domain", domain)
    pl.DataFrame({"UserID": [1, 2], "key": [value, read]}).write_csv("log.csv")
    code, told = command(*made)
    assert code == 2 and f"--key-type key={kind}" in told
    assert kind == "date" or "scaled to whole numbers" in told
    pl.DataFrame({"UserID": [1, 2], "key": [read, read]}).write_csv("log.csv")
    assert command(*made, "--key-type", f"key={kind}")[0] == 0


def test_cells_agree_with_their_marginals_and_cuts_are_told():
    """Pairs beyond max_keys are said to be missing."""
    keys = list(string.ascii_lowercase)
    log = pl.DataFrame({"UserID": range(260), "a": keys * 10, "b": ["x", "y"] * 130})
    domain = sh.Product(a=sh.Catalogue(keys), b=sh.Catalogue(["x", "y"]))
    series = sh.create(
        sh.open(":memory:", seed=2), log, name="s", unit="UserID", key=["a", "b"], max_keys=3, domain=domain
    )
    cells = series.release("cells", level=1)
    with pytest.warns(CountsWarning, match="how many were cut"):
        sums = series.release("sums", workload="marginals(k=1)", level=1)
    assert "at most 3 keys of each unit: pairs beyond that were cut" in sums.metadata["guarantee"]
    assert [frame.height for frame in cells.consistent(sums)] == [len(cells), 28]


def test_what_was_asked_stands_first(command):
    """In what a release, its guarantee, the ledger, a command and the report show; metadata has the exact level."""
    series = series_of("s")
    store, release = series.store, series.release("r", epsilon=1, delta=1e-6)
    assert release.metadata["level"] == "0.0280144819126"
    asked, rounded = "epsilon 1 at delta 1e-06", "0.02802"
    assert f"{asked} (level {rounded})" in repr(release)
    assert release.metadata["guarantee"].startswith(f"{asked} was asked for: {rounded}-zCDP")
    page = " ".join(store.report().split())
    assert f"{asked} was asked for: {rounded}-zCDP" in page
    store.close()
    for words in (("release", "s", "--series", "s", "--name", "r"), ("ledger", "s"), ("show", "s")):
        code, told = command(*words)
        assert code == 0 and rounded in told and "0.0280144" not in told
    _, ledger = command("ledger", "s")
    assert ledger.index("epsilon") < ledger.index("spent") and f"1.0 rho {rounded}" in ledger


@pytest.mark.parametrize("level", ["0.0280144819126", "123456", "1/3", "1e-40", "0.5"])
def test_prose_rounds_a_level_up(level):
    """So that the guarantee it states holds; by less than a thousandth."""
    exact = Fraction(level)
    assert exact <= in_prose(exact) <= exact * Fraction(1001, 1000)


def test_revenue_is_refused_as_counts():
    """What a unit adds to a key at most has to be written out."""
    with pytest.raises(DeclarationError, match="measure"):
        sh.create(
            ":memory:",
            sh.Counts(pl.DataFrame({"key": ["k0"], "count": [1999]})),
            name="s",
            key="key",
            max_keys=1,
            domain=sh.Strings(max_bytes=4),
        )


def test_a_column_of_another_type_is_read_as_the_advice_says(command):
    """Time stamps of Parquet become dates, and lists one row for each element."""
    days = [f"2026-03-{1 + day:02} 10:00:00" for day in range(20)]
    log = keys_of(20).with_columns(at=pl.Series(days).str.to_datetime(), tags=pl.Series([["a", "b"]] * 20))
    log.write_parquet("log.parquet")
    told = DECLARED | {"name": "s"}
    with pytest.raises(
        DataError, match=re.escape("sh.Files(…, types={'at': 'date'}), in a shell --key-type at=date")
    ):
        sh.create("one", "log.parquet", **told | {"key": "at"}, domain=sh.Dates("2026-03-01", "2026-03-31"))
    sh.create("one", sh.Files("log.parquet", types={"at": "date"}), **told | {"key": "at"},
              domain=sh.Dates("2026-03-01", "2026-03-31"))  # fmt: skip
    with pytest.raises(DataError, match=re.escape("frame.explode('tags') or unnest in SQL")):
        sh.create("two", "log.parquet", **told | {"key": "tags"}, domain=sh.Strings(max_bytes=4))
    sh.create("two", log.explode("tags"), **told | {"key": "tags"}, domain=sh.Strings(max_bytes=4))
    query = sh.Query("select UserID, unnest(tags) as tag from read_parquet('log.parquet')")
    sh.create("three", query, **told | {"key": "tag"}, domain=sh.Strings(max_bytes=4))


def test_ranges_of_dates_are_given_as_keys():
    """Pairs of text in the place of numbers of cells are told the parameter that takes them."""
    weeks = [("2026-03-02", "2026-03-08")]
    with pytest.raises(DeclarationError, match=re.escape("keys=[('2026-03-02', '2026-03-08')]")):
        sh.workload.Ranges(weeks)
    days = pl.DataFrame({"UserID": range(9), "key": ["2026-03-03"] * 9})
    series = sh.create(
        ":memory:", days, name="s", domain="dates('2026-03-01', '2026-03-31')", **DECLARED | {"max_keys": 1}
    )
    assert series.release("week", workload=sh.workload.Ranges(keys=weeks), level=1).frame.height == 1


def test_an_epsilon_alone_is_told_to_add_a_delta():
    """No level of Gaussian noise keeps to an epsilon at delta 0."""
    with pytest.raises(DeclarationError, match="give a delta as well, such as 1e-6"):
        series_of().release("r", epsilon=1)
    series_of().release("r", epsilon=1, delta="1e-6")
