"""Releases side by side, and the progress of long work."""

import polars as pl

from sparsehist.release.releases import Release
from sparsehist.report.side_by_side import side_by_side


def test_releases_stand_side_by_side():
    """Columns go from coarse to fine by exact level, and rows by the finest count of each key."""
    counts = {
        "fine": {"/a": 10.0, "/b": 5.0},
        "coarse": {"/b": 30.0, "/false": 29.0},
        "middle": {"/b": 6.0, "/a": 9.0},
    }
    levels = {"fine": "1/2", "coarse": "1e-2", "middle": "0.1"}
    releases = [
        Release(
            pl.DataFrame({"url": list(keys), "noisy_count": list(keys.values())}), {"name": n, "level": levels[n]}
        )
        for n, keys in counts.items()
    ]
    joined = side_by_side(releases, ["url"])
    assert joined.columns == ["url", "coarse", "middle", "fine"]
    assert joined.rows() == [("/false", 29.0, None, None), ("/a", None, 9.0, 10.0), ("/b", 30.0, 6.0, 5.0)]
