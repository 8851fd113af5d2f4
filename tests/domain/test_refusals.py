"""Tests that errors about invalid domains, catalogues and cells name the wrong value or a valid form."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsehist.domain import Catalogue, Dates, Domain, Hash64, Integers, Product, Strings, draw_free
from sparsehist.entropy import seeded
from sparsehist.errors import DomainError, InputError, LawError


def parsed(text):
    """Return a function that parses the text of a domain."""
    return lambda: Domain.parse(text)


BAD = [
    (lambda: Integers(0), r"integers\(0\) contains no integers"),
    (lambda: Integers(-(10**5000)), "over 60 digits"),
    (lambda: Dates("2014-05-12", "2014-05-01"), "first day must not be after the last"),
    (lambda: Product({str(i): Strings(max_bytes=1500) for i in range(2)}), r"at most 10\*\*4000 .* hash64"),
    (lambda: Strings(max_bytes=4096), r"at most 10\*\*4000 cells"),
    (lambda: Strings(max_bytes=3, alphabet="aba"), "'a' twice"),
    (lambda: Strings(max_bytes=1800).index(pl.DataFrame({"key_0": ["a"]})), r"this domain has 2\*\*63 cells or more"),
    (lambda: Hash64.of(pl.Series([1])), "hashes strings: .* dtype Int64"),
    (lambda: Catalogue([]), "empty: it needs at least one value"),
    (lambda: Catalogue(["a", "b", "a"]), "must not occur twice in a catalogue: 'a'"),
    (lambda: Catalogue(["a", None]), "nulls .* at position 1"),
    (lambda: Catalogue([2**64]), "must fit in 64 bits"),
    (lambda: Catalogue(["2014-13-01"], kind="date"), "cannot be read as kind 'date': '2014-13-01'"),
    (parsed("strings(max_bytes=32"), "cannot read the domain"),
    (parsed("urls(max_bytes=32)"), "there is no domain 'urls'; write one of"),
    (parsed("catalogue('a' 'b')"), "side by side; put a comma"),
    (parsed("(" * 5000), "cannot read the domain"),
    (parsed("integers(0x1" + "0" * 5000 + ")"), "over 60 digits"),
    (parsed("catalogue('" + "a" * 5000 + "', '" + "a" * 5000 + "')"), "must not occur twice"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=range(len(BAD)))
def test_what_is_no_domain_is_refused(make, message):
    """Errors about invalid domains are short and quote the invalid part, which is public."""
    with pytest.raises(DomainError, match=message) as refused:
        make()
    assert len(str(refused.value)) < 700


def test_files_that_hold_no_catalogue_are_refused(tmp_path):
    """If a catalogue file is missing or invalid or cannot be written, the error says what is wrong."""
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    (tmp_path / "blank.txt").write_text("a\n\nb\n")
    for name, column, message in (
        ("two.csv", None, r"columns \['a', 'b'\]; say which"),
        ("blank.txt", None, "empty strings .* at position 1"),
        ("missing.csv", None, "there is no catalogue file"),
    ):
        with pytest.raises(DomainError, match=message):
            Catalogue(file=tmp_path / name, column=column)
    with pytest.raises(InputError, match="cannot write a catalogue copy"):
        Catalogue(["a"]).write_parquet(tmp_path / "missing" / "copy.parquet")


@pytest.mark.parametrize(("n", "n_taken", "message"), [(7, 4, "fewer free cells"), (2, 6, "does not match")])
def test_more_than_the_free_cells_is_an_internal_error(n, n_taken, message):
    """Drawing more free cells than exist, or giving a wrong number of taken cells, raises an internal error."""
    domain = Integers(10)
    with pytest.raises(LawError, match=message):
        draw_free(
            domain,
            n,
            n_taken=n_taken,
            taken=lambda keys: np.isin(domain.index(keys), range(4)),
            taken_keys=lambda: domain.keys(np.arange(4)),
            rng=seeded(1),
        )
