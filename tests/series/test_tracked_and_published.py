"""The store keeps tracked cells that are not published, and nothing public depends on these cells."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.errors import ThresholdError
from tests.attacks.stand_in import Drawn
from tests.series.in_memory import over_counts

CELLS = 300
# At level 1/2, the noise of about one in 25 cells is below -1.75, so these cells are tracked but not published.
COUNT, THRESHOLD = 10, 8.25


def test_explicit_cells_are_tracked_and_only_what_exceeds_is_published() -> None:
    """A release publishes exactly those tracked cells whose noisy counts exceed its threshold."""
    series = Drawn(np.append(np.full(CELLS, COUNT), np.zeros(700, int)), 1, rng=entropy.seeded(5))
    first = series.release("first", "1/2", THRESHOLD)
    tracked = series.state.cells.position
    assert set(range(CELLS)) == {int(series.state.files.cells[at]) for at in tracked[tracked >= 0]}
    assert (first["noisy_count"] > THRESHOLD).all()
    hidden = set(range(CELLS)) - set(first["cell"])
    assert hidden
    second = series.release("second", "2", THRESHOLD)
    assert (second["noisy_count"] > THRESHOLD).all() and hidden & set(second["cell"])
    assert series.release("first").equals(first) and series.release("second").equals(second)


def test_empty_cells_that_are_all_drawn_have_keys_and_stay_out_of_sight() -> None:
    """If every empty cell of a small domain is tracked, releases still publish only cells above the threshold."""
    series = Drawn(np.append(np.full(20, 4), np.zeros(180, int)), 1, rng=entropy.seeded(6))
    low = series.release("low", "1/2", -1.8)
    assert series.state.cells.position.size == 200 > low.height
    high = series.release("high", "1", 3.0)
    assert series.state.cells.position.size == 200
    assert high.height < 40 and (high["noisy_count"] > 3.0).all()
    assert series.release("low").equals(low)


def test_public_views_count_what_is_published() -> None:
    """The number of tracked cells, which is secret, appears in no metadata, ledger or repr."""
    cells = 1637
    counts = pl.DataFrame({"cell": range(cells), "count": [COUNT] * cells})
    series = over_counts(counts, key="cell", domain=sh.Integers(10**6))
    release = series.release("first", level="1/2", threshold=THRESHOLD)
    rows = len(release)
    assert 0.9 * cells < rows < cells
    assert release.frame.height == release.intervals().height == rows
    random = {"store", "round", "released_at"}
    metadata = {key: value for key, value in release.metadata.items() if key not in random}
    ledger = series.store.ledger(full=True)
    ledger = ledger.select(column for column, dtype in ledger.schema.items() if dtype not in (pl.Datetime, pl.Date))
    shown = [json.dumps(metadata), repr(release), repr(series), repr(series.store), ledger.write_csv()]
    assert not any(str(cells) in text for text in shown)


def test_a_domain_too_large_to_be_drawn_as_a_whole_is_refused_by_public_numbers() -> None:
    """A threshold so low that all cells would be tracked is refused. The message does not depend on the log."""
    outcomes = []
    for count in (0, 50):
        counts = pl.DataFrame({"cell": [3], "count": [count + 1]})
        series = over_counts(counts, seed=8, key="cell", domain=sh.Integers(1000))
        for i, level in enumerate(("1/2", "1/4", "1", "1/8")):
            series.release(f"r{i}", level=level, threshold=0.0, max_false_keys=600)
        with pytest.raises(ThresholdError, match="have to draw all") as refusal:
            series.release("r4", level="2", threshold=0.0, max_false_keys=600)
        outcomes.append(str(refusal.value))
        enough = float(outcomes[-1].rsplit("threshold of ", 1)[1].split(" ")[0])
        series.release("r4", level="2", threshold=enough, max_false_keys=600)
    assert outcomes[0] == outcomes[1]
