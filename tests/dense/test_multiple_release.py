"""`MultipleRelease` apart from the law of its noise: what it returns, stores and refuses."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import (
    CapExceededError,
    DataError,
    DeclarationError,
    InputError,
    LevelError,
    LevelOrderError,
    StoreDamagedError,
    StoreError,
)
from sparsehist.noise import DiscreteLaplace, Exponential, Gaussian, Laplace, Poisson, RandomisedResponse, Skellam

# Longer than one chunk, and not a multiple of it.
TRUTH = np.arange(70_001) % 321
LEVELS = ("1e-6", "0.001", "1/3", "0.4", "0.4000001", "2", "17", "500")
FAMILIES = (Gaussian(sensitivity=3.0), Laplace(), DiscreteLaplace(sensitivity=2), Poisson())
WHOLE = st.lists(st.integers(-(2**45), 2**45), min_size=1, max_size=6)
# Within what the default grid of the smallest sensitivity and the longest vector can hold.
REAL = st.lists(st.floats(-(2.0**33), 2.0**33), min_size=1, max_size=6)
STEPS = st.lists(st.sampled_from([*LEVELS, "seal", "bytes", "pickle"]), min_size=2, max_size=12)


def done(vector, step, published):
    """Do one step; a level is recorded as it was first released."""
    if step == "seal":
        with suppress(LevelOrderError):  # nothing to seal at, or levels too far apart
            vector.seal()
            assert vector.sealed
    elif step == "bytes":
        return MultipleRelease.from_bytes(vector.to_bytes())
    elif step == "pickle":
        return pickle.loads(pickle.dumps(vector))
    elif vector.cap is not None and Fraction(step) > vector.cap:
        with pytest.raises(CapExceededError):
            vector.release(step)
    else:
        published.setdefault(step, vector.release(step).values)
    return vector


@settings(max_examples=100)
@given(st.sampled_from(FAMILIES), st.one_of(WHOLE, REAL), st.sampled_from([None, "17"]), STEPS)
def test_what_was_released_is_released_again(family, truth, cap, steps):
    """Sealing, writing and reading at any point leave every released number as it was, on its grid."""
    truth = [int(value) for value in truth] if family.integer else truth
    vector, published = MultipleRelease(family, truth, cap=cap), {}
    for step in steps:
        vector = done(vector, step, published)
        for level, values in published.items():
            again = vector.release(level)
            assert np.array_equal(again.values, values)
            steps_of_grid = values / again.metadata["grid"]
            assert np.array_equal(steps_of_grid, np.rint(steps_of_grid))


@pytest.mark.parametrize("family", [*FAMILIES, Skellam(), RandomisedResponse(400)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("sealed", [False, True])
def test_bytes_go_on_where_the_vector_was(family, sealed):
    """New levels are bound to the released ones, however these are written; all parameters are there."""
    vector = MultipleRelease(family, TRUTH, cap=1)
    fine, coarse = vector.release(1), vector.release(0.1)
    if sealed:
        vector.seal()
    again = MultipleRelease.from_bytes(vector.to_bytes())
    assert (repr(again), again.family) == (repr(vector), family)
    assert np.array_equal(again.release("1/10").values, coarse.values)
    assert again.release("0.1").metadata == coarse.metadata
    near = again.release("0.999").values
    # Fresh noise at 0.999 would differ by more than the standard deviation.
    moved = near != fine.values if isinstance(family, RandomisedResponse) else near - fine.values
    assert np.std(moved) < 0.2 * (1 if isinstance(family, RandomisedResponse) else family.std(1))


def test_bytes_that_are_not_a_vector_are_refused():
    """Foreign, truncated and altered bytes; a name that is not a family is not looked up."""
    vector = MultipleRelease(Gaussian(), TRUTH)
    vector.release(1)
    whole = vector.to_bytes()
    for damaged in (whole[:-1], whole[:60], whole + b"x", whole[:5000] + b"?" + whole[5001:]):
        with pytest.raises(StoreDamagedError):
            MultipleRelease.from_bytes(damaged)
    with pytest.raises(InputError, match="not written by"):
        MultipleRelease.from_bytes(b"PAR1" + whole)
    forged = whole[:-32].replace(b'"Gaussian"', b'"currency"')
    with pytest.raises(InputError, match="no family"):
        MultipleRelease.from_bytes(forged + hashlib.sha256(forged).digest())


def test_releases_are_on_the_grid_of_their_metadata_and_read_only():
    """Values are truth plus multiples of the step; nobody can change what was released."""
    release = MultipleRelease(Gaussian(), TRUTH).release("0.01")
    steps = release.values / release.metadata["grid"]
    assert np.array_equal(steps, np.rint(steps))
    with pytest.raises(ValueError, match="read-only"):
        release.values[0] = 1
    assert release.metadata["guarantee"] == "0.01-zCDP (zero-concentrated differential privacy)"
    assert release.metadata["std"] == Gaussian().std("0.01")
    copied = pickle.loads(pickle.dumps(release))
    assert copied.metadata == release.metadata
    assert np.array_equal(copied.values, release.values)


def test_a_level_beyond_the_cap_is_refused_with_what_is_missing():
    """The refusal names request, cap and difference; nothing is drawn."""
    vector = MultipleRelease(Gaussian(), TRUTH, cap="0.75")
    with pytest.raises(CapExceededError, match=re.escape("requested level 1, cap 0.75, difference 0.25")):
        vector.release(1)
    assert vector.levels == ()
    assert vector.release("0.75").metadata["cap"] == "0.75"


def test_without_a_cap_the_finest_release_becomes_the_cap_on_sealing():
    """Sealing spends nothing that was not spent; finer levels are then refused."""
    vector = MultipleRelease(Gaussian(), TRUTH)
    with pytest.raises(LevelOrderError, match="nothing was released"):
        vector.seal()
    vector.release(1)
    vector.seal()
    vector.seal()
    assert vector.cap == 1
    with pytest.raises(CapExceededError):
        vector.release(2)


def test_levels_too_far_apart_for_a_double_are_not_sealed():
    """The refusal comes before anything is erased."""
    vector = MultipleRelease(Laplace(), TRUTH, cap=10**9)
    coarse = vector.release(1).values
    with pytest.raises(LevelOrderError, match=re.escape("2**20")):
        vector.seal()
    assert not vector.sealed
    assert np.array_equal(vector.release(1).values, coarse)


def test_threads_share_one_noise():
    """Many threads that ask for one new level get one release."""
    vector = MultipleRelease(DiscreteLaplace(), TRUTH)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: vector.release("0.3").values, range(8)))
    assert all(np.array_equal(values, found[0]) for values in found)


def _release_in_child(vector, pipe):
    try:
        pipe.send(float(vector.release("0.2").values[0]))
        vector.release("0.3")
    except StoreError as error:
        pipe.send(str(error))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_serves_what_was_released_and_draws_nothing_new():
    """Parent and child would draw different noise for one level, so the child refuses."""
    vector = MultipleRelease(Gaussian(), TRUTH)
    values = vector.release("0.2").values
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_release_in_child, args=(vector, theirs))
    child.start()
    child.join()
    assert ours.recv() == values[0]
    assert "forked" in ours.recv()


def test_the_callers_array_is_copied():
    """Sealing erases the vector's own copy of the truth and not the caller's array."""
    for dtype, family in ((np.float64, Gaussian()), (np.int64, DiscreteLaplace())):
        given = TRUTH.astype(dtype)
        MultipleRelease(family, given, cap="0.001", truth_step=1).seal()
        assert np.array_equal(given, TRUTH)


@pytest.mark.parametrize(
    ("family", "truth", "message"),
    [
        (Gaussian(), [], "empty"),
        (Gaussian(), [[1, 2]], "one dimension"),
        (Gaussian(), [1.0, float("nan")], "NaN"),
        (Laplace(), [1.0, float("inf")], "infinite"),
        (Gaussian(), ["a"], "integers or floats"),
        (Gaussian(), [None, 1], "integers or floats"),
        (Gaussian(), [2**53, 1], r"2\*\*52"),
        (DiscreteLaplace(), [0.5, 1], "not whole"),
        (DiscreteLaplace(), np.array([2**63], np.uint64), r"2\*\*62"),
    ],
)
def test_a_truth_that_cannot_be_released_is_refused(family, truth, message):
    """The refusal names the rule, not a value of the vector."""
    with pytest.raises(DataError, match=message):
        MultipleRelease(family, truth)


def test_declarations_that_do_not_fit_are_refused():
    """Levels, caps and steps are checked when they are given."""
    for level in (0, -1, float("nan"), "ten", True):
        with pytest.raises(LevelError):
            MultipleRelease(Gaussian(), TRUTH).release(level)
        with pytest.raises(LevelError):
            MultipleRelease(Gaussian(), TRUTH, cap=level)
    for step, message in ((0.3, "power of two"), (2, "divide"), (2.0**-60, "doubles cannot hold")):
        with pytest.raises(DeclarationError, match=message):
            MultipleRelease(Gaussian(), TRUTH, step=step).release(1)
    with pytest.raises(DeclarationError, match="real noise"):
        MultipleRelease(DiscreteLaplace(), TRUTH, step=1)
    with pytest.raises(DataError, match="multiples"):
        MultipleRelease(Gaussian(), [0.3], truth_step=0.25)
    with pytest.raises(DeclarationError):
        MultipleRelease(Exponential(), TRUTH).release(1)


def test_no_refusal_shows_a_vector_given_in_the_wrong_place():
    """Family and truth exchanged, whatever holds the truth."""
    for truth in ([4711, 4712], np.array([4711, 4712]), pl.Series([4711, 4712]), "4711", Gaussian):
        with pytest.raises(DeclarationError, match="noise with its sensitivity") as refused:
            MultipleRelease(truth, Gaussian())
        assert "471" not in str(refused.value)


def test_an_object_shows_no_value():
    """Its text holds public parameters only."""
    vector = MultipleRelease(Gaussian(), [123456789, 987654321])
    vector.release("0.1")
    assert repr(vector) == "MultipleRelease(Gaussian, size=2, levels=(0.1), cap=None, sealed=False)"
    assert not re.search("1234567|9876543", repr(vector._state))


def test_an_interrupted_sealing_erases_everything(monkeypatch):
    """A state that is half sealed could give the truth away, so nothing of it is left."""
    vector = MultipleRelease(Gaussian(), TRUTH, cap=1)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsehist.dense.dense_state.keep_on_lattice", interrupted)
    with pytest.raises(KeyboardInterrupt):
        vector.seal()
    for use in (lambda: vector.release("0.1"), vector.to_bytes, vector.seal):
        with pytest.raises(StoreDamagedError, match="interrupted"):
            use()
