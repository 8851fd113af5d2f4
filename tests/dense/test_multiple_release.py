"""What the class over a dense vector does and refuses, apart from the law of its noise."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from sparsehist.errors import (
    CapExceededError,
    DataError,
    DeclarationError,
    InputError,
    LevelError,
    LevelOrderError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
)
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.laplace import Laplace
from sparsehist.series.multiple_release import MultipleRelease

FAMILIES = [Gaussian(sensitivity=2.0), Laplace(), DiscreteLaplace(sensitivity=1)]
# Longer than one piece, and no multiple of it.
TRUTH = np.arange(70_001) % 321


def each_family(function):
    """Run a test for a real family that moves everywhere, one that stands still, and an integer one."""
    return pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)(function)


@each_family
def test_a_level_asked_for_again_is_the_same_release(family):
    """However the level is written, before and after sealing, saving, loading and pickling."""
    vector = MultipleRelease(family, TRUTH, cap=1)
    first, other = vector.release("0.1"), vector.release(Fraction(1, 2))
    assert np.array_equal(vector.release(0.1).values, first.values)
    vector.seal()
    assert np.array_equal(vector.release("1/10").values, first.values)
    assert np.array_equal(vector.release(0.5).values, other.values)
    assert vector.release("0.5").metadata == other.metadata
    copied = pickle.loads(pickle.dumps(vector))
    assert np.array_equal(copied.release("1/10").values, first.values)


@each_family
@pytest.mark.parametrize("sealed", [False, True])
def test_a_saved_state_goes_on_where_it_was(family, sealed, tmp_path):
    """Saved and loaded, released levels are the same and new ones are bound to them; the file is private."""
    vector = MultipleRelease(family, TRUTH, cap=1)
    fine = vector.release(1).values
    if sealed:
        vector.seal()
    path = tmp_path / "vector"
    vector.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    loaded = MultipleRelease.load(path)
    assert repr(loaded) == repr(vector)
    assert loaded.family == family
    assert np.array_equal(loaded.release(1).values, fine)
    near = loaded.release("0.999").values
    # Fresh noise at 0.999 would differ by more than the standard deviation.
    assert np.std(near - fine) < 0.2 * family.std(1)


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


@each_family
def test_threads_share_one_noise(family):
    """Many threads that ask for one new level get one release."""
    vector = MultipleRelease(family, TRUTH)
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


def test_a_vector_taken_over_is_not_copied_and_is_overwritten_by_sealing():
    """With copy=False there is one array; with the default the caller's stays as it was."""
    for dtype, family in ((np.float64, Gaussian()), (np.int64, DiscreteLaplace(sensitivity=1))):
        kept, given = TRUTH.astype(dtype), TRUTH.astype(dtype)
        MultipleRelease(family, kept, cap="0.001", truth_step=1).seal()
        MultipleRelease(family, given, cap="0.001", truth_step=1, copy=False).seal()
        assert np.array_equal(kept, TRUTH)
        assert np.mean(given == TRUTH) < 0.2


def test_real_values_are_rounded_and_the_sensitivity_pays_for_it():
    """The enlarged sensitivity covers half a step in each entry of both neighbours, and the metadata say so."""
    real = np.random.default_rng(1).standard_normal(1000)
    for family, norm in ((Gaussian(), 1000**0.5), (Laplace(), 1000)):
        release = MultipleRelease(family, real).release(1)
        step, charge = release.metadata["truth_step"], release.metadata["rounding_charge"]
        assert charge == step * norm
        assert release.family.sensitivity == 1 + charge
        assert 0 < charge <= 2.0**-14
        assert release.metadata["grid"] <= step
        steps = release.values / release.metadata["grid"]
        assert np.array_equal(steps, np.rint(steps))
    declared = MultipleRelease(Gaussian(), np.rint(8 * real) / 8, truth_step=0.125).release(1)
    assert declared.metadata["rounding_charge"] == 0
    assert declared.family == Gaussian()


