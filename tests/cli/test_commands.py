"""The commands do what the Python interface does, and say so with exit codes and JSON."""

import errno
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.store.private_files import disk_errors

RELEASE = ("--series", "visits", "--name", "public", "--level", "0.1")


def test_create_counts_a_log_of_several_files(sparsehist, declared):
    """A series is created once from all files of a glob, with the declaration that was given."""
    answer = sparsehist("create", "s", *declared, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json["status"] == "created"
    assert answer.json["declaration"]["max_keys"] == 2
    assert answer.json["declaration"]["cap"] == "1"


def test_a_unit_may_be_several_columns(sparsehist, here):
    """--unit date,ip and --unit twice are one declaration, in create, check, show and the ledger."""
    log = pl.DataFrame({"date": ["1", "2"] * 200, "ip": range(400), "url": ["/a"] * 400})
    log.write_parquet("visits.parquet")
    rest = ("--key", "url", "--max-keys", "1", "--domain", "strings(max_bytes=4)")
    unit = {"s": ("--unit", "date,ip"), "t": ("--unit", "date", "--unit", "ip")}
    for store, given in unit.items():
        made = sparsehist("create", store, "--input", "visits.parquet", *given, *rest, "--name", "visits", "--json")
        assert made.json["declaration"]["unit"] == ["date", "ip"]
        assert "(date, ip)" in sparsehist("show", store).out
        told = sparsehist("release", store, "--series", "visits", "--name", "a", "--level", "1", "--json")
        assert "all rows of one (date, ip)" in told.json["metadata"]["guarantee"]
    checked = sparsehist("check", "visits.parquet", *unit["s"], *rest, "--json").json["rules"]
    assert checked[-1]["units"] == 400


def test_create_again_is_an_error_unless_reuse_is_asked_for(sparsehist, declared, store):
    """An existing series is refused, kept with --if-exists reuse, and never changed."""
    again = sparsehist("create", store, *declared)
    assert again.code == 2
    assert "--if-exists" in again.err
    reused = sparsehist("create", store, *declared, "--if-exists", "reuse", "--json")
    assert (reused.code, reused.json["status"]) == (0, "reused")
    assert "Nothing is published yet" in sparsehist("create", store, *declared, "--if-exists", "reuse").out
    sparsehist("release", store, *RELEASE)
    assert "It has 1 releases" in sparsehist("create", store, *declared, "--if-exists", "reuse").out
    declared[declared.index("--max-keys") + 1] = 3
    assert sparsehist("create", store, *declared, "--if-exists", "reuse").code == 5
    other = sparsehist("create", store, *declared)
    assert "--max-keys 2" in other.err and "reuse" not in other.err  # it would not give it back


def test_the_same_release_again_gives_the_same_file(sparsehist, store):
    """A repeated request succeeds, and writes the same bytes."""
    first = sparsehist("release", store, *RELEASE, "--false-keys", 1, "--out", "public.parquet")
    again = sparsehist("release", store, *RELEASE, "--false-keys", 1, "--out", "again.parquet", "--json")
    assert (first.code, again.code) == (0, 0)
    assert Path("public.parquet").read_bytes() == Path("again.parquet").read_bytes()
    assert sh.read("public.parquet").frame["url"].to_list()[0] == "/home"
    assert again.json["metadata"]["level"] == "0.1"
    assert again.json["rows"] == len(sh.read("again.parquet"))


def test_a_file_that_is_not_this_release_is_never_replaced(sparsehist, store):
    """A log, another release and a directory stay as they are, and nothing is drawn; the same release is written."""
    assert sparsehist("release", store, *RELEASE, "--out", "public.parquet").code == 0
    Path("folder.parquet").mkdir()
    other = ("release", store, "--series", "visits", "--name", "other", "--level", "0.2", "--out")
    for place in ("log/a.parquet", "public.parquet", "folder.parquet"):
        before = Path(place).is_file() and Path(place).read_bytes()
        refused = sparsehist(*other, place)
        assert refused.code == 2 and place in refused.err
        assert before == (Path(place).is_file() and Path(place).read_bytes())
    assert sparsehist("ledger", store, "--json").json["ledger"][0]["releases"] == 1
    assert sparsehist("release", store, *RELEASE, "--out", "public.parquet").code == 0


def test_a_release_that_could_not_be_written_is_said_to_be_committed(sparsehist, store, monkeypatch):
    """When the disk is full after the commit, the message tells what to do and not that nothing was released."""

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr("sparsehist.release.release_files.publish", disk_errors(Path("x"))(refuse))
    failed = sparsehist("release", store, *RELEASE, "--out", "public.parquet")
    assert failed.code == 2
    assert "disk is full" in failed.err and "committed to the store: repeat" in failed.err
    monkeypatch.undo()


@pytest.mark.parametrize(
    "options",
    [
        ("--out", "missing/p.parquet"),
        ("--out", "p.txt"),
        ("--out", "s/p.parquet"),
        ("--level", "nan"),
        ("--level", "-1"),
        ("--threshold", "1", "--false-keys", "1"),
        ("--threshold", "0"),
        ("--false-keys", "many"),
        ("--series", "other"),
        ("--name", "Public"),
        ("--wait", "nan"),
        ("--wait", "-1"),
        ("--head", "-1"),
    ],
    ids=" ".join,
)
def test_bad_requests_exit_with_2_before_anything_is_drawn(sparsehist, store, options):
    """What cannot be served is refused with one line on stderr, and nothing is spent."""
    request = dict(zip(RELEASE[::2], RELEASE[1::2], strict=True))
    request |= dict(zip(options[::2], options[1::2], strict=True))
    refused = sparsehist("release", store, *(word for pair in request.items() for word in pair))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: ")
    assert refused.err.count("\n") == 1
    assert sparsehist("ledger", store, "--json").json["ledger"][0]["releases"] == 0


@pytest.mark.parametrize("words", [("ledger",), ("show",), ("adopt",), ("backup", "copy")])
def test_a_store_in_memory_is_no_store_for_a_command(sparsehist, here, words):
    """A store in memory would be gone when the command ends, so commands refuse it."""
    command, *rest = words
    assert sparsehist(command, ":memory:", *rest).code == 2
    assert list(here.iterdir()) == []


def test_check_tells_what_would_be_refused(sparsehist, log):
    """Exit code 2 where `create` would refuse the log, 0 where it would take it."""
    options = ("--unit", "user_id", "--key", "url", "--max-keys", 2, "--json")
    fits = sparsehist("check", log, *options, "--domain", "strings(max_bytes=8)")
    assert (fits.code, fits.json["refused"]) == (0, False)
    narrow = sparsehist("check", log, *options, "--domain", "strings(max_bytes=5)")
    assert (narrow.code, narrow.json["refused"]) == (2, True)
    assert any("pass --on-outside drop" in rule["outcome"] for rule in narrow.json["rules"])
    dropped = sparsehist("check", log, *options, "--domain", "strings(max_bytes=5)", "--on-outside", "drop")
    assert (dropped.code, dropped.json["refused"]) == (0, False)


def test_the_ledger_shows_the_finest_level(sparsehist, store):
    """After 0.1, 0.5 and 0.2 a path has cost 0.5, and dropping the series does not change that."""
    for name, level in (("a", "0.1"), ("b", "0.5"), ("c", "0.2")):
        assert sparsehist("release", store, "--series", "visits", "--name", name, "--level", level).code == 0
    (shown,) = sparsehist("show", store, "--json").json["series"]
    assert (shown["name"], shown["declaration"]["domain"]) == ("visits", "strings(max_bytes=8)")
    assert [(release["name"], release["level"]) for release in shown["releases"]] == [
        ("a", "0.1"), ("b", "0.5"), ("c", "0.2"),
    ]  # fmt: skip
    spent = sparsehist("ledger", store, "--json").json["ledger"]
    assert {(row["scope"], row["level"], row["releases"]) for row in spent} == {
        (scope, "0.5", 3) for scope in ("path", "series", "population", "everybody")
    }
    assert sparsehist("drop", store, "--series", "visits").code == 2  # nobody to ask
    assert sparsehist("drop", store, "--series", "visits", "--yes").code == 0
    assert sparsehist("show", store, "--json").json["series"] == []
    assert {row["level"] for row in sparsehist("ledger", store, "--json").json["ledger"]} == {"0.5"}
    assert "0.5" in sparsehist("ledger", store).out
    times = {row["last_release"] for row in spent} | {row["dropped"] for row in spent if row["dropped"]}
    assert times and all(datetime.fromisoformat(time).tzinfo for time in times)


def test_a_backup_serves_once_it_is_adopted(sparsehist, here, store):
    """A copy is refused while the original stands, and takes its place when that is gone."""
    sparsehist("release", store, *RELEASE, "--out", "first.parquet")
    assert sparsehist("backup", store, "copy").code == 0
    assert sparsehist("show", "copy").code == 2
    assert sparsehist("adopt", "copy").code == 2
    (here / store).rename(here / "moved-away")
    (here / "copy").rename(here / store)
    assert sparsehist("adopt", store, "--home-is-gone").code == 0
    assert sparsehist("release", store, *RELEASE, "--out", "second.parquet").code == 0
    assert sh.read("first.parquet").frame.equals(sh.read("second.parquet").frame)


def test_a_bound_is_chosen_and_stands_in_the_ledger(sparsehist, log):
    """The choice of Python, its price told, and for nothing when asked again; a budget without room refuses."""
    asked = ("--input", log, *"--unit user_id --key url --domain strings(max_bytes=8) --level 0.4".split())
    first = sparsehist("choose", "max-keys", "s", *asked, "--json").json
    assert first["bounding"] in ("keep", "share")
    assert first == sparsehist("choose", "max-keys", "s", *asked, "--json").json
    assert f"--max-keys {first['max_keys']}" in sparsehist("choose", "max-keys", "s", *asked).out
    assert sh.open("s").ledger(full=True).filter(scope="population")["level"].to_list() == ["0.4"]
    sparsehist("limit", "s", "--rho", "0.5")
    refused = sparsehist("choose", "max-keys", "s", *asked, "--name", "other", "--release-level", "0.1")
    assert refused.code == 3
    assert sh.open("s").series_names() == ["choice_keys", "choice_profile"]
