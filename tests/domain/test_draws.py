from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import polars as pl
import pytest

from sparsehist.domain import Catalogue, Dates, Hash64, Integers, Product, Strings, draw_free
from sparsehist.entropy import seeded
from tests.cases import slow
from tests.stats import assert_consistent, assert_detected, g_test, two_sample_counts

MIXED = "aé€😀z"  # characters of 1, 2, 3, 4 and 1 bytes in UTF-8
DOMAIN = Product(a=Catalogue(["x", "y"]), b=Integers(6))
TAKEN = np.array([0, 3, 4, 9])
REPEATS = 900
PAIRS = list(itertools.permutations(sorted(set(range(12)) - set(TAKEN.tolist())), 2))


def holding(domain, numbers):
    """Return the arguments of `draw_free` that describe a domain in which these cells are taken."""
    return {
        "n_taken": len(numbers),
        "taken": lambda keys: np.isin(domain.index(keys), numbers),
        "taken_keys": lambda: domain.keys(np.asarray(numbers, dtype=np.int64)),
    }


def pair_counts(draw):
    """Return how often `draw` gives each ordered pair of free cells."""
    place = {pair: position for position, pair in enumerate(PAIRS)}
    drawn = (tuple(DOMAIN.index(draw()).tolist()) for _ in range(REPEATS))
    return np.bincount([place[pair] for pair in drawn], minlength=len(PAIRS))


def reject(rng):
    """Draw two free cells by rejection, the method for drawing few cells of a domain that is mostly free."""
    return draw_free(DOMAIN, 2, **holding(DOMAIN, TAKEN), rng=rng)


def rank(rng):
    """Draw two free cells by ranking, the method used if many cells are drawn or if most of the domain is taken."""
    return draw_free(DOMAIN, 3, **holding(DOMAIN, TAKEN), rng=rng).head(2)


def test_both_routes_draw_every_ordered_pair_equally_often():
    """Rejection and ranking both draw every ordered pair of free cells with equal probability."""
    first, second = seeded(31), seeded(32)
    rejected, ranked = pair_counts(lambda: reject(first)), pair_counts(lambda: rank(second))
    law = np.full(len(PAIRS), 1 / len(PAIRS))
    assert_consistent(g_test(rejected, law), "pairs by rejection")
    assert_consistent(g_test(ranked, law), "pairs by ranking")
    assert_consistent(two_sample_counts(rejected, ranked), "both routes")


def test_a_draw_that_favours_a_cell_would_be_seen():
    """Negative control: the test detects pairs of cells that are sorted instead of in random order."""
    rng = seeded(33)

    def in_order():
        return DOMAIN.keys(np.sort(DOMAIN.index(reject(rng))))

    law = np.full(len(PAIRS), 1 / len(PAIRS))
    assert_detected(g_test(pair_counts(in_order), law), "pairs in their own order")


@pytest.mark.parametrize(
    ("domain", "taken", "n"),
    [
        (Integers(1000), range(0, 1000, 3), 100),  # rejection
        (Integers(1000), range(0, 1000, 3), 400),  # ranking
        (Integers(1000), [], 1000),
        (Integers(1000), range(1000), 0),
        (Strings(max_bytes=2, alphabet="aé"), [0, 2], 1),
    ],
    ids=str,
)
def test_free_cells_are_distinct_free_and_as_many_as_asked(domain, taken, n):
    """Rejection and ranking both return the requested number of cells, which are all different and free."""
    taken = np.array(taken, dtype=np.int64)
    drawn = draw_free(domain, n, **holding(domain, taken), rng=seeded(34))
    numbers = domain.index(drawn)
    assert tuple(drawn.dtypes) == domain.dtypes
    assert len(set(numbers.tolist())) == n
    assert not np.isin(numbers, taken).any()


def test_rejection_keeps_what_drawing_one_by_one_would_keep():
    """Rejection, which draws cells in batches, returns the same cells as drawing them one by one.

    These are the first n different free cells, in the order in which they were drawn.
    """
    domain, batches = Integers(20_000), []

    def every_fourth(keys):
        batches.append(keys["key_0"].to_list())
        return keys["key_0"].to_numpy() % 4 == 0

    drawn = draw_free(domain, 4999, n_taken=5000, taken=every_fourth, taken_keys=pl.DataFrame, rng=seeded(35))[
        "key_0"
    ].to_list()
    free = [number for number in itertools.chain.from_iterable(batches) if number % 4]
    assert drawn == list(dict.fromkeys(free))[:4999]


