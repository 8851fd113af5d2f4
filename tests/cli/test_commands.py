"""Commands do the same as the Python interface, and report results with exit codes and JSON."""

import errno
from pathlib import Path

import pytest

import sparsehist as sh
from sparsehist.store.private_files import disk_errors

RELEASE = ("release", "s", "--series", "visits", "--name", "public", "--level", "0.1")


def test_create_again_is_an_error_unless_reuse_is_asked_for(sparsehist, declared, store):
    """`create --if-exists reuse` returns an existing series, and exits with code 5 if the declaration differs."""
    again = sparsehist("create", store, *declared)
    assert again.code == 2 and "--if-exists" in again.err
    reuse = ("--if-exists", "reuse")
    assert "reused the series" in sparsehist("create", store, *declared, *reuse).out
    declared[declared.index("--max-keys") + 1] = 3
    assert sparsehist("create", store, *declared, *reuse).code == 5
    other = sparsehist("create", store, *declared)
    assert "--max-keys 2" in other.err and "reuse" not in other.err


def test_the_same_release_again_gives_the_same_file(sparsehist, store):
    """Repeating a release succeeds and writes a file with the same bytes as before."""
    asked = (*RELEASE, "--false-keys", 1, "--out")
    assert sparsehist(*asked, "public.parquet").code == 0
    again = sparsehist(*asked, "again.parquet", "--json")
    assert Path("public.parquet").read_bytes() == Path("again.parquet").read_bytes()
    assert sh.read("public.parquet").frame["url"].to_list()[0] == "/home"
    assert (again.json["metadata"]["level"], again.json["rows"]) == ("0.1", len(sh.read("again.parquet")))


def test_only_a_file_of_this_release_is_replaced(sparsehist, store):
    """`release --out` refuses the path of a log, a directory or a different release, before any noise is drawn."""
    assert sparsehist(*RELEASE, "--out", "public.parquet").code == 0
    Path("folder.parquet").mkdir()
    for place in ("log/a.parquet", "public.parquet", "folder.parquet"):
        before = Path(place).is_file() and Path(place).read_bytes()
        refused = sparsehist("release", store, *"--series visits --name other --level 0.2 --out".split(), place)
        assert refused.code == 2 and place in refused.err
        assert before == (Path(place).is_file() and Path(place).read_bytes())
    assert sparsehist("ledger s --json").json["ledger"][0]["releases"] == 1
    assert sparsehist(*RELEASE, "--out", "public.parquet").code == 0


def test_a_release_that_could_not_be_written_is_said_to_be_committed(sparsehist, store, monkeypatch):
    """If the disk is full after the commit, the error says that the release is committed."""

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr("sparsehist.release.release_files.publish", disk_errors(Path("x"))(refuse))
    failed = sparsehist(*RELEASE, "--out", "public.parquet")
    assert failed.code == 2 and "disk is full" in failed.err and "committed to the store: repeat" in failed.err


@pytest.mark.parametrize(
    "options",
    [
        "--out missing/p.parquet", "--out p.txt", "--out s/p.parquet", "--level nan", "--level -1",
        "--threshold 1 --false-keys 1", "--threshold 0", "--false-keys many", "--series other", "--name Public",
        "--wait nan", "--head -1", "--workload rangs()", "--workload marginals([['day']])",
    ],
)  # fmt: skip
def test_bad_requests_exit_with_2_before_anything_is_drawn(sparsehist, store, options):
    """An invalid release request prints one line on stderr, exits with code 2 and spends nothing."""
    refused = sparsehist(*RELEASE, *options.split())
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: ") and refused.err.count("\n") == 1
    assert sparsehist("ledger s --json").json["ledger"][0]["releases"] == 0


def test_check_exits_with_2_where_create_would_refuse(sparsehist, log):
    """`check` exits with code 2 if `create` would refuse the log, and with code 0 otherwise."""
    options = ("--unit", "user_id", "--key", "url", "--max-keys", 2, "--json", "--domain")
    fits = sparsehist("check", log, *options, "strings(max_bytes=8)")
    assert (fits.code, fits.json["refused"]) == (0, False)
    narrow = sparsehist("check", log, *options, "strings(max_bytes=5)")
    assert (narrow.code, narrow.json["refused"]) == (2, True)
    assert any("pass --on-outside drop" in rule["outcome"] for rule in narrow.json["rules"])
    assert sparsehist("check", log, *options, "strings(max_bytes=5)", "--on-outside", "drop").code == 0


def test_a_backup_serves_once_it_is_adopted(sparsehist, here, store):
    """A copy of a store is refused while the original exists; `adopt --home-is-gone` makes the copy usable."""
    sparsehist(*RELEASE, "--out", "first.parquet")
    assert sparsehist("backup s copy").code == 0
    assert sparsehist("show copy").code == sparsehist("adopt copy").code == 2
    (here / store).rename(here / "moved-away")
    (here / "copy").rename(here / store)
    assert sparsehist("adopt s --home-is-gone").code == 0
    assert sparsehist(*RELEASE, "--out", "second.parquet").code == 0
    assert sh.read("first.parquet").frame.equals(sh.read("second.parquet").frame)


def test_a_bound_is_chosen_and_stands_in_the_ledger(sparsehist, log):
    """Running `choose max-keys` again prints the same result and costs nothing.

    A choice of max_keys under a new name is charged as well, and is refused if its level would exceed the budget.
    """
    asked = ("choose", "max-keys", "s", "--input", log, "--unit", "user_id", "--key", "url", "--level", "0.4")
    asked = (*asked, "--domain", "strings(max_bytes=8)")
    first = sparsehist(*asked, "--json").json
    assert first["bounding"] in ("keep", "share")
    assert first == sparsehist(*asked, "--json").json
    assert f"--max-keys {first['max_keys']}" in sparsehist(*asked).out
    assert sh.open("s").ledger(full=True).filter(scope="population")["level"].to_list() == ["0.4"]
    sparsehist("limit s --rho 0.5")
    assert sparsehist(*asked, "--name", "other", "--release-level", "0.1").code == 3
    assert sh.open("s").series_names() == ["choice_keys", "choice_profile"]
