"""The demo makes three releases of a real log, which together cost as much as the finest release alone."""

import subprocess
import sys
from pathlib import Path

import polars as pl

import sparsehist as sh
from sparsehist.cli import demonstration


def test_the_demo_prints_what_it_publishes(here):
    """The demo prints what its files and ledger contain. Its releases cost only as much as the finest of them."""
    words = [sys.executable, "-m", "sparsehist", "demo"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    releases = {name: sh.read(here / ".demo" / f"{name}.parquet") for name, _ in demonstration.RELEASES}
    assert {name: release.metadata["level"] for name, release in releases.items()} == dict(demonstration.RELEASES)
    assert len(releases["public"]) < len(releases["internal"]) < len(releases["partner"])
    with sh.open(here / ".demo" / "store") as store:
        assert set(store.ledger(full=True)["level"]) == {"0.5"}
        assert store.series("visits").release("public").frame.equals(releases["public"].frame)
    assert "Together they cost ρ = 0.5" in ran.stdout
    top = releases["partner"].frame["url"][0]
    line = next(line for line in ran.stdout.splitlines() if f" {top} " in line)
    by_level = [releases[name].frame for name in ("public", "internal", "partner")]
    counts = [frame.filter(pl.col("url") == top)["noisy_count"].item() for frame in by_level]
    assert line.split()[-3:] == [f"{count:,.1f}" for count in counts]


def test_a_demo_replaces_nothing(sparsehist, here):
    """The demo refuses to run in a directory that already exists, and changes nothing in that directory."""
    Path("mine").mkdir()
    assert sparsehist("demo --dir mine").code == 2
    assert list(Path("mine").iterdir()) == []
