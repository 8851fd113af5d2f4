"""Running series, periodic series, measures, workloads and plans work from the command line."""

import polars as pl
import pytest

import sparsehist as sh

DECLARED = ("--unit", "user", "--key", "url", "--max-keys", "3", "--domain", "strings(max_bytes=8)")
DAILY = (*DECLARED, "--name", "daily", "--cap", "1", "--steps", "7")
WEEKLY = (
    *(*DECLARED, "--name", "weekly", "--every"),
    "every('week', periods=10, protects='user-week', budget=0.5)",
)


def visits(units: int) -> pl.DataFrame:
    """Return a log in which the given number of units visit one page."""
    return pl.DataFrame({"user": [f"u{i}" for i in range(units)], "url": ["/home"] * units})


@pytest.fixture
def daily(sparsehist, here):
    """Create a running series and append two days to it."""
    assert sparsehist("create", "s", *DAILY).code == 0
    for day in (1, 2):
        visits(900 * day).write_parquet(f"day_{day}.parquet")
        made = sparsehist(f"append s --series daily --step {day} --input day_{day}.parquet")
        assert made.code == 0 and f"appended step {day} to daily" in made.out


def test_running_counts_are_released_at_any_step(sparsehist, daily):
    """Running counts can be released at any step, in any order, and each release is written to a file."""
    for step in (2, 1):
        made = sparsehist(f"release s --series daily --level 0.5 --name r{step} --step {step} --out r{step}.parquet")
        assert made.code == 0, made.err
        released = sh.read(f"r{step}.parquet")
        assert released.metadata["step"] == step
        assert abs(released.frame.filter(url="/home")["noisy_count"].item() - 900 * step) < 40
    assert "steps" in sparsehist("show s").out
    assert sparsehist("release s --series daily --name r1 --json").json["status"] == "repeated"
    assert sparsehist("plan s --series daily --step 7 --level 0.5 --json").code == 0
    assert "By level" in sparsehist("plan s --series daily --step 7 --shows 50").out
    assert "give --step" in sparsehist("plan s --series daily --level 0.5").err


def test_steps_are_repeated_or_refused(sparsehist, daily):
    """Appending the same step twice succeeds, and any inconsistent append is refused.

    An append is refused if it changes the rows of a step, skips a step or follows `finish`.
    """
    append = "append s --series daily --input"
    assert sparsehist(f"{append} day_2.parquet --step 2 --json").json["status"] == "repeated"
    assert "other rows" in sparsehist(f"{append} day_1.parquet --step 2").err
    assert "next step is 3" in sparsehist(f"{append} day_1.parquet --step 4").err
    release = "release s --series daily --name x --level 0.5 --step"
    assert "not been appended yet" in sparsehist(f"{release} 3").err
    assert "--if-exists reuse" in sparsehist("create", "s", *DAILY).err
    assert sparsehist("create", "s", *DAILY, "--if-exists", "reuse", "--json").json["status"] == "reused"
    differs = sparsehist("create", "s", *DAILY[:-1], "8", "--if-exists", "reuse")
    assert differs.code == 5 and "--steps 'steps(7)'" in differs.err
    assert "give --yes" in sparsehist("finish s --series daily").err
    assert sparsehist("finish s --series daily --yes").code == 0
    assert sparsehist(f"{append} day_1.parquet --step 3").code == 3
    assert sparsehist(f"{release} 2").code == 0
    assert "made with --step 2" in sparsehist(f"{release} 1").err
    assert sparsehist("drop s --series daily --yes").code == 0


@pytest.fixture
def weekly(sparsehist, here):
    """Create a periodic series and append two weeks to it."""
    assert sparsehist("create", "s", *WEEKLY).code == 0
    for week in (11, 12):
        visits(900 * (week - 10)).write_csv(f"w{week}.csv")
        assert sparsehist(f"append s --series weekly --period 2026-W{week} --input w{week}.csv").code == 0


def test_periods_are_released_like_any_series_and_shown_as_one(sparsehist, weekly):
    """`show` and `ledger` list all periods as one series, with the cost per user-week and per user."""
    for week, units in ((11, 900), (12, 1800)):
        out = f"r{week}.parquet"
        words = f"release s --series weekly_2026w{week} --name public --level 0.5 --out {out}"
        assert sparsehist(words).code == 0
        released = sh.read(out)
        assert abs(released.frame["noisy_count"][0] - units) < 20
        assert released.metadata["declaration"]["period"] == f"2026-W{week}"
    assert (released.metadata["per_period"], released.metadata["per_user"]) == ("0.5", "1")
    assert sparsehist("append s --series weekly --period 2026-03-02 --input w11.csv").code == 0
    assert "weekly_2026w11" not in sparsehist("show s").out
    (shown,) = sparsehist("show s --json").json["periodic"]
    assert shown["added"] == ["2026-W11", "2026-W12", "2026-W10"]
    rows = sparsehist("ledger s --json").json["ledger"]
    assert rows[0]["periods"] == "3 of 10 weeks added, 2 released; 8 left to release"
    assert [row["scope"] for row in rows] == ["population", "everybody"]
    assert (rows[0]["per_period"], rows[0]["level"]) == ("0.5 per user-week", "1")
    row, over = sparsehist("plan s --series weekly --level 0.5 --level 0.6 --json").json["levels"]
    assert (row["all_per_period"], row["all_per_user"], row["refused"]) == ("0.5", "5", None)
    assert "largest level that would fit is 0.5" in over["refused"]


