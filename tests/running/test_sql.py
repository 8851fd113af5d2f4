"""RELEASE … AT STEP, PLAN … AT STEP and SHOW for series whose log goes on."""

from __future__ import annotations

import pytest

import sparsehist as sh
from sparsehist.errors import SparsehistError
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session
from tests.running.logs import frame, started

DAYS = [[(f"u{i}", i % 5) for i in range(900)], [(f"v{i}", 7) for i in range(700)]]


def test_running_counts_are_released_and_read_in_sql() -> None:
    """At a step and a level, any step that was appended, as tables of the session; `store.sql` is the same."""
    store = started(DAYS, domain=sh.Integers(10)).store
    done = sh.sql(
        """
        release second from log at step 2 at level 0.5;
        release first from log at level 0.2 at step 1 threshold 40;
        select noisy_count from log.second where key = 7;
        show series;
        """,
        store=store,
    )
    frames = [outcome.frame for outcome in done.outcomes]
    assert abs(frames[2]["noisy_count"].item() - 700) < 30
    assert frames[3].select("name", "steps").rows() == [("log", 5)]
    assert sh.open_running(store, "log").release("first").metadata["step"] == 1
    assert sh.sql("release first from log", store=store).outcomes[0].release.repeated


def test_a_plan_and_a_dry_run_know_steps() -> None:
    """A plan of a day to come, and what a script would spend: all steps cost the finest level once."""
    store = started(DAYS, domain=sh.Integers(10)).store
    planned = sh.sql("plan release from log at step 5 at level 0.1, 0.3", store=store).outcomes[0].frame
    assert planned["level"].to_list() == ["0.1", "0.3"]
    script = "release a from log at step 1 at level 0.3; release b from log at step 2 at level 0.2;"
    with Session(store) as session:
        said = [outcome.said for outcome in run_script(session, script, dry_run=True)]
    assert "rho 0.3 after" in said[0] and "rho 0.3 before, rho 0.3 after" in said[1]
    assert store.ledger()["level"].null_count() == store.ledger().height


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("release a from log at level 0.1", "step="),
        ("release a from log at step 4 at level 0.1", "not appended"),
        ("release a from log at step 1.5 at level 0.1", "whole number"),
        ("release a from log at step 9 at level 0.1", "from 1 to 5"),
        ("release a from plain at step 1 at level 0.1", "running series"),
        ("plan release from log at level 0.1", "AT STEP"),
    ],
)
def test_steps_that_do_not_fit_are_refused(script: str, told: str) -> None:
    """Where a step is missing, is none, or belongs to a series that has none."""
    store = started(DAYS, domain=sh.Integers(10)).store
    sh.create(store, frame(DAYS[0]), name="plain", unit="user", key="key", max_keys=1, domain=sh.Integers(10))
    with pytest.raises(SparsehistError, match=told):
        sh.sql(script, store=store)
