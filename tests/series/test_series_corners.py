"""Edge cases of series: given counts, stored catalogues, counts too large, families as instances, ties."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DataError, DeclarationError, DomainError
from sparsehist.noise import family_named
from tests.series.test_series import SECRET, a_log


def test_a_catalogue_from_a_file_is_kept_with_the_series(tmp_path: Path) -> None:
    """The series needs the file no more: also as a column of a product, also when it is long."""
    names = [f"/page/{i}" for i in range(3000)]
    (tmp_path / "pages.txt").write_text("\n".join(names))
    log = a_log().filter(~pl.col("key").str.starts_with(SECRET)).with_columns(day=pl.lit(1))
    domain = f"product(day=integers(3), key=catalogue(file='{tmp_path / 'pages.txt'}'))"
    series = sh.create(
        tmp_path / "store", log, name="visits", unit="user", key=["day", "key"], max_keys=3, domain=domain
    )
    first = series.release("one", level=1)
    (tmp_path / "pages.txt").unlink()
    opened = sh.open(tmp_path / "store").series("visits")
    assert opened.release("one").frame.equals(first.frame)
    assert opened.declaration.domain.size == 9000


def test_counts_that_do_not_fit_beside_their_noise_are_refused(tmp_path: Path) -> None:
    """A count of 2**53 would swallow the noise; nothing is written."""
    counts = pl.DataFrame({"key": ["a"], "count": [2**53 + 1]})
    with pytest.raises(DataError, match="17179869184"):
        sh.create(
            tmp_path / "store", sh.Counts(counts, largest=1), name="v", key="key", max_keys=1,
            domain=sh.Strings(max_bytes=4),
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_ties_are_ordered_by_key_whatever_the_columns_are_called() -> None:
    """Integer counts tie often; within a tie keys rise, over several columns and with any names."""
    log = pl.DataFrame(
        {"user": range(4000), "row": [i % 40 for i in range(4000)], "index": [i % 3 for i in range(4000)]}
    )
    series = sh.create(
        sh.open(":memory:", seed=2), log, name="v", unit="user", key=["row", "index"], max_keys=1,
        noise="discrete_laplace", domain=sh.Product(row=sh.Integers(40), index=sh.Integers(3)),
    )  # fmt: skip
    frame = series.release("all", level=3, threshold=-1e6).frame
    assert frame["noisy_count"].n_unique() < 60
    assert frame.equals(frame.sort(["noisy_count", "row", "index"], descending=[True, False, False]))


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_laplace", "poisson", "skellam"])
def test_whatever_may_be_declared_can_be_released(noise: str) -> None:
    """By name or as an instance, long strings too; what is too large is refused before the log is counted."""
    log = pl.DataFrame({"user": [1, 2], "query": ["a", "b"]})

    def declared(most: int, noise: object) -> sh.Series:
        domain = f"strings(max_bytes={most})"
        return sh.create(":memory:", log, name="v", unit="user", key="query", max_keys=1, domain=domain, noise=noise)

    for family in (noise, family_named(noise, 1)):
        series = declared(1000, family)
        assert series.declaration.noise == noise
        for name, level in (("coarse", "0.5"), ("fine", "0.7")):
            assert (series.release(name, level=level, false_keys=2).frame["query"].str.len_bytes() <= 1000).all()
    with pytest.raises(DomainError, match="hash64"):
        declared(4096, noise)
    for wrong in (3, "gauss", "exponential", sh.noise.Exponential(), sh.noise.Laplace(sensitivity=2.0)):
        with pytest.raises(DeclarationError, match="noise"):
            declared(9, wrong)
