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


def test_columns_go_from_coarse_to_fine():
    """Levels are compared as numbers, however they are written."""
    assert [release.name for release in coarse_to_fine(RELEASES)] == ["coarse", "middle", "fine"]


def test_rows_are_joined_by_key_and_sorted_by_the_finest_count():
    """Every key published anywhere has one row; what was not published is null."""
    assert side_by_side(RELEASES).rows() == [
        ("/false", 29.0, None, None),
        ("/a", None, 9.0, 10.0),
        ("/b", 30.0, 6.0, 5.0),
        ("/c", None, None, 2.0),
    ]


def test_a_key_of_several_columns_is_joined_by_all_of_them():
    """Rows that agree in one of two columns stay apart."""
    one = pl.DataFrame({"a": ["x", "x"], "b": [1, 2], "noisy_count": [5.0, 4.0]})
    two = pl.DataFrame({"a": ["x"], "b": [2], "noisy_count": [4.5]})
    joined = side_by_side([Release(one, {"name": "p", "level": "1"}), Release(two, {"name": "q", "level": "2"})])
    assert joined.rows() == [("x", 1, 5.0, None), ("x", 2, 4.0, 4.5)]


def test_progress_names_each_phase_once_it_is_over(capsys):
    """On request phases go to stderr, in order; stdout stays clean."""
    with reporting(progress=True) as tell:
        tell("reading")
        tell("counting")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.index("reading") < err.index("counting")
