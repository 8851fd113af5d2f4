"""release --workload: released, written, listed, planned and refused from the command line."""

import polars as pl
import pytest

import sparsehist as sh


@pytest.fixture
def areas(sparsehist, declared):
    """A store with one series over a catalogue of two keys."""
    domain = ("--domain", "catalogue('/home', '/about')")
    given = list(declared)
    given[given.index("--domain") : given.index("--domain") + 2] = domain
    assert sparsehist("create", "s", *given).code == 0
    return "s"


def test_a_workload_is_released_written_and_listed(sparsehist, areas):
    """The file answers ranges by itself; `show` lists the release, and the ledger tells its path from the cells."""
    words = ("release", areas, "--series", "visits", "--name", "sums", "--workload", "ranges()")
    made = sparsehist(*words, "--level", "0.5", "--out", "sums.parquet", "--head", "2")
    assert made.code == 0 and "written to sums.parquet" in made.out
    answer, std = sh.read("sums.parquet").answer("/home", "/about")
    assert abs(answer - 900) < 8 * std
    assert "ranges(2)" in sparsehist("show", areas).out and "no releases yet" not in sparsehist("show", areas).out
    assert "workload" in sparsehist("ledger", areas).out
    other = sparsehist("release", areas, "--series", "visits", "--name", "sums", "--level", "0.5")
    assert other.code == 0 and "released before" in other.out


def test_a_plan_spends_nothing_and_shows_every_column(sparsehist, areas):
    """The strategies are compared, down to the last column however narrow the table; no release is made."""
    words = ("plan", areas, "--series", "visits", "--workload", "prefix()", "--level", "0.5")
    planned = sparsehist(*words)
    assert planned.code == 0 and "chosen" in planned.out and "identity" in planned.out
    assert "no releases yet" in sparsehist("show", areas).out
    assert pl.DataFrame(sparsehist(*words, "--json").json["plan"])["chosen"].sum() == 1


@pytest.mark.parametrize(
    ("workload", "code", "told"),
    [
        ("rangs()", 2, "write one of"),
        ("marginals([['day']])", 2, "there is no column 'day'"),
        ("ranges([(0, 5)])", 2, "not a range"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused(sparsehist, areas, workload, code, told):
    """With the reason, before anything is drawn."""
    words = ("release", areas, "--series", "visits", "--name", "x", "--level", "0.5", "--workload")
    refused = sparsehist(*words, workload)
    assert refused.code == code and told in refused.err
