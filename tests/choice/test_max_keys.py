"""Tests that `choose_max_keys` chooses a nearly optimal value of `max_keys` and is charged once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.entropy import seeded
from sparsehist.errors import NameTakenError, NotFoundError
from sparsehist.series.max_keys import BOUNDS, _profile

DOMAIN = sh.Integers(50_000)
LARGEST = 200


def heavy_log(units: int = 20_000, seed: int = 1) -> pl.DataFrame:
    """Return a log with a Pareto-distributed number of keys per privacy unit and a few very frequent keys."""
    rng = seeded(seed)
    rows = np.minimum((rng.random(units) ** -1.0 * 3), 5000).astype(np.int64)
    keys = np.minimum(rng.random(int(rows.sum())) ** -1.4, 50_000).astype(np.int64) - 1
    return pl.DataFrame({"unit": np.repeat(np.arange(units), rows), "key": keys}).unique(maintain_order=True)


def error_in_hindsight(log: pl.DataFrame, max_keys: int, bounding: str, level: float = 0.1) -> float:
    """Return the root mean square error of the noisy counts of the largest keys, due to noise and bounding bias."""
    sizes = log.with_columns(keys=pl.len().over("unit"), units=pl.len().over("key"))
    power = 1.0 if bounding == "keep" else 0.5
    lost = (
        sizes.group_by("key")
        .agg(units=pl.first("units"), bias=(1 - pl.min_horizontal(1.0, (max_keys / pl.col("keys")) ** power)).sum())
        .sort("units", descending=True)
        .head(LARGEST)
    )
    return float(np.sqrt(np.mean(lost["bias"].to_numpy() ** 2) + max_keys / (2 * level)))


def spent(store: sh.Store) -> list[str]:
    """Return the levels that the ledger of a store shows for its series, as a sorted list of strings."""
    return sorted(store.ledger(full=True).filter(scope="series")["level"].to_list())


def page_visits() -> pl.DataFrame:
    """Return the page visits in `data/msweb_1998.csv`, with pages numbered from 0."""
    log = pl.read_csv(Path(__file__).parents[2] / "data" / "msweb_1998.csv")
    return log.select(unit="user_id", key=pl.col("url").rank("dense").cast(pl.Int64) - 1).unique(maintain_order=True)


@pytest.mark.parametrize(
    ("log", "domain", "guess"),
    [(heavy_log, DOMAIN, (5, "keep")), (page_visits, sh.Integers(294), (107, "keep"))],
    ids=["heavy tail", "page visits"],
)
def test_the_choice_is_within_a_tenth_of_the_best_one(log, domain, guess):
    """The `max_keys` that `choose_max_keys` chooses gives counts a mean error within 10 % of the smallest error.

    The mean is over choices with twelve seeds. A badly guessed `max_keys` has an error that is more than 50 % above
    the smallest error.
    """
    log, runs = log(), 12
    errors = {(bound, way): error_in_hindsight(log, bound, way) for bound in BOUNDS for way in ("keep", "share")}
    best, found = min(errors.values()), []
    for seed in range(runs):
        choice = sh.choose_max_keys(
            sh.open(":memory:", seed=seed), log, unit="unit", key="key", domain=domain, largest_keys=LARGEST,
        )  # fmt: skip
        found.append(errors[choice.max_keys, choice.bounding] / best)
        assert choice.estimates.height == 2 * len(BOUNDS)
    assert np.mean(found) <= 1.1
    assert max(found) <= 1.3
    assert errors[guess] > 1.5 * best


def test_it_is_paid_once_and_later_releases_add_to_it(tmp_path: Path):
    """Repeating `choose_max_keys` costs nothing, and its cost and those of later releases add up in the ledger."""
    log = heavy_log(4000)
    asked = {"unit": "unit", "key": "key", "domain": DOMAIN, "largest_keys": 50, "level": "0.5"}
    store = sh.Store(tmp_path / "s")
    first = sh.choose_max_keys(store, log, **asked)
    again = sh.choose_max_keys(store, log, **asked)
    assert again.estimates.equals(first.estimates)
    assert (again.max_keys, again.bounding) == (first.max_keys, first.bounding)
    with pytest.raises(NameTakenError, match="another name for a release with other parameters"):
        sh.choose_max_keys(store, log, **asked | {"level": "0.6"})
    assert sorted(store.series_names()) == ["choice_keys", "choice_profile"]
    assert spent(store) == ["0.125", "0.375"]
    series = sh.create(
        store, log, name="s", unit="unit", key="key", domain=DOMAIN, max_keys=first.max_keys, bounding=first.bounding,
    )  # fmt: skip
    series.release("r", level="0.1")
    assert spent(store) == ["0.1", "0.125", "0.375"]
    assert store.ledger(full=True).filter(scope="population")["level"].to_list() == ["0.6"]


@pytest.mark.parametrize("seed", range(3))
def test_one_unit_changes_the_table_of_classes_in_one_cell_by_one(seed):
    """In the table that counts units by their number of keys, removing a unit lowers at most one entry, by 1."""
    rng = seeded(seed)
    log = pl.DataFrame({"unit": rng.integers(0, 30, 300), "key": rng.integers(0, 40, 300)})
    first = Declaration(name="s", unit="unit", key="key", max_keys=5, domain=sh.Integers(40))
    largest = pl.DataFrame({"key": rng.permutation(40)[:10]})
    store = sh.open(":memory:")

    def table(rows: pl.DataFrame) -> dict[tuple[int, int], int]:
        counts = _profile(store, rows, first, largest, sh.Counting())
        return {(keys, among): units for keys, among, units in counts.iter_rows()}

    whole = table(log)
    for unit in log["unit"].unique():
        less = table(log.filter(pl.col("unit") != unit))
        changed = {cell: units - less[cell] for cell, units in whole.items()}
        assert sum(map(abs, changed.values())) <= 1
        assert min(changed.values()) >= 0


@pytest.mark.parametrize("bounding", ["keep", "share"])
def test_the_ledger_has_what_the_worst_unit_loses(tmp_path, bounding):
    """The total cost in the ledger equals the zCDP cost for the worst unit among units with 1 to 1,000 keys."""
    log = heavy_log(4000)
    store = sh.Store(tmp_path / "s")
    keyed = {"unit": "unit", "key": "key", "domain": DOMAIN}
    sh.choose_max_keys(store, log, **keyed, level="0.5", largest_keys=50)
    later = sh.create(store, log, name="s", max_keys=30, bounding=bounding, **keyed).release("r", level="0.1")
    shown, table = store.series("choice_keys").release("largest"), store.series("choice_profile").release("profile")

    def rho(keys: int) -> float:
        """Return the zCDP cost of all releases for a privacy unit with the given number of keys."""
        shares = [math.floor(64 * math.sqrt(min(1, bound / min(keys, 64 * bound)))) / 64 for bound in (5, 30)]
        first = min(keys, 320) * shares[0] ** 2 / shown.metadata["std"] ** 2
        last = min(keys, 30) if bounding == "keep" else min(keys, 1920) * shares[1] ** 2
        return (first + 1 / table.metadata["std"] ** 2 + last / later.metadata["std"] ** 2) / 2

    told = float(store.ledger(full=True).filter(scope="population")["level"].item())
    assert max(map(rho, range(1, 1001))) == pytest.approx(told, rel=1e-9)


def test_a_level_at_which_noise_speaks_alone_is_refused():
    """`choose_max_keys` fails if its level is so small that all keys that it finds could be false keys."""
    log = pl.DataFrame({"unit": [i // 2 for i in range(6000)], "key": [i % 2 for i in range(6000)]})
    asked = {"unit": "unit", "key": "key", "domain": "strings(max_bytes=32)"}
    log = log.with_columns(pl.col("key").replace_strict({0: "a", 1: "b"}))
    for seed in range(10):
        with pytest.raises(NotFoundError, match="noise alone"):
            sh.choose_max_keys(sh.open(":memory:", seed=seed), log, **asked, level="1e-5", release_level="0.1")
        assert sh.choose_max_keys(sh.open(":memory:", seed=seed), log, **asked, level="0.01").max_keys <= 4
