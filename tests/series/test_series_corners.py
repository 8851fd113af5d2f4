"""Corners of the main job: counts given, catalogues kept, counts too large, families brought, ties."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DataError, DeclarationError, DomainError
from tests.series.test_series import SECRET, a_log, a_series


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
            tmp_path / "store",
            sh.Counts(counts, largest=1),
            name="v",
            key="key",
            max_keys=1,
            domain=sh.Strings(max_bytes=4),
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("noise", "stored"),
    [
        ("laplace", "laplace"),
        (sh.noise.Laplace(sensitivity=2.0), "laplace"),
        (sh.noise.Gaussian(sensitivity=2**0.5), "gaussian"),
        (sh.noise.DiscreteLaplace(sensitivity=2), "discrete_laplace"),
        (sh.noise.Skellam(sensitivity=2), "skellam"),
    ],
)
def test_noise_is_a_name_or_an_instance(noise: object, stored: str) -> None:
    """What is stored is the name; the family has the sensitivity that two keys imply."""
    declaration = a_series(noise=noise, max_keys=2).declaration
    assert declaration.noise == stored
    assert declaration.family == (noise if not isinstance(noise, str | type) else declaration.family)
    assert sh.plan("0.1", d=10_000, max_keys=2, noise=noise).noise == stored


@pytest.mark.parametrize(
    ("noise", "why"),
    [
        (3, "got 3"),
        ("no.such:Family", "must be one of"),
        (sh.noise.Exponential(), "got an Exponential"),
        (sh.noise.Gaussian, "got "),
        (sh.noise.Laplace(sensitivity=1.0), "max_keys=2, which need Laplace"),
        ("exponential", "no privacy guarantee"),
        ("gauss", "must be one of 'gaussian'"),
    ],
)
def test_errors_say_what_is_wrong_with_a_family(noise: object, why: str) -> None:
    """That there is no such family, that it is none for histograms, or has another sensitivity."""
    with pytest.raises(DeclarationError, match=why):
        a_series(noise=noise, max_keys=2)


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
    """Long strings are released twice; what is too large is refused before the log is counted."""
    log = pl.DataFrame({"user": [1, 2], "query": ["a", "b"]})

    def declared(most: int) -> sh.Series:
        domain = f"strings(max_bytes={most})"
        return sh.create(":memory:", log, name="v", unit="user", key="query", max_keys=1, domain=domain, noise=noise)

    for most in (125, 126, 1000):
        series = declared(most)
        for name, level in (("coarse", "0.5"), ("fine", "0.7")):
            release = series.release(name, level=level, false_keys=2)
            assert (release.frame["query"].str.len_bytes() <= most).all()
    with pytest.raises(DomainError, match="hash64"):
        declared(4096)
