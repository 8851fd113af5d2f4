from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparsehist.domain import Catalogue, Dates, Domain, Hash64, Integers, Product, Strings
from sparsehist.errors import DomainError

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
COMPONENTS = st.one_of(
    st.integers(1, 10**6).map(Integers),
    st.tuples(st.integers(-(2**63), -1), st.integers(0, 2**63 - 1)).map(lambda bounds: Integers(*bounds)),
    st.lists(ANY_TEXT, min_size=1, max_size=4, unique=True).map(Catalogue),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4, unique=True).map(Catalogue),
    st.lists(st.booleans(), min_size=1, max_size=2, unique=True).map(Catalogue),
    st.lists(st.dates(), min_size=1, max_size=4, unique=True).map(Catalogue),
    st.lists(st.dates(), min_size=2, max_size=2).map(lambda days: Dates(min(days), max(days))),
    st.integers(1, 40).map(lambda bound: Strings(max_bytes=bound)),
    st.just(Hash64()),
)


@given(st.dictionaries(ANY_TEXT, COMPONENTS, min_size=1, max_size=4))
def test_every_product_round_trips(components):
    """The text of a product of any domains, with any column names, reads back as an equal product."""
    domain = Product(components)
    again = Domain.parse(str(domain))
    assert again == domain
    assert again.names == tuple(components)
    assert str(again) == str(domain)
    assert again.size == domain.size


NAMES = "strings( integers( catalogue( product( dates( hash64( max_bytes alphabet file kind a True".split()
TOKENS = st.sampled_from([*NAMES, *"),'\"=}:30-\n\\#", "**{", "'b'", "'2014-05-01'", "max_bytes=3"])


@given(st.one_of(st.lists(TOKENS, max_size=12).map("".join), st.text(max_size=20)))
def test_any_text_is_a_domain_or_an_error_of_ours(text):
    """Any text is refused with a `DomainError`, or read as a domain that is equal after a round trip through text."""
    try:
        domain = Domain.parse(text)
    except DomainError:
        return
    assert Domain.parse(str(domain)) == domain