@pytest.fixture
def sales(here):
    """Write a log of 3,000 customers in three countries to a CSV file; return the options that read the file."""
    prices = [9.99, 25.5, 3.25] * 1000
    pl.DataFrame({"customer": range(3000), "country": ["DE", "FR", "US"] * 1000, "price": prices}).write_csv("s.csv")
    return "--input s.csv --unit customer"


def test_sums_are_declared_planned_and_released(sparsehist, sales):
    """The noise of released sums of measures has the standard deviations that `plan` printed.

    If the level of a measure exceeds the cap, the error names the largest level that would fit.
    """
    measures = "--measure price:clip=100,step=0.01 --measure events:clip=5"
    domain = "--key country --domain catalogue('DE','ES','FR','US')"
    assert sparsehist(f"create s {sales} {domain} --max-keys 2 {measures} --name shop --cap 2").code == 0
    asked = "--level 0.5 --measures price=1,events=1/4 --json"
    (row,) = sparsehist(f"plan s --series shop {asked}").json["levels"]
    assert row["adds"] == "1.75"
    released = sparsehist(f"release s --series shop --name may --head 3 {asked}").json
    assert released["metadata"]["measure_stds"] == {"price": row["price_sum_std"], "events": row["events_sum_std"]}
    assert set(released["head"][0]) == {"country", "noisy_count", "price_sum", "events_sum", "price_mean"}
    over = sparsehist("release s --series shop --name june --level 0.5 --measures price=3")
    assert over.code == 3 and "level 3 of the measure price" in over.err and "would fit is 1.25" in over.err


def test_keys_are_found_and_become_a_domain(sparsehist, sales):
    """`choose keys` discovers the keys of a log and writes a file that serves as the domain of a series."""
    found = f"choose keys s {sales} --key country --most-keys 5 --level 0.1 --delta 1e-6 --out keys.parquet --json"
    assert sparsehist(found).json["keys"] == 3
    assert pl.read_parquet("keys.parquet").to_series().to_list() == ["DE", "FR", "US"]
    created = f"create s {sales} --key country --max-keys 1 --name listed --domain catalogue(file='keys.parquet')"
    assert sparsehist(created).code == 0
    assert sparsehist("release s --series listed --name a --level 1 --json").json["rows"] == 3


def test_a_workload_is_planned_released_and_listed(sparsehist, declared):
    """`plan` compares the strategies of a workload and spends nothing.

    After a release of all ranges, its file alone is enough to answer a range query.
    """
    declared[declared.index("--domain") + 1] = "catalogue('/home', '/about')"
    assert sparsehist("create", "s", *declared).code == 0
    plan = "plan s --series visits --workload prefix() --level 0.5"
    assert "identity" in sparsehist(plan).out
    assert pl.DataFrame(sparsehist(f"{plan} --json").json["plan"])["chosen"].sum() == 1
    assert sparsehist(f"{plan} --threshold 5").code == 2
    assert "no releases yet" in sparsehist("show s").out
    release = "release s --series visits --name sums --level 0.5"
    made = sparsehist(f"{release} --workload ranges() --out sums.parquet --head 2")
    assert made.code == 0 and "written to sums.parquet" in made.out
    answer, std = sh.read("sums.parquet").answer("/home", "/about")
    assert abs(answer - 900) < 8 * std
    assert "ranges(2)" in sparsehist("show s").out and "workload" in sparsehist("ledger s").out
    assert "released before" in sparsehist(release).out


def test_plans_without_a_store_and_after_releases(sparsehist, store):
    """A plan needs no store; the plan of an existing series accounts for past releases and the cap."""
    shown = sparsehist("plan --domain strings(max_bytes=32) --max-keys 20 --level 0.01 --level 0.5")
    assert "rho" in shown.out and "95 %" in shown.out
    planned = sparsehist("plan --domain integers(1000000) --max-keys 2 --level 1/3 --json").json
    assert [row["level"] for row in planned["levels"]] == ["1/3"]
    assert {"probability", "relative_error", "count"} <= set(planned["counts"][0])
    assert sparsehist("release s --series visits --name public --level 0.5").code == 0
    known, capped = sparsehist("plan s --series visits --level 0.1 --level 2 --json").json["levels"]
    assert (known["adds"], capped["adds"]) == ("0", "1.5")
    assert "cap" in capped["refused"]


@pytest.mark.parametrize(
    "options",
    [
        "--domain integers(9)", "--max-keys 2", "--series visits", "s --series visits --max-keys 2",
        "--domain integers(9) --max-keys 2 --measures 1", "--domain integers(9) --max-keys 2 --workload total()",
    ],
)  # fmt: skip
def test_what_cannot_be_planned_exits_with_2(sparsehist, store, options):
    """An invalid `plan` command is refused with exit code 2 and a one-line error."""
    done = sparsehist(f"plan {options}")
    assert done.code == 2 and done.err.count("\n") == 1