def test_large_domains_cost_what_is_drawn():
    """Drawing 1,000 free cells needs less than 2 MB of memory and 1,300 random cells, however large the domain."""
    peaks, asked = [], []
    for domain in (Integers(10**4), Integers(10**18), Hash64(), Strings(max_bytes=32)):
        candidates = []

        def nothing_taken(keys, candidates=candidates):
            candidates.append(keys.height)
            return np.zeros(keys.height, dtype=bool)

        def run(domain=domain, taken=nothing_taken):
            return draw_free(domain, 1000, n_taken=0, taken=taken, taken_keys=pl.DataFrame, rng=seeded(2))

        run()
        candidates.clear()
        tracemalloc.start()
        run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        asked.append(sum(candidates))
    assert max(peaks) < 2_000_000
    assert max(asked) < 1300


@pytest.mark.parametrize(
    "domain",
    [
        *(Integers(-3, 4), Dates("2014-02-27", "2014-03-02"), DOMAIN, Strings(max_bytes=6, alphabet=MIXED)),
        slow(Strings(max_bytes=3, alphabet="digits")),
        slow(Strings(max_chars=3, alphabet=MIXED)),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_draws_are_uniform(domain):
    """Every cell of a domain is drawn with equal probability; the test detects probabilities that are 5 % off."""
    observed = np.bincount(domain.index(domain.draw(200_000, rng=seeded(5))), minlength=domain.size)
    assert_consistent(g_test(observed, np.full(domain.size, 1 / domain.size)), f"draws of {domain}")
    tilted = np.where(np.arange(domain.size) % 2, 1.05, 0.95)
    assert_detected(g_test(observed, tilted / tilted.sum()), "every other cell 5 % too likely")


def test_hash_draws_use_all_bits():
    """Both the lowest and the highest eight bits of drawn hashes are uniformly distributed."""
    drawn = Hash64().draw(20_000, rng=seeded(4))["key_0"].to_numpy()
    for bits in (drawn & np.uint64(0xFF), drawn >> np.uint64(56)):
        assert_consistent(g_test(np.bincount(bits.astype(int), minlength=256), np.full(256, 1 / 256)), "hash bits")


@pytest.mark.slow
def test_first_characters_of_all_unicode_have_their_exact_law():
    """Lengths of drawn strings, and widths of their first characters in UTF-8, have their exact distributions."""
    domain = Strings(max_bytes=32)
    drawn = domain.draw(200_000, rng=seeded(6))["key_0"]
    below = [0] + [Strings(max_bytes=length).size for length in range(1, 33)]
    exactly = [1] + [below[r] - below[r - 1] for r in range(1, 33)]
    numbers = dict(zip((1, 2, 3, 4), (128, 1920, 61440, 1048576), strict=True))
    law = [sum(numbers[w] * exactly[r - w] for r in range(w, 33)) / domain.size for w in numbers]
    widths = np.bincount(drawn.str.slice(0, 1).str.len_bytes().to_numpy(), minlength=5)[1:]
    assert_consistent(g_test(widths, law), "widths of first characters")
    lengths = np.bincount(drawn.str.len_bytes().to_numpy(), minlength=33)
    assert_consistent(g_test(lengths[::-1], [exactly[r] / domain.size for r in range(32, 0, -1)] + [0.0]), "lengths")


def test_draws_are_valid_utf8_within_the_bound():
    """Every drawn string is valid UTF-8 and belongs to the domain that it was drawn from."""
    for domain in (Strings(max_bytes=32), Strings(max_chars=5), Strings(max_bytes=9, alphabet=MIXED)):
        drawn = domain.draw(20_000, rng=seeded(7))
        data = drawn["key_0"].cast(pl.Binary).to_list()
        assert all(raw.decode("utf-8", errors="strict").encode() == raw for raw in data)
        assert domain.contains(drawn).all()
        assert drawn.schema == {"key_0": pl.String}
        assert len(set(data)) > 1000