@pytest.mark.parametrize(
    ("family", "truth", "message"),
    [
        (Gaussian(), [], "empty"),
        (Gaussian(), [[1, 2]], "one dimension"),
        (Gaussian(), [1.0, float("nan")], "NaN"),
        (Laplace(), [1.0, float("inf")], "infinite"),
        (Gaussian(), ["a"], "integers or floats"),
        (Gaussian(), [1 + 2j], "integers or floats"),
        (Gaussian(), [None, 1], "integers or floats"),
        (Gaussian(), [2**53, 1], r"2\*\*52"),
        (DiscreteLaplace(sensitivity=1), [0.5, 1], "not whole"),
        (DiscreteLaplace(sensitivity=1), [float("nan")], "NaN"),
        (DiscreteLaplace(sensitivity=1), np.array([2**63], np.uint64), r"2\*\*62"),
    ],
)
def test_a_truth_that_cannot_be_released_is_refused(family, truth, message):
    """The refusal names the rule, not a value of the vector."""
    with pytest.raises(DataError, match=message):
        MultipleRelease(family, truth)


def test_declarations_that_do_not_fit_are_refused():
    """Levels, caps and steps are checked when they are given."""
    for level in (0, -1, float("nan"), "ten", None, True):
        with pytest.raises(LevelError):
            MultipleRelease(Gaussian(), TRUTH).release(level)
        if level is not None:
            with pytest.raises(LevelError):
                MultipleRelease(Gaussian(), TRUTH, cap=level)
    for family in ("gaussian", Gaussian):
        with pytest.raises(DeclarationError, match="noise with its sensitivity"):
            MultipleRelease(family, TRUTH)
    with pytest.raises(DeclarationError, match="power of two"):
        MultipleRelease(Gaussian(), TRUTH, step=0.3)
    with pytest.raises(DeclarationError, match="divide"):
        MultipleRelease(Gaussian(), TRUTH, step=2)
    with pytest.raises(DeclarationError, match="in doubles"):
        MultipleRelease(Gaussian(), TRUTH, step=2.0**-60).release(1)
    with pytest.raises(DeclarationError, match="real noise"):
        MultipleRelease(DiscreteLaplace(sensitivity=1), TRUTH, step=1)
    with pytest.raises(DataError, match="multiples"):
        MultipleRelease(Gaussian(), [0.3], truth_step=0.25)
    with pytest.raises(DeclarationError):
        MultipleRelease(Exponential(), TRUTH).release(1)


def test_whole_floats_will_do_for_integer_noise():
    """Counts that come as floats are read as integers."""
    assert MultipleRelease(DiscreteLaplace(sensitivity=1), [1.0, 2.0]).release(1).values.dtype == np.int64


def test_an_object_shows_no_value():
    """Its text holds public parameters only."""
    vector = MultipleRelease(Gaussian(), [123456789, 987654321])
    vector.release("0.1")
    assert repr(vector) == "MultipleRelease(Gaussian, size=2, levels=(0.1), cap=None, sealed=False)"
    assert not re.search("1234567|9876543", repr(vector._state))


def test_files_that_are_none_are_refused(tmp_path):
    """Missing, foreign, truncated and altered files each have a clear refusal."""
    path = tmp_path / "vector"
    with pytest.raises(NotFoundError):
        MultipleRelease.load(path)
    vector = MultipleRelease(Gaussian(), TRUTH)
    vector.release(1)
    vector.save(path)
    whole = path.read_bytes()
    for damaged in (
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:60],
        whole + b"x",
        whole[:5000] + b"?" + whole[5001:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(StoreDamagedError):
            MultipleRelease.load(path)
    path.write_bytes(b"PAR1" + whole)
    with pytest.raises(InputError, match="not written by"):
        MultipleRelease.load(path)
    path.write_bytes(whole)
    with pytest.raises(InputError, match="other parameters"):
        MultipleRelease.load(path, family=Gaussian(sensitivity=3.0))
    assert MultipleRelease.load(path, family=Gaussian()).levels == (1,)
    with pytest.raises(StoreError):
        vector.save(tmp_path / "nowhere" / "vector")


def test_an_interrupted_sealing_erases_everything(monkeypatch):
    """A state that is half sealed could give the truth away, so nothing of it is left."""
    vector = MultipleRelease(Gaussian(), TRUTH, cap=1)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsehist.dense.dense_state.keep_on_lattice", interrupted)
    with pytest.raises(KeyboardInterrupt):
        vector.seal()
    with pytest.raises(StoreDamagedError, match="interrupted"):
        vector.release("0.1")
