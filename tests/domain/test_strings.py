from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.domain import Domain, Strings
from sparsehist.entropy import seeded

SCALAR_VALUES = [chr(point) for point in itertools.chain(range(0xD800), range(0xE000, 0x110000))]
MIXED = "aé€😀z"  # characters of 1, 2, 3, 4 and 1 bytes in UTF-8


def listed(alphabet, longest, measure):
    """Return all nonempty strings over an alphabet for which `measure`, such as len, is at most `longest`."""
    candidates = ("".join(some) for m in range(1, longest + 1) for some in itertools.product(alphabet, repeat=m))
    return [text for text in candidates if measure(text) <= longest]


def utf8_bytes(text):
    """Return the number of UTF-8 bytes of a string."""
    return len(text.encode())


def frame(values):
    """Return a frame of string keys."""
    return pl.DataFrame({"key_0": pl.Series(values, dtype=pl.String)})


def named(value):
    """Return the id of a test parameter: the text of a string domain, or "cells" for a list of its cells."""
    return str(value).encode("ascii", "backslashreplace").decode() if isinstance(value, Strings) else "cells"


SMALL = [
    (Strings(max_bytes=6, alphabet=MIXED), listed(MIXED, 6, utf8_bytes)),
    (Strings(max_bytes=3, alphabet="digits"), listed("0123456789", 3, len)),
    (Strings(max_chars=3, alphabet=MIXED), listed(MIXED, 3, len)),
    (Strings(max_chars=7, alphabet="x"), listed("x", 7, len)),
    (Strings(max_bytes=5, alphabet="😀"), ["😀"]),
]


def test_sizes_of_all_unicode_match_pythons_own_utf8():
    """The number of strings of at most 2 bytes or characters agrees with a count that uses Python's UTF-8 encoder."""
    one, two = (sum(utf8_bytes(c) == width for c in SCALAR_VALUES) for width in (1, 2))
    assert Strings(max_bytes=1).size == one == 128
    assert Strings(max_bytes=2).size == one + one * one + two
    assert Strings(max_chars=1).size == len(SCALAR_VALUES) == 1_112_064
    assert Strings(max_chars=2).size == 1_112_064 + 1_112_064**2


@pytest.mark.parametrize(("domain", "cells"), SMALL, ids=named)
def test_cells_are_those_listed_by_brute_force(domain, cells):
    """The cells of a small string domain are the strings that brute force finds, each with a number of its own."""
    keys = domain.keys(np.arange(domain.size))
    assert domain.size == len(cells)
    assert sorted(keys["key_0"].to_list()) == sorted(cells)
    assert domain.contains(keys).all()
    assert domain.index(keys).tolist() == list(range(domain.size))


def test_membership():
    """Empty strings, strings of too many bytes or characters, and strings outside the alphabet are not members."""
    keys = frame(["", "a", "é", "éé", "ab", "abc", "€", "b\x00", "😀"])
    assert Strings(max_bytes=2).contains(keys).tolist() == [0, 1, 1, 0, 1, 0, 0, 1, 0]
    assert Strings(max_chars=2).contains(keys).tolist() == [0, 1, 1, 1, 1, 0, 1, 1, 1]
    assert Strings(max_bytes=3, alphabet="abé").contains(keys).tolist() == [0, 1, 1, 0, 1, 0, 0, 0, 0]
    assert Strings(max_chars=9, alphabet="ascii").contains(keys).tolist() == [0, 1, 0, 0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize(
    "domain",
    [
        Strings(max_bytes=8),
        Strings(max_chars=3),
        Strings(max_chars=62, alphabet="ab"),
        Strings(max_bytes=300, alphabet="x"),
    ],
    ids=named,
)
def test_index_and_keys_are_inverse_on_large_domains(domain):
    """Converting cell numbers to strings and back gives the original numbers, even just below 2**63."""
    inner = seeded(8).integers(0, domain.size, 5000)
    numbers = np.concatenate([[0, domain.size - 1], inner])
    keys = domain.keys(numbers)
    assert domain.contains(keys).all()
    assert np.array_equal(domain.index(keys), numbers)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).map(lambda t: "".join(set(t))))
def test_any_alphabet_round_trips(alphabet):
    """The text of a string domain over any alphabet reads back as an equal domain with an equal hash."""
    domain = Strings(max_chars=3, alphabet=alphabet)
    again = Domain.parse(str(domain))
    assert again == domain and hash(again) == hash(domain)
    assert again.size == len(alphabet) + len(alphabet) ** 2 + len(alphabet) ** 3
