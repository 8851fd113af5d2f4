"""create --steps, append, release --step and finish: a log that goes on, from the command line."""

import polars as pl
import pytest

import sparsehist as sh

DECLARED = "--unit user --key url --max-keys 3 --domain strings(max_bytes=8) --name daily".split()


@pytest.fixture
def daily(sparsehist, here):
    """A running series with two days appended."""
    for day in (1, 2):
        log = pl.DataFrame({"user": [f"u{i}" for i in range(900 * day)], "url": ["/home"] * 900 * day})
        log.write_parquet(here / f"day_{day}.parquet")
    assert sparsehist("create", "s", *DECLARED, "--steps", "7", "--cap", "1").code == 0
    for day in (1, 2):
        made = sparsehist("append", "s", "--series", "daily", "--step", day, "--input", f"day_{day}.parquet")
        assert made.code == 0 and f"appended step {day} to daily" in made.out
    return "s"


def test_running_counts_are_released_at_any_step(sparsehist, daily):
    """Earlier steps after later ones; the file says which step it is of, and `show` lists the series."""
    words = ("release", daily, "--series", "daily", "--level", "0.5")
    for step, name in ((2, "second"), (1, "first")):
        made = sparsehist(*words, "--name", name, "--step", step, "--out", f"{name}.parquet")
        assert made.code == 0, made.err
        released = sh.read(f"{name}.parquet")
        assert released.metadata["step"] == step
        assert abs(released.frame.filter(url="/home")["noisy_count"].item() - 900 * step) < 40
    shown = sparsehist("show", daily).out
    assert "daily" in shown and "steps" in shown
    assert sparsehist("release", daily, "--series", "daily", "--name", "first", "--json").json["status"] == "repeated"
    assert sparsehist("limit", daily, "--series", "daily", "--cap", "2", "--reason", "a test").code == 0


def test_steps_are_refused_or_repeated_in_words(sparsehist, daily):
    """The same log again succeeds; another one, a step that is missing, or a release of it, do not."""
    append = ("append", daily, "--series", "daily")
    again = sparsehist(*append, "--step", 2, "--input", "day_2.parquet", "--json")
    assert again.json["status"] == "repeated"
    assert "other rows" in sparsehist(*append, "--step", 2, "--input", "day_1.parquet").err
    assert "step 3 comes next" in sparsehist(*append, "--step", 4, "--input", "day_1.parquet").err
    words = ("release", daily, "--series", "daily", "--name", "x", "--level", "0.5")
    assert "not appended yet" in sparsehist(*words, "--step", 3).err
    assert "give --step and --level" in sparsehist(*words[:-2]).err
    declare = ("create", daily, *DECLARED, "--steps", "7", "--cap", "1")
    assert "--if-exists reuse gives it back" in sparsehist(*declare).err
    assert sparsehist(*declare, "--if-exists", "reuse", "--json").json["status"] == "reused"
    differs = sparsehist(*declare[:-4], "--steps", "8", "--if-exists", "reuse")
    assert differs.code == 5 and "made with --cap 1, --steps 'steps(7)'" in differs.err
    finish = ("finish", daily, "--series", "daily")
    assert "give --yes" in sparsehist(*finish).err  # nobody to ask
    assert sparsehist(*finish, "--yes").code == 0
    assert sparsehist(*append, "--step", 3, "--input", "day_1.parquet").code == 3
    assert sparsehist(*words, "--step", 2).code == 0
    assert "made with --step 2" in sparsehist(*words, "--step", 1).err
    assert sparsehist("drop", daily, "--series", "daily", "--yes").code == 0


def test_a_plan_of_a_step_to_come(sparsehist, daily):
    """What day 7 will publish."""
    planned = sparsehist("plan", daily, "--series", "daily", "--step", 7, "--level", "0.5", "--json")
    assert planned.code == 0, planned.err
    stepless = sparsehist("plan", daily, "--series", "daily", "--level", "0.5")
    assert stepless.code == 2 and "give --step" in stepless.err
    shown = sparsehist("plan", daily, "--series", "daily", "--step", 7, "--shows", 50)
    assert shown.code == 0 and "By level" in shown.out
