"""Tests that `MultipleRelease` repeats its releases, can be stored as bytes, and refuses invalid requests."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparsehist.dense import scale, threshold
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
from sparsehist.noise import DiscreteLaplace, Exponential, Gaussian, Laplace, Poisson

# A vector that is processed in several chunks, the last of which is shorter than the others.
TRUTH = np.arange(70_001) % 321
LEVELS = ("1e-6", "0.001", "1/3", "0.4", "0.4000001", "2", "17", "500")
FAMILIES = (Gaussian(sensitivity=3.0), Laplace(), DiscreteLaplace(sensitivity=2), Poisson())
WHOLE = st.lists(st.integers(-(2**45), 2**45), min_size=1, max_size=6)
# These values fit the default grid for every sensitivity and length in the tests.
REAL = st.lists(st.floats(-(2.0**33), 2.0**33), min_size=1, max_size=6)
STEPS = st.lists(st.sampled_from([*LEVELS, "seal", "bytes", "pickle"]), min_size=2, max_size=12)


def done(vector, step, published):
    """Do what `step` says: release at a level, store and reload ("bytes", "pickle"), or erase true values ("seal").

    Return the vector, and record the first release at each level in `published`.
    """
    if step == "seal":
        with suppress(LevelOrderError):  # `seal` may be refused, for example if nothing was released yet
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
@example(Gaussian(3.0), [0.0] * 3, None, ["1e-6", "seal"])  # `seal` is refused: too much noise for the grid
@given(st.sampled_from(FAMILIES), st.one_of(WHOLE, REAL), st.sampled_from([None, "17"]), STEPS)
def test_what_was_released_is_released_again(family, truth, cap, steps):
    """Storing a vector, reloading it or erasing its true values with `seal` never changes its releases."""
    truth = [int(value) for value in truth] if family.integer else truth
    vector, published = MultipleRelease(family, truth, cap=cap), {}
    for step in steps:
        vector = done(vector, step, published)
        for level, values in published.items():
            again = vector.release(level)
            assert np.array_equal(again.values, values)
            steps_of_grid = values / again.metadata["grid"]
            assert np.array_equal(steps_of_grid, np.rint(steps_of_grid))


def test_bytes_that_are_not_a_vector_are_refused():
    """Bytes are refused if they are not a complete, unaltered vector, or if they name an unknown noise family."""
    vector = MultipleRelease(Gaussian(), TRUTH)
    vector.release(1)
    whole = vector.to_bytes()
    for damaged in (whole[:-1], whole[:60], whole + b"x", whole[:5000] + b"?" + whole[5001:]):
        with pytest.raises(StoreDamagedError):
            MultipleRelease.from_bytes(damaged)
    with pytest.raises(InputError, match="were not written by this version"):
        MultipleRelease.from_bytes(b"PAR1" + whole)
    forged = whole[:-32].replace(b'"Gaussian"', b'"currency"')
    with pytest.raises(InputError, match="unknown noise family"):
        MultipleRelease.from_bytes(forged + hashlib.sha256(forged).digest())


def test_releases_are_read_only_and_state_their_guarantee():
    """Released arrays are read-only, and their metadata state the privacy guarantee and the standard deviation."""
    release = MultipleRelease(Gaussian(), TRUTH).release("0.01")
    with pytest.raises(ValueError, match="read-only"):
        release.values[0] = 1
    assert pickle.loads(pickle.dumps(release)).metadata == release.metadata
    assert release.metadata["guarantee"] == "0.01-zCDP (zero-concentrated differential privacy)"
    assert release.metadata["std"] == Gaussian().std("0.01")


def test_a_level_beyond_the_cap_is_refused_with_what_is_missing():
    """A level above the cap is refused, and the error states the level, the cap and their difference."""
    vector = MultipleRelease(Gaussian(), TRUTH, cap="0.75")
    with pytest.raises(CapExceededError, match=re.escape("requested level 1, cap 0.75, difference 0.25")):
        vector.release(1)
    assert vector.levels == ()
    assert vector.release("0.75").metadata["cap"] == "0.75"


def test_without_a_cap_the_finest_release_becomes_the_cap_on_sealing():
    """Without a cap, `seal` erases the true values and makes the finest released level the cap."""
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
    """`seal` is refused, and erases nothing, if noise at a level is over 2**20 times as large as noise at the cap."""
    vector = MultipleRelease(Laplace(), TRUTH, cap=10**9)
    coarse = vector.release(1).values
    with pytest.raises(LevelOrderError, match=re.escape("2**20")):
        vector.seal()
    assert not vector.sealed
    assert np.array_equal(vector.release(1).values, coarse)


def test_a_grid_too_fine_for_the_sealed_noise_is_refused():
    """`seal` is refused if rounding the noise that it stores could change a release by one grid step."""
    vector = MultipleRelease(Gaussian(3.0), [0.0] * 3)
    coarse = vector.release("1e-6").values
    with pytest.raises(LevelOrderError, match="truth_step"):
        vector.seal()
    assert not vector.sealed and np.array_equal(vector.release("1e-6").values, coarse)
    declared = MultipleRelease(Gaussian(3.0), [0.0, 0.5], truth_step=0.5)
    before = declared.release("1e-6").values
    declared.seal()
    assert np.array_equal(declared.release("1e-6").values, before)


def test_threads_share_one_noise():
    """Threads that request a new level of one vector at the same time all get the same release."""
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
    """A forked process repeats old releases but refuses new ones: their noise would differ from the parent's."""
    vector = MultipleRelease(Gaussian(), TRUTH)
    values = vector.release("0.2").values
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_release_in_child, args=(vector, theirs))
    child.start()
    child.join()
    assert ours.recv() == values[0]
    assert "forked" in ours.recv()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MultipleRelease(Gaussian(), []), DataError, "empty"),
        (lambda: MultipleRelease(Gaussian(), [[1, 2]]), DataError, "one dimension"),
        (lambda: MultipleRelease(Gaussian(), [1.0, float("nan")]), DataError, "NaN"),
        (lambda: MultipleRelease(Laplace(), [1.0, float("inf")]), DataError, "infinite"),
        (lambda: MultipleRelease(Gaussian(), [None, 1]), DataError, "integers or floats"),
        (lambda: MultipleRelease(Gaussian(), [2**53, 1]), DataError, r"2\*\*52"),
        (lambda: MultipleRelease(DiscreteLaplace(), [0.5, 1]), DataError, "whole values"),
        (lambda: MultipleRelease(DiscreteLaplace(), np.array([2**63], np.uint64)), DataError, r"2\*\*62"),
        (lambda: MultipleRelease(Gaussian(), [0.3], truth_step=0.25), DataError, "multiples"),
        (lambda: MultipleRelease(Gaussian(), TRUTH, step=0.3).release(1), DeclarationError, "power of two"),
        (lambda: MultipleRelease(Gaussian(), TRUTH, step=2).release(1), DeclarationError, "larger than the grid"),
        (lambda: MultipleRelease(Gaussian(), TRUTH, step=2.0**-60).release(1), DeclarationError, "grid is too fine"),
        (lambda: MultipleRelease(DiscreteLaplace(), TRUTH, step=1), DeclarationError, "real noise"),
        (lambda: MultipleRelease(TRUTH, Gaussian()), DeclarationError, "must be a noise family"),
        (lambda: MultipleRelease(Exponential(), TRUTH).release(1), DeclarationError, "never negative"),
        (lambda: MultipleRelease(Gaussian(), TRUTH).release(0), LevelError, "positive"),
        (lambda: MultipleRelease(Gaussian(), TRUTH, cap=float("nan")), LevelError, "nan"),
        (lambda: scale(0), DeclarationError, "factor"),
        (lambda: threshold(float("nan")), DeclarationError, "nan"),
    ],
)
def test_what_cannot_be_released_is_refused(make, error, message):
    """Invalid vectors and parameters are refused, and the error names the violated rule."""
    with pytest.raises(error, match=message):
        make()


def test_an_interrupted_sealing_erases_everything(monkeypatch):
    """If `seal` is interrupted, everything is erased, because the remaining parts could reveal the true values."""
    vector = MultipleRelease(Gaussian(), TRUTH, cap=1)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsehist.dense.dense_state.keep_on_lattice", interrupted)
    with pytest.raises(KeyboardInterrupt):
        vector.seal()
    for use in (lambda: vector.release("0.1"), vector.to_bytes, vector.seal):
        with pytest.raises(StoreDamagedError, match="interrupted"):
            use()
