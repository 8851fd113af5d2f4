"""create --every and append --period: a periodic series from the command line."""

import polars as pl
import pytest

import sparsehist as sh

DECLARED = (
    *("--unit", "user", "--key", "url", "--max-keys", "3", "--domain", "strings(max_bytes=8)", "--name", "weekly"),
)
WEEKS = ("--every", "every('week', periods=10)")


WEEKLY = ("--every", "every('week', periods=10, protects='user-week', budget=0.5)")


@pytest.fixture
def weekly(sparsehist, here):
    """A log in weeks, two of them added; the second file holds a row of the week before."""
    days = {11: ["2026-03-10"] * 900, 12: ["2026-03-17"] * 1800 + ["2026-03-15"]}
    for week, day in days.items():
        log = pl.DataFrame({"user": [f"u{i}" for i in range(len(day))], "url": ["/home"] * len(day), "day": day})
        log.write_csv(here / f"w{week}.csv")
    made = sparsehist("create", "s", *DECLARED, *WEEKLY)
    assert made.code == 0 and "append s --series weekly --period 2026-W01" in made.out
    assert sparsehist("append", "s", "--series", "weekly", "--period", "2026-W11", "--input", "w11.csv").code == 0
    late = ("append", "s", "--series", "weekly", "--period", "2026-W12", "--time", "day", "--input", "w12.csv")
    refused = sparsehist(*late)
    assert refused.code == 2 and "--drop-other-periods leaves them out" in refused.err
    left_out = sparsehist(*late, "--drop-other-periods")
    assert left_out.code == 0
    return "s"


def test_periods_are_released_like_any_series_and_shown_as_one(sparsehist, weekly):
    """One entry in show and one row in the ledger, with what it costs a user-week and a user."""
    for week, units in ((11, 900), (12, 1800)):
        words = ("--series", f"weekly_2026w{week}", "--name", "public", "--level", "0.5", "--out", f"r{week}.parquet")
        assert sparsehist("release", weekly, *words).code == 0
        released = sh.read(f"r{week}.parquet")
        assert abs(released.frame["noisy_count"][0] - units) < 20
        assert (released.metadata["declaration"]["period"], released.metadata["per_period"]) == (
            f"2026-W{week}",
            "0.5",
        )
    assert released.metadata["per_user"] == "1"
    again = " ".join(sparsehist("release", weekly, "--series", "weekly_2026w11", "--name", "public").out.split())
    assert "guarantee 0.5-zCDP (zero-concentrated differential privacy); " in again
    assert "; for logs that differ by all rows of one unit " in again
    more = ("--period", "2026-03-02", "--input", "w11.csv")
    assert sparsehist("append", weekly, "--series", "weekly", *more).code == 0
    shown = sparsehist("show", weekly)
    assert "weekly, one series per week" in shown.out and "weekly_2026w11" not in shown.out
    assert "2026-W11, 2026-W12, 2026-W10\n" in shown.out
    (told,) = sparsehist("show", weekly, "--json").json["periodic"]
    assert told["added"] == ["2026-W11", "2026-W12", "2026-W10"]
    assert told["progress"]["periods"] == "3 of 10 weeks added, 2 released; 8 left to release"
    rows = sparsehist("ledger", weekly, "--json").json["ledger"]
    assert [row["scope"] for row in rows] == ["population", "everybody"]
    assert (rows[0]["per_period"], rows[0]["level"]) == ("0.5 per user-week", "1")
    assert "user-week" in sparsehist("ledger", weekly).out


def test_a_plan_says_what_a_year_costs(sparsehist, weekly):
    """Ten weeks at a level: the costliest for a user-week, the sum for a user; other questions have no answer."""
    words = ("plan", weekly, "--series", "weekly")
    (row, over) = sparsehist(*words, "--level", "0.5", "--level", "0.6", "--json").json["levels"]
    assert (row["all_per_period"], row["all_per_user"], row["refused"]) == ("0.5", "5", None)
    assert "largest level that would fit is 0.5" in over["refused"]
    assert "rho 0.5 for one unit in one period, 5 for one unit in all" in " ".join(
        sparsehist(*words, "--level", "0.5").out.split()
    )
    assert sparsehist(*words, "--shows", "50").code == 2


def test_periods_are_refused_or_repeated_in_words(sparsehist, weekly):
    """The same log again, another one, no period, both kinds, a budget that is spent."""
    again = ("append", weekly, "--series", "weekly", "--input", "w11.csv")
    assert sparsehist(*again, "--period", "2026-W11", "--json").json["status"] == "repeated"
    assert sparsehist("append", weekly, "--series", "weekly", "--input", "w12.csv", "--period", "2026-W11").code == 5
    assert sparsehist(*again, "--period", "2026-03").code == 2
    assert sparsehist(*again).code == 2
    assert sparsehist(*again, "--period", "2026-W11", "--step", "1").code == 2
    assert sparsehist(*again, "--step", "1", "--time", "day").code == 2
    assert "with --time" in sparsehist(*again, "--period", "2026-W13", "--drop-other-periods").err
    untimed = sparsehist("append", weekly, "--series", "weekly", "--input", "w12.csv", "--period", "2026-W12")
    assert untimed.code == 5 and "made with --time day" in untimed.err
    whole = sparsehist("release", weekly, "--series", "weekly", "--name", "public", "--level", "0.1")
    assert whole.code == 2 and "is a periodic series" in whole.err
    events = sparsehist("ledger", weekly, "--events").out
    assert "every('week'," in events and "{" not in events
    words = ("--series", "weekly_2026w11", "--name", "public", "--level", "0.6")
    assert sparsehist("release", weekly, *words).code == 3
    declare = ("create", weekly, *DECLARED, *WEEKLY)
    refused = sparsehist(*declare)
    assert refused.code == 2 and "--if-exists reuse gives it back" in refused.err
    assert sparsehist(*declare, "--if-exists", "reuse", "--json").json["status"] == "reused"
    differs = sparsehist(*declare, "--on-null", "drop", "--if-exists", "reuse")
    assert differs.code == 5 and "--on-null error" in differs.err
    assert "declared with --on-null error" in sparsehist(*declare, "--on-null", "drop").err


def test_finish_erases_who_counted(sparsehist, here):
    """Where a unit counts in some periods only; releases go on. Dropping a released week ends the log, too."""
    pl.DataFrame({"user": ["u1"], "url": ["/home"]}).write_parquet(here / "log.parquet")
    for store in ("s", "t"):
        assert sparsehist("create", store, *DECLARED, "--every", "every('week', most_periods=2)").code == 0
        append = ("append", store, "--series", "weekly", "--input", "log.parquet", "--period")
        for week in ("2026-W11", "2026-W12"):
            assert sparsehist(*append, week).code == 0
        if store == "s":
            assert sparsehist("finish", "s", "--series", "weekly", "--yes").code == 0
        else:
            drop = ("drop", "t", "--series")
            assert "warning" not in sparsehist(*drop, "weekly_2026w12", "--yes", "--json").json
            assert sparsehist("release", "t", "--series", "weekly_2026w11", "--name", "r", "--level", "1").code == 0
            for words in ((), ("--yes",)):
                warned = sparsehist(*drop, "weekly_2026w11", *words)
                assert "nothing more can be added to weekly" in " ".join((warned.out + warned.err).split())
        assert sparsehist(*append, "2026-W13").code == 3
