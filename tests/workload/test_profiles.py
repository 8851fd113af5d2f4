"""Bounds for all numbers of cells at once: none below what some set does, and close to those of single numbers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.workload import Kronecker, MatrixWorkload, Prefix, Workload, strategy_named
from sparsehist.workload.gram import profiles
from sparsehist.workload.gram.profiles import between, layered, profile_of_gram
from sparsehist.workload.gram.written_out import gram_of

STRATEGIES = [
    *((name, "prefix(9)") for name in ("identity", "haar", "spectral", "spectral(blend=2, window=2)", "optimised")),
    *((name, "prefix(9)") for name in ("square_root", "square_root(scaled=True)", "banded(bands=3)", "direct")),
    *((name, "ranges(9)") for name in ("spectral", "spectral(blend=1, window=3)", "hierarchical(branching=3)")),
    *((name, "marginals((2, 3, 2), 2)") for name in ("residual", "weighted")),
    *((name, "marginals((3, 4), 1)") for name in ("residual", "direct")),
    *(
        ("tree", "ranges(9, [(0, 3), (2, 8)])"),
        ("shared(common=3)", "identity(8)"),
        ("shared(common=1)", "identity(2)"),
    ),
    ("union(spectral, optimised)", "union(prefix(9), prefix(9))"),
    ("kronecker(spectral, residual)", "kronecker(prefix(3), marginals((2, 2), 2))"),
    ("direct", "total(7)"),
]


def greatest(gram):
    """The greatest root of 1ᵀ_S G 1_S over all sets of at most 1, 2, … cells."""
    sizes = []
    for size in range(1, len(gram) + 1):
        sets = np.array(list(combinations(range(len(gram)), size)))
        sizes.append(gram[sets[:, :, np.newaxis], sets[:, np.newaxis]].sum(axis=(1, 2)).max())
    return np.sqrt(np.maximum.accumulate(np.maximum(sizes, 0.0)))


@pytest.mark.parametrize("written_out", [True, False])
@pytest.mark.parametrize(("name", "workload"), STRATEGIES)
def test_every_number_of_cells_is_bounded(monkeypatch, name, workload, written_out):
    """Brute force over all sets: of R, and of the absolute Gram matrix; under ways for few cells and for many."""
    monkeypatch.setattr("sparsehist.workload.strategies.strategy.WRITTEN_OUT", 256 * written_out)
    monkeypatch.setattr(profiles, "WRITTEN_OUT", 256 * written_out)
    monkeypatch.setattr("sparsehist.workload.strategies.direct._LARGEST_GRAM", 256 * written_out)
    strategy = strategy_named(name, Workload.parse(workload))
    R = strategy.apply(np.eye(strategy.workload.n_cells))
    gram = R.T @ R
    exact, absolute = greatest(gram), greatest(np.abs(gram))
    for keys in (1, 4, 50):
        found = strategy.profile(keys)
        number = min(keys, len(gram))
        assert [part.shape for part in found[:3]] == [(number,)] * 3
        assert np.all(exact[:number] <= found.norms * (1 + 1e-9))
        assert np.all(absolute[:number] <= found.majorant * (1 + 1e-9))
        assert np.all(found.reached <= exact[:number] * (1 + 1e-9))
        assert np.linalg.eigvalsh(gram)[-1] <= found.eigenvalue * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["signs", "positive", "overlapping"])
def test_gram_matrices_are_bounded(monkeypatch, kind):
    """The same for matrices of any kind, as a whole and in the ways for larger ones."""
    rng = seeded(4)
    for case in range(20):
        rows = rng.standard_normal((4 + case % 7, 3 + case % 6))
        if kind == "positive":
            rows = np.abs(rows)
        if kind == "overlapping":
            rows = np.cumsum(np.abs(rows), axis=0) * rng.choice([0.1, 1.0, 5.0], rows.shape[1])
        gram = rows.T @ rows
        exact, absolute = greatest(gram), greatest(np.abs(gram))
        for written_out in (256, 0):
            monkeypatch.setattr(profiles, "WRITTEN_OUT", written_out)
            found = profile_of_gram(gram, 99)
            assert np.all(exact <= found.norms * (1 + 1e-9))
            assert np.all(absolute <= found.majorant * (1 + 1e-9))
            assert np.all(found.reached <= exact * (1 + 1e-9))
            assert np.linalg.eigvalsh(gram)[-1] <= found.eigenvalue * (1 + 1e-9)


def knapsack(norms, majorant, keys):
    """The largest Σ δ_j·D(t_j) over t_1 >= t_2 >= … with Σ t_j = keys, one after the other."""

    def most(left, before, layer):
        if not left or layer == norms.size:
            return -np.inf if left else 0.0
        step = norms[layer] - (norms[layer - 1] if layer else 0.0)
        taken = range(1, min(left, before, majorant.size) + 1)
        return max(step * majorant[t - 1] + most(left - t, t, layer + 1) for t in taken)

    return most(keys, keys, 0)


def test_layers_are_the_knapsack_and_never_less():
    """Equal to it for concave sequences, at least it for all."""
    rng = seeded(5)
    for case in range(30):
        steps = [rng.random(size) for size in (2 + case % 5, 2 + case % 3)]
        keys = min(9, steps[0].size * steps[1].size)
        concave = [np.cumsum(np.sort(part)[::-1]) for part in steps]
        assert layered(*concave, keys)[-1] == pytest.approx(knapsack(*concave, keys))
        rough = [np.cumsum(part) for part in steps]
        stated = layered(*rough, keys)
        assert all(knapsack(*rough, number) <= stated[number - 1] * (1 + 1e-9) for number in range(1, keys + 1))


def test_numbers_between_are_bounded_by_their_neighbours():
    """What grows like a power between 0 and 1 stays below; the next number alone would be more than half above."""
    every = np.arange(1, 401)
    asked = np.array([1, 2, 5, 15, 60, 400])
    for power in (0.0, 0.5, 0.8, 1.0):
        stated = between(asked, asked**power)
        assert np.all(every**power <= stated * (1 + 1e-12))
        assert np.all(stated <= every**power * 7 ** (power * (1 - power)) * (1 + 1e-12))


@pytest.mark.parametrize("kinds", [("signs", "signs"), ("signs", "positive"), ("signs", "positive", "signs")])
def test_products_are_bounded_whatever_the_signs(kinds):
    """Brute force over all sets; where two have signs, norms for majorants are too small."""
    rng, below = seeded(6), 0
    for _ in range(40):
        matrices = [rng.standard_normal((3, 3 if len(kinds) < 3 else 2)) for _ in kinds]
        matrices = [np.abs(one) if kind == "positive" else one for one, kind in zip(matrices, kinds, strict=True)]
        product = Kronecker(*map(MatrixWorkload, matrices))
        strategy = strategy_named(f"kronecker({', '.join(['direct'] * len(kinds))})", product)
        R = strategy.apply(np.eye(product.n_cells))
        exact = greatest(R.T @ R)
        stated = strategy.profile(99)
        assert np.all(exact <= stated.norms * (1 + 1e-9))
        assert np.all(stated.reached <= exact * (1 + 1e-9))
        assert strategy.sensitivity(4).l2 <= 1.5 * exact[3]
        norms = [part.profile(9).norms for part in strategy.strategies]
        too_small = norms[0]
        for other in norms[1:]:
            too_small = layered(too_small, other, product.n_cells)
        below += np.any(too_small < exact * (1 - 1e-6))
    assert below > 0 or kinds != ("signs", "signs")


@pytest.mark.parametrize("name", ["spectral", "spectral(blend=4, window=5)", "square_root", "banded(bands=40)"])
@pytest.mark.parametrize("n", [300, 5000])
def test_long_columns_lose_little(name, n):
    """All numbers at once are within 5 % of one by itself, 10 % where a few cells near the ends count most."""
    strategy = strategy_named(name, Prefix(n))
    found = strategy.profile(300)
    for number in (1, 2, 5, 17, 60, 150, 300):
        one = strategy.sensitivity(number)
        assert one.l2_lower <= found.norms[number - 1] * (1 + 1e-9) <= 1.1 * one.l2
        assert found.norms[number - 1] <= 1.05 * one.l2 or number in {2, 5, 17}
        assert found.reached[number - 1] <= one.l2 * (1 + 1e-9)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_gram_matrices_of_matrices_are_products(monkeypatch, share):
    """By blocks of rows and as sparse ones, of reals and of large integers."""
    monkeypatch.setattr("sparsehist.workload.gram.written_out._ENTRIES_AT_ONCE", 1000)
    rng = seeded(7)
    for kind in (np.float64, np.int32):
        matrix = (rng.integers(-(2**19), 2**19, (300, 40)) * (rng.random((300, 40)) < share)).astype(kind)
        wide = matrix.astype(np.float64)
        np.testing.assert_allclose(gram_of(MatrixWorkload(matrix)), wide.T @ wide, rtol=1e-12)
