from __future__ import annotations

import tracemalloc
from itertools import combinations, product

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Identity,
    Marginals,
    Prefix,
    Ranges,
    Total,
    Union,
    Workload,
    choose,
    lower_bound,
    strategy_named,
)
from sparsehist.workload.gram.rank_bound import (
    _by_rank,
    gram_matrix,
    squared_sensitivity_bound,
    squared_sensitivity_reached,
)
from sparsehist.workload.gram.resolvents import resolvents
from sparsehist.workload.gram.spectral_kernels import PrefixKernel, RangesKernel
from sparsehist.workload.gram.written_out import bound_of_gram
from sparsehist.workload.strategies.shared import Shared
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.toeplitz import Banded, windows_by_rank

NAMES = [
    *("spectral", "spectral(blend=2)", "spectral(window=1, blend=1)", "identity", "square_root", "direct"),
    *("square_root(scaled=True)", "banded(bands=3)", "hierarchical(branching=2)", "hierarchical(branching=3)"),
    *("haar", "tree", "shared(common=2.5)"),
]
SIZES = (1, 2, 3, 5, 8, 9)


def _served(name, n):
    """The strategy for every workload of n cells that it serves."""
    rows = Workload(seeded(n).integers(-1, 2, (4, n)) + 5 * np.eye(4, n))
    lists = (Ranges(n, [(0, 0), (n // 2, n - 1), (0, n - 1)]), Total(n), Identity(n), Union(Total(n), Identity(n)))
    for workload in (Prefix(n), Ranges(n), *lists, rows):
        try:
            yield strategy_named(name, workload)
        except DeclarationError:
            assert name in {"tree", "direct"} or "window" in name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", SIZES)
def test_a_strategy_factors_its_workload(name, n):
    """L·R is A, variances are the diagonal of L·Lᵀ, and their mean is that, listed or not."""
    for strategy in _served(name, n):
        strategy.check(rng=seeded(1))
        workload, R, unit = strategy.workload, strategy.apply(np.eye(n)), np.eye(strategy.n_noise)
        state = strategy.to_state(unit)
        L = strategy.state_answers(state) if workload.explicit else workload.apply(state)
        np.testing.assert_allclose(L @ R, workload.apply(np.eye(n)), atol=1e-9)
        assert state.shape == (strategy.state_size, strategy.n_noise)
        variances = np.sum(L**2, axis=1)
        assert strategy.mean_variance() == pytest.approx(variances.mean())
        if workload.explicit:
            np.testing.assert_allclose(strategy.query_variance(), variances)
            np.testing.assert_allclose(strategy.noise_answers(unit), L)
        else:
            each = [strategy.range_variance(a, b) for a in range(n) for b in range(a, n)]
            np.testing.assert_allclose(each, variances)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", SIZES)
def test_no_unit_moves_more_than_the_sensitivity(name, n):
    """Over all units the greatest move is never above the stated one, and at least 97 % of it for these workloads."""
    for strategy in _served(name, n):
        R = strategy.apply(np.eye(n))
        largest = largest_l1 = 0.0
        for keys in range(1, n + 1):  # a unit may touch fewer cells and move more
            moves = np.array([R[:, list(cells)].sum(axis=1) for cells in combinations(range(n), keys)])
            stated = strategy.sensitivity(keys)
            largest = max(largest, np.linalg.norm(moves, axis=1).max())
            largest_l1 = max(largest_l1, np.abs(moves).sum(axis=1).max())
            assert largest <= stated.l2 * (1 + 1e-12)
            assert stated.l2_lower <= largest * (1 + 1e-9)
            assert largest_l1 <= strategy.l1_sensitivity(keys) * (1 + 1e-9)
            if isinstance(strategy.workload, Prefix | Ranges) and name != "direct":
                assert largest >= 0.97 * stated.l2


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize("window", [0, 3])
def test_bounds_by_rank_hold_over_all_sets(kind, window):
    """The bounds that larger columns rely on hold where every set can be tried; neither is the value itself."""
    n = 22
    kernel = kind(n + 3, 0.5, window)
    gram = gram_matrix(kernel, n)
    for keys in (2, 3, 4):
        sets = np.array(list(combinations(range(n), keys)))
        largest = max(gram[np.ix_(cells, cells)].sum() for cells in sets)
        for bound in (bound_of_gram(gram, keys), squared_sensitivity_bound(kernel, n, keys)):
            assert largest <= bound <= 1.2 * largest
        assert squared_sensitivity_reached(kernel, n, keys) <= largest * (1 + 1e-12)


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize(("blend", "window"), [(0.0, 0), (0.5, 3), (4.0, 8)])
def test_powers_of_the_kernel_are_bounded_by_rank_too(kind, blend, window):
    """The three facts hold for mixtures near powers, on which L1 rests: all small sets, and long runs."""
    kernel = kind(25, blend, window)
    for power in (0.25, 0.5, 0.625, 0.75):
        mixture = resolvents(kernel, power, 3.0, 10.0)
        gram = gram_matrix(kernel, 22, mixture.entries(np.arange(46)) * 2 * kernel.unit)
        assert gram.min() > 0
        for keys in (1, 2, 3, 4):
            sets = np.array(list(combinations(range(22), keys)))
            largest = max(gram[np.ix_(cells, cells)].sum() for cells in sets)
            assert largest <= _by_rank(kernel, mixture, 22, keys) * (1 + 1e-8) <= 1.25 * largest
    kernel = kind(1200, blend, window)
    mixture = resolvents(kernel, 0.5, 3.0, 10.0)
    gram = gram_matrix(kernel, 1190, mixture.entries(np.arange(2382)) * 2 * kernel.unit)
    sums = np.zeros((1191, 1191))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    for keys in (2, 30, 200, 1000):
        low = np.arange(1190 - keys + 1)
        runs = sums[low + keys, low + keys] - 2 * sums[low, low + keys] + sums[low, low]
        assert runs.max() <= _by_rank(kernel, mixture, 1190, keys) * (1 + 1e-8) <= 1.1 * runs.max()


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize(("blend", "window"), [(0.0, 0), (0.5, 40)])
def test_blocks_and_groups_bound_every_cell_at_every_rank(kind, blend, window):
    """The bound is no less than the sum, over ranks, of the greatest row among all cells one by one."""
    kernel, n = kind(1500, blend, window), 1490
    mixture = resolvents(kernel, 1.0, 1.2, 1e4)
    sums = np.cumsum(mixture.entries(np.arange(2 * n + kernel.shift + 1)) * 2 * kernel.unit)
    sums = np.append(0.0, sums)
    for keys in (1, 3, 90, 400, 1490):
        exact = 0.0
        for left in range(keys):
            right = keys - 1 - left
            i = np.arange(left, n - right)
            hankel = sums[2 * i + right + kernel.shift + 1] - sums[2 * i - left + kernel.shift]
            rows = sums[left + 1] + sums[right + 1] - sums[1] + kernel.sign * hankel
            exact += np.max(rows / kernel.scales[i] ** 2)
        assert exact <= _by_rank(kernel, mixture, n, keys) * (1 + 1e-8) <= 1.09 * exact


def reached_in_l1(R, keys, rng):
    """The L1 norm some set reaches: signs and the cells that suit them in turns, from 200 sets; then cell by cell."""
    found, n = {}, R.shape[1]
    for start in range(200):
        stride = max(1, (n // keys) * (start % 4) // 4)
        run = (rng.integers(n) + stride * np.arange(keys)) % n
        chosen = run if start % 2 else rng.choice(n, keys, replace=False)
        reached = -1.0
        while (norm := np.abs(R[:, chosen].sum(axis=1)).sum()) > reached * (1 + 1e-12):
            reached, kept = norm, tuple(sorted(chosen.tolist()))
            chosen = np.argsort(-(R.T @ np.sign(R[:, chosen].sum(axis=1))))[:keys]
        found[kept] = reached
    best = max(found.values())
    for cells in sorted(found, key=found.get)[-10:]:
        chosen, reached = np.array(cells), 0.0
        while (norm := np.abs(R[:, chosen].sum(axis=1)).sum()) > reached * (1 + 1e-12):
            reached = norm
            for place in range(keys):
                rest = np.delete(chosen, place)
                norms = np.abs(R[:, rest].sum(axis=1, keepdims=True) + R).sum(axis=0)
                norms[rest] = 0.0
                chosen[place] = np.argmax(norms)
        best = max(best, reached)
    return best


# How far above what a search reaches: squares instead of absolute values lose a fifth to a third where entries have
# both signs at random (half at five keys), types of entries less; where trees or signs are known nothing is lost.
@pytest.mark.parametrize(
    ("name", "workload", "loosest"),
    [
        ("haar", Ranges(128), 1.03),
        ("hierarchical(branching=2)", Ranges(128), 1.0001),
        ("optimised", Ranges(128), 1.0001),
        ("spectral", Ranges(128), 1.4),
        ("spectral", Ranges(700), 1.5),
        ("spectral", Prefix(128), 1.6),
        ("residual", Marginals((20, 15), 2), 1.03),
        ("residual", Marginals((10, 10, 10), 2), 1.05),
        ("residual", Marginals((3, 4, 30), 2), 1.05),
        ("residual", Marginals((4, 5, 6), 2), 1.18),
        ("residual", Marginals((2,) * 7, 3), 1.2),
    ],
)
@pytest.mark.parametrize("keys", [1, 2, 5, 20])
def test_the_price_in_l1_is_near_what_some_unit_does(name, workload, loosest, keys):
    """Laplace noise is scaled to a bound that a search for the worst unit comes near to."""
    strategy = strategy_named(name, workload)
    reached = reached_in_l1(strategy.apply(np.eye(workload.n_cells)), keys, seeded(5))
    assert reached <= strategy.l1_sensitivity(keys) * (1 + 1e-9) <= loosest * reached


@pytest.mark.parametrize("n", [1, 2, 8, 16])
def test_the_haar_price_in_l1_is_exact(n):
    """For every number of cells of a full tree, by trying all sets."""
    R = strategy_named("haar", Ranges(n)).apply(np.eye(n))
    sets = np.array(list(product((0.0, 1.0), repeat=n)))
    norms = np.abs(sets @ R.T).sum(axis=1)
    for keys in range(1, n + 1):
        assert strategy_named("haar", Ranges(n)).l1_sensitivity(keys) == norms[sets.sum(axis=1) <= keys].max()


@pytest.mark.parametrize("workload", [Prefix(5000), Ranges(5000), Prefix(300), Ranges(300)], ids=str)
@pytest.mark.parametrize("keys", [1, 2, 20, 300])
def test_the_sensitivity_is_tight_in_long_columns(workload, keys):
    """For long columns the bound is within 3 % of what some unit does, far above √l for many cells."""
    stated = strategy_named("spectral", workload).sensitivity(keys)
    assert 0.97 * stated.l2 <= stated.l2_lower <= stated.l2
    if keys >= 20:
        assert stated.l2_lower > 2 * keys**0.5


@pytest.mark.parametrize("kind", [Prefix, Ranges])
@pytest.mark.parametrize(("blend", "window"), [(0, 0), (2, 10)])
def test_statements_of_long_columns_take_no_table(kind, blend, window):
    """Ten million cells in less memory than a byte each, in both norms."""
    strategy = Spectral(kind(10**7), blend=blend, window=window)
    tracemalloc.start()
    stated, l1 = strategy.sensitivity(20), strategy.l1_sensitivity(20)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    assert 0.8 * stated.l2 <= stated.l2_lower <= stated.l2 < l1


def test_the_sensitivity_of_prefix_sums_is_not_a_root():
    """Twenty cells of 256 move the spectral prefix sums by √266 at least, not by √20."""
    assert strategy_named("spectral", Prefix(256)).sensitivity(20).l2_lower ** 2 > 266


@pytest.mark.parametrize("name", ["square_root", "square_root(scaled=True)", "banded(bands=40)"])
@pytest.mark.parametrize("keys", [1, 100, 400])
@pytest.mark.parametrize(
    ("ranks", "single", "growth", "most"),
    [(512, 512, 1.02, 1.0), (10, 16, 1.02, 1.2), (512, 1, 4.0, 1.5), (1, 1, 1.02, 2.0)],
)
def test_toeplitz_bounds_in_groups_and_blocks_are_bounds(monkeypatch, name, keys, ranks, single, growth, most):
    """Never below the bound of each rank and each coefficient by itself, nor far above it.

    In long blocks it would be below with windows taken at their beginnings (400 keys) or at their ends (100 keys).
    """
    for constant, value in {"_RANKS": ranks, "_SINGLE": single, "_GROWTH": growth}.items():
        monkeypatch.setattr(f"sparsehist.workload.strategies.toeplitz.{constant}", value)
    n = 400
    strategy = strategy_named(name, Prefix(n))
    c = strategy.coefficients
    lags = np.abs(np.arange(n)[:, np.newaxis] - np.arange(n))
    products = np.cumsum(np.stack([c * np.append(c[lag:], np.zeros(lag)) for lag in range(n)]), axis=1)
    gram = products[lags, n - 1 - np.maximum(*np.indices((n, n)))]  # before scaling
    fine = sum(
        max(gram[i, i - a : i + keys - a].sum() / strategy.norms[i] ** 2 for i in range(a, n)) for a in range(keys)
    )
    sums = np.append(0.0, np.cumsum(c))
    stated = windows_by_rank(lambda m: sums[m], lambda m: strategy.norms[n - m], n, keys)
    assert fine <= stated * (1 + 1e-12) <= most * fine * (1 + 1e-9)


@pytest.mark.parametrize("name", ["square_root", "square_root(scaled=True)", "banded(bands=5000)"])
def test_toeplitz_sums_of_long_columns_are_known_without_them(name):
    """Series for many coefficients give what adding them up does, and bounds take no array of the column."""
    strategy = strategy_named(name, Prefix(30_000))
    number = np.array([0, 1, 2, 4095, 4096, 4097, 10_000, 30_000])
    c = np.append(0.0, strategy.coefficients)
    np.testing.assert_allclose(strategy._sums(number), np.cumsum(c)[number], rtol=1e-13)
    np.testing.assert_allclose(strategy._norms(number[1:]), strategy.norms[30_000 - number[1:]], rtol=1e-13)
    columns = np.sort(np.cumsum(strategy.coefficients)[::-1] / strategy.norms)
    assert strategy.l1_sensitivity(300) == pytest.approx(columns[-300:].sum(), rel=1e-10)
    moved = np.cumsum(strategy.coefficients)
    moved[300:] -= moved[:-300].copy()
    assert 0.98 * np.linalg.norm(moved) / strategy.norms[0] <= strategy.sensitivity(300).l2_lower
    assert strategy.sensitivity(300).l2_lower <= np.linalg.norm(moved) / strategy.norms[0]
    long = strategy_named(name, Prefix(10**7))
    tracemalloc.start()
    assert 0.9 * long.sensitivity(1000).l2 < long.sensitivity(1000).l2_lower
    long.l1_sensitivity(1000)
    long.profile(1000)
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()


def test_a_stream_in_small_state_is_the_noise_of_the_whole():
    """Noise drawn in pieces, with as many values in between as bands, is that of one piece."""
    strategy, z = Banded(Prefix(1000), bands=8), seeded(3).standard_normal(1000)
    state, parts = strategy.beginning, []
    for piece in np.split(z, [1, 2, 10, 500]):
        state, noise = strategy.stream(state, piece)
        assert state.shape == (8,)
        parts.append(noise)
    np.testing.assert_allclose(np.concatenate(parts), strategy.noise_answers(z), atol=1e-9)


def test_a_wrong_factorization_is_noticed():
    """A strategy whose L·R is off A is refused before anything is drawn."""
    strategy = strategy_named("spectral", Prefix(30))
    strategy.kernel.scales[7] *= 1.001  # in R and in its inverse alike: still a factorization
    strategy.check(rng=seeded(1))
    right = strategy.solve
    strategy.solve = lambda z: right(z) * (1 + 1e-5)
    with pytest.raises(DeclarationError, match="L·R is off A"):
        strategy.check(rng=seeded(1))
    strategy.solve = lambda z: right(z) * np.nan
    with pytest.raises(DeclarationError, match="L·R is off A"):
        strategy.check(rng=seeded(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spectra", "no strategy 'spectra'"),
        ("spectral(blend=", "cannot read"),
        ("spectral(4)", "parameters are named"),
        ("spectral(colour=4)", "colour"),
        ("hierarchical(branching=1)", "at least 2"),
        ("hierarchical(branching=[2])", "is not a value"),
        ("banded(bands=0)", "at least 1"),
        ("residual", "marginals"),
        (7, "written as text"),
    ],
)
def test_what_is_no_strategy_is_refused(text, message):
    """Names and parameters that make no strategy are errors that say what would."""
    with pytest.raises(DeclarationError, match=message):
        strategy_named(text, Prefix(8))


@pytest.mark.parametrize("workload", [Prefix(24), Ranges(24)], ids=str)
def test_lower_bounds_are_below_every_strategy(workload):
    """At no number of cells a unit is any strategy's error below the bound, and the best is within 70 % for few."""
    for keys in (1, 2, 6, 24):
        bound = lower_bound(workload, keys).mean_squared_error
        errors = []
        for name in [name for name in NAMES if workload.explicit or name not in {"tree", "direct"}]:
            strategy = strategy_named(name, workload)
            errors.append(strategy.sensitivity(keys).l2_lower ** 2 * strategy.mean_variance())
        assert bound <= min(errors) * (1 + 1e-9)
        assert keys == 24 or min(errors) <= 1.7 * bound


@pytest.mark.parametrize("cells", range(1, 13))
def test_shared_noise_has_its_sensitivity_and_is_the_best(cells):
    """Over all sets of up to l cells; no other share has less error, nor has any dense strategy tried here."""
    for keys in range(1, cells + 1):
        best = Shared.for_unit(Identity(cells), keys)
        R = best.apply(np.eye(cells))
        sets = [list(chosen) for k in range(1, keys + 1) for chosen in combinations(range(cells), k)]
        moves = np.array([R[:, chosen].sum(axis=1) for chosen in sets])
        stated = best.sensitivity(keys)
        assert stated.l2 == pytest.approx(np.linalg.norm(moves, axis=1).max(), rel=1e-12)
        assert best.l1_sensitivity(keys) == pytest.approx(np.abs(moves).sum(axis=1).max(), rel=1e-12)
        error = stated.l2**2 * best.mean_variance()
        assert lower_bound(Identity(cells), keys).mean_squared_error == pytest.approx(error)
        others = [Shared(Identity(cells), common) for common in np.geomspace(1e-2, 1e3, 200).tolist()]
        assert min(one.sensitivity(keys).l2 ** 2 * one.mean_variance() for one in others) >= error * (1 - 1e-12)
        rng = seeded(100 * cells + keys)
        for _ in range(20):
            bent = R + rng.normal(0, 0.03, R.shape)
            reach = np.array([bent[:, chosen].sum(axis=1) for chosen in sets])
            spread = np.sum(np.linalg.inv(bent) ** 2) / cells
            assert np.max(np.sum(reach**2, axis=1)) * spread >= error * (1 - 1e-9)


@pytest.mark.parametrize(("keys", "factor"), [(50, 0.326), (40, 0.407), (25, 0.640)])
def test_shared_noise_of_a_small_catalogue(keys, factor):
    """Its variance beside that of noise on every cell by itself; `auto` takes it where a unit touches many cells."""
    chosen = choose(Identity(50), keys)
    assert chosen.name.startswith("shared(common=")
    assert chosen.sensitivity(keys).l2 ** 2 * chosen.mean_variance() / keys == pytest.approx(factor, abs=5e-4)
    assert choose(Identity(10**6), keys).name == choose(Identity(50), 1).name == "identity"
    assert choose(Identity(50), keys, pure=True).name == "identity"
