"""The command that plans."""

from __future__ import annotations

import pytest


def test_plan_without_a_store(sparsehist):
    """Levels and true counts are shown in tables, and as JSON."""
    shown = sparsehist("plan", "--cells", "1e69", "--max-keys", "20", "--level", "0.01", "--level", "0.5")
    assert shown.code == 0 and "rho 0.01" in shown.out and "95 %" in shown.out
    told = sparsehist("plan", "--cells", "1e9", "--max-keys", "2", "--level", "1/3", "--json").json
    assert [row["level"] for row in told["levels"]] == ["1/3"]
    assert {"probability", "relative_error", "count"} <= set(told["counts"][0])


@pytest.mark.parametrize(
    "words",
    [
        ("--cells", "many", "--max-keys", "2"),
        ("--cells", "1e99999999", "--max-keys", "2"),
        ("--cells", "1.5", "--max-keys", "2"),
        ("--cells", "100"),
        ("--max-keys", "2"),
        ("--series", "visits"),
        ("--cells", "100", "--max-keys", "2", "--plot", "plan.jpg"),
        ("--cells", "100", "--max-keys", "2", "--plot", "nowhere/plan.svg"),
    ],
)
def test_what_cannot_be_planned_exits_with_2(sparsehist, words):
    """Bad input to plan is refused in one line."""
    done = sparsehist("plan", *words)
    assert done.code == 2 and "error" in done.err


def test_plan_of_a_series_follows_its_releases(sparsehist, store):
    """A series is planned after what was released from it, and a cap says what it would refuse."""
    assert sparsehist("release", store, "--series", "visits", "--name", "public", "--level", "0.5").code == 0
    done = sparsehist("plan", store, "--series", "visits", "--level", "0.1", "--level", "2", "--json")
    assert [row["adds"] for row in done.json["levels"]] == ["0", "1.5"]
    assert "cap" in done.json["levels"][1]["refused"]
    assert sparsehist("plan", store, "--series", "visits", "--max-keys", "2").code == 2
