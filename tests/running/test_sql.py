"""Tests of the SQL statements for running series: CREATE SERIES with steps, APPEND TO, RELEASE and PLAN."""

from __future__ import annotations

import sparsehist as sh
from tests.running.logs import counts, frame

DAYS = [[(f"u{i}", i % 5) for i in range(900)], [(f"v{i}", 7) for i in range(700)]]


DECLARED = "with (unit = user, key = key, max_keys = 2, domain = 'integers(10)', cap = 1, steps = 5)"
TABLES = {f"day_{i}": frame(rows) for i, rows in enumerate(DAYS, 1)}


def test_a_running_series_is_declared_and_appended_to_in_sql(tmp_path) -> None:
    """An SQL script that declares a running series, appends steps and releases counts can be run again."""
    script = f"""
        create series if not exists log {DECLARED};
        append to log step 1 as select user, key from day_1;
        append to log step 2 as select user, key from day_2 where key = $key;
        release second from log at step 2 at level 0.5;
        select noisy_count from log.second where key = 7;
        show series;
    """
    for again in (False, True):
        done = sh.sql(script, store=tmp_path / "store", tables=TABLES, parameters={"key": 7})
        said = [outcome.message for outcome in done.outcomes]
        assert said[0] == f"{'kept' if again else 'created'} the series log"
        assert ("appended with this log before" in said[2]) == again
        assert done.outcomes[3].release.repeated == again
        assert abs(done.outcomes[4].frame["noisy_count"].item() - 700) < 30
        assert done.outcomes[5].frame.select("name", "steps").rows() == [("log", "steps(5)")]
    series = sh.open(tmp_path / "store").series("log")
    assert (series.appended(), series.declaration.n_steps) == (2, 5)
    assert counts(series, 5, 10)[1].tolist() == [180] * 5 + [0, 0, 700, 0, 0]


def test_a_release_rests_on_a_checked_query_only_if_all_steps_do() -> None:
    """A release states that its source is a checked query only if all steps up to it come from checked queries."""
    with sh.open(":memory:", seed=1) as store:
        sh.sql(f"create series log {DECLARED}; append to log step 1 as from day_1", store=store, tables=TABLES)
        series = store.series("log")
        sources = []
        for name, step in (("first", 1), ("second", 2), ("again", 1)):
            release = series.release(name, step=step, level="0.1").metadata
            sources.append(release["declaration"]["source"])
            assert ("it assumes" in release["guarantee"]) == (sources[-1] == "unchecked source")
            ledger = set(store.ledger(full=True)["source"].drop_nulls())
            assert ledger == {"checked query" if step == 1 and name == "first" else "unchecked source"}
            if name == "first":
                series.append(TABLES["day_2"], step=2)
        assert sources == ["checked query", "unchecked source", "checked query"]
