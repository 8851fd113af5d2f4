"""The demonstration: three releases of a real log, out of order, for the cost of the finest."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli import demonstration


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run it once, as a user would, with its output piped."""
    home = tmp_path_factory.mktemp("demo")
    words = [sys.executable, "-m", "sparsehist", "demo"]
    ran = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return home, ran.stdout


def test_it_leaves_three_releases_that_need_no_store(demo):
    """The files hold the levels that were announced, and finer ones publish more."""
    home, _ = demo
    releases = {name: sh.read(home / ".demo" / f"{name}.parquet") for name, _ in demonstration.RELEASES}
    assert {name: release.metadata["level"] for name, release in releases.items()} == dict(demonstration.RELEASES)
    assert len(releases["public"]) < len(releases["internal"]) < len(releases["partner"])


def test_the_ledger_of_its_store_shows_the_finest_level_alone(demo):
    """0.01, 0.5 and 0.1 cost 0.5 together."""
    home, printed = demo
    with sh.open(home / ".demo" / "store") as store:
        assert set(store.ledger(full=True)["level"]) == {"0.5"}
        known = store.series("visits").release("public")
    assert known.frame.equals(sh.read(home / ".demo" / "public.parquet").frame)
    assert "Together they cost ρ = 0.5" in printed


def test_the_printed_counts_are_the_published_ones(demo):
    """The first row of the table is the largest row of each file, and the rows published are counted right."""
    home, printed = demo
    by_level = [sh.read(home / ".demo" / f"{name}.parquet") for name in ("public", "internal", "partner")]
    top = by_level[-1].frame.row(0, named=True)
    line = next(line for line in printed.splitlines() if f" {top['url']} " in line)
    counts = [release.frame.filter(pl.col("url") == top["url"])["noisy_count"].item() for release in by_level]
    assert line.split()[-3:] == [f"{count:,.1f}" for count in counts]
    published = {words[0]: words[2] for line in printed.splitlines() if len(words := line.split()) == 7}
    assert {release.name: published[release.name] for release in by_level} == {
        release.name: str(len(release)) for release in by_level
    }


def test_a_demo_is_replaced_and_nothing_else_is(sparsehist, here, monkeypatch):
    """A second run clears the first one's files only; a directory that is no demo is refused."""
    monkeypatch.setattr(sh, "create", lambda *_, **__: pytest.fail("went on"))
    Path("mine").mkdir()
    Path("mine/public.parquet").write_text("mine", encoding="utf-8")
    refused = sparsehist("demo", "--dir", "mine")
    assert (refused.code, Path("mine/public.parquet").read_text(encoding="utf-8")) == (2, "mine")
    demonstration._prepare(Path("demo"))
    Path("demo/public.parquet").write_text("old", encoding="utf-8")
    Path("demo/notes.txt").write_text("mine", encoding="utf-8")
    demonstration._prepare(Path("demo"))
    assert not Path("demo/public.parquet").exists()
    assert Path("demo/notes.txt").read_text(encoding="utf-8") == "mine"
