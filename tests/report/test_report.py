"""What people look at: releases side by side, the progress of long work."""

import polars as pl

from sparsehist.counting.progress import reporting
from sparsehist.release.releases import Release
from sparsehist.report.side_by_side import coarse_to_fine, side_by_side


def _release(name, level, counts):
    keys = {"url": list(counts), "noisy_count": list(counts.values())}
    frame = pl.DataFrame(keys, schema={"url": pl.String, "noisy_count": pl.Float64})
    return Release(frame, {"name": name, "level": level, "threshold": 1.0})


RELEASES = [
    _release("fine", "1/2", {"/a": 10.0, "/b": 5.0, "/c": 2.0}),
    _release("coarse", "1e-2", {"/b": 30.0, "/false": 29.0}),
    _release("middle", "0.1", {"/b": 6.0, "/a": 9.0}),
]


def test_releases_stand_side_by_side():
    """From coarse to fine by exact level; a row for every key published anywhere, by the finest count; else null."""
    assert [release.name for release in coarse_to_fine(RELEASES)] == ["coarse", "middle", "fine"]
    assert side_by_side(RELEASES, ["url"]).rows() == [
        ("/false", 29.0, None, None),
        ("/a", None, 9.0, 10.0),
        ("/b", 30.0, 6.0, 5.0),
        ("/c", None, None, 2.0),
    ]
    two = pl.DataFrame({"a": ["x", "x"], "b": [1, 2], "noisy_count": [5.0, 4.0]})
    joined = side_by_side([Release(two, {"name": "p", "level": "1"})], ["a", "b"])
    assert joined.rows() == [("x", 1, 5.0), ("x", 2, 4.0)]


def test_progress_names_each_phase_as_it_begins(capsys):
    """On request phases go to stderr, in order; stdout stays clean."""
    with reporting(progress=True) as tell:
        tell("reading")
        tell("counting")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.index("reading") < err.index("counting")
