"""Tests that no unit changes the measurements of a strategy by more than the stated sensitivity."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Total,
    Union,
    Workload,
    strategy_named,
)
from sparsehist.workload.sensitivity import gram_of, squared_l2_of_tables
from sparsehist.workload.strategies.residual import ResidualBasis

SIGNED = Matrix([[1, -1, 0, 2], [0, 1, -2, 0], [1, 1, 1, 1]])
SMALL: list[tuple[Workload, str]] = [
    *((Prefix(9), name) for name in ("spectral", "spectral(blend=2)", "spectral(blend=1, window=1)", "haar")),
    *((Ranges(8), name) for name in ("spectral", "spectral(blend=4, window=3)", "haar", "identity", "optimised")),
    *((Prefix(8), name) for name in ("square_root", "square_root(scaled=True)", "direct")),
    (Ranges(7, [(0, 3), (2, 5), (0, 6)]), "direct"),
    (SIGNED, "direct"),
    (SIGNED, "optimised(share=20)"),
    (Union(Total(6), Identity(6)), "direct"),
    (Union(Prefix(6), Identity(6)), "union(optimised, identity)"),
    *((Marginals((2, 2, 2), 2), name) for name in ("residual", "direct", "optimised")),
    *((Marginals((3, 4), up_to=2), name) for name in ("residual", "direct")),
    (Marginals((3, 1, 3), [[0], [2], []]), "residual"),
    (Marginals((2, 5), [[0]]), "residual"),
    (Kronecker(Prefix(4), Identity(3)), "kronecker(spectral, identity)"),
    (Kronecker(Prefix(4), Prefix(3)), "kronecker(optimised, haar)"),
    (Kronecker(Marginals((2, 2), 1), Prefix(3)), "kronecker(residual, spectral)"),
    (Kronecker(SIGNED, Total(2)), "kronecker(direct, direct)"),
]


def largest_moves(R: np.ndarray, keys: int) -> tuple[float, float]:
    """Return the largest L2 norm and the largest L1 norm of a sum of at most `keys` different columns of R."""
    l2 = l1 = 0.0
    for size in range(1, keys + 1):
        sets = np.array(list(combinations(range(R.shape[1]), size)))
        moves = R[:, sets].sum(axis=2)
        l2, l1 = max(l2, np.linalg.norm(moves, axis=0).max()), max(l1, np.abs(moves).sum(axis=0).max())
    return l2, l1


@pytest.mark.parametrize(("workload", "name"), SMALL, ids=lambda part: str(part)[:30])
def test_no_unit_moves_more_than_the_sensitivity(workload: Workload, name: str) -> None:
    """Brute force finds no set of cells that changes the measurements by more than the stated sensitivity."""
    strategy = strategy_named(name, workload)
    R = strategy.apply(np.eye(workload.n_cells))
    for keys in range(1, workload.n_cells + 1):
        moved, most = largest_moves(R, keys), (strategy.l2(keys), strategy.l1(keys))
        assert moved[0] <= most[0] * (1 + 1e-12) and moved[1] <= most[1] * (1 + 1e-12)
        if keys == 1 and name != "haar":  # the bound for `haar` assumes that the number of cells is a power of 2
            assert moved == pytest.approx(most, rel=1e-8)
            assert moved[0] > 0.95 * most[0] and moved[1] > 0.95 * most[1]


def annealed(R: np.ndarray, keys: int, *, l1: bool, seed: int) -> float:
    """Search by simulated annealing for `keys` columns of R whose sum has a large norm, and return the norm."""
    rng, n = seeded(seed), R.shape[1]

    def norm(moves: np.ndarray) -> np.ndarray:
        return np.abs(moves).sum(axis=0) if l1 else np.linalg.norm(moves, axis=0)

    best, scale = 0.0, norm(R).max()
    grown = [int(np.argmax(norm(R)))]
    while len(grown) < keys:
        norms = norm(R[:, grown].sum(axis=1, keepdims=True) + R)
        norms[grown] = 0.0
        grown.append(int(np.argmax(norms)))
    runs = [np.arange(keys) + at for at in (0, (n - keys) // 2, n - keys)]
    for start in [np.array(grown), *runs, *(rng.choice(n, keys, replace=False) for _ in range(3))]:
        chosen = start
        move = R[:, chosen].sum(axis=1)
        for temperature in np.geomspace(0.05, 0.002, 30 * keys):
            place, new = rng.integers(chosen.size), rng.integers(n)
            if new in chosen:
                continue
            other = move - R[:, chosen[place]] + R[:, new]
            gain = float(norm(other) - norm(move)) / scale
            if gain > 0 or rng.random() < math.exp(gain / temperature):
                chosen[place], move = new, other
        reached = -1.0
        # Choose the columns with the largest inner products with the current sum (L2) or with its signs (L1).
        while norm(move) > reached * (1 + 1e-12):
            reached = float(norm(move))
            gain = R.T @ (np.sign(move) if l1 else move)
            chosen = np.argsort(-gain)[:keys]
            move = R[:, chosen[gain[chosen] > 0]].sum(axis=1)
        best = max(best, reached)
    return best


# Each case ends with a bound on the ratio of the stated L2 sensitivity to the largest L2 change that is found.
# A ratio of at most 1.05 ensures that a stated sensitivity that is 5 % too small is detected.
LARGE: list[tuple[Workload, str, float]] = [
    (Prefix(256), "spectral", 1.02),
    (Ranges(300), "spectral(blend=4, window=1)", 1.05),
    (Prefix(1500), "spectral(blend=2, window=1)", 1.02),
    (Prefix(300), "square_root(scaled=True)", 1.02),
    (Ranges(128), "haar", 1.0001),
    (Ranges(128), "optimised(share=80)", 1.04),
    (Marginals((20, 15), 2), "residual", 1.05),
    (Marginals((2,) * 7, 3), "residual", 1.2),
    (Marginals((3, 4, 30), 2), "residual", 1.2),
    (Kronecker(Prefix(32), Identity(16)), "kronecker(spectral, identity)", 1.1),
    (Kronecker(Prefix(16), Prefix(16)), "kronecker(spectral, haar)", 1.25),
    (Union(Prefix(64), Identity(64)), "union(spectral, identity)", 1.05),
    (Matrix((seeded(2).random((40, 60)) < 0.3).astype(float)), "optimised(share=85)", 1.1),
    (Matrix(seeded(3).choice([-1.0, 1.0], (64, 64))), "direct", 1.5),
]


@pytest.mark.parametrize(("workload", "name", "loosest"), LARGE, ids=lambda part: str(part)[:30])
@pytest.mark.parametrize("keys", [2, 5, 20])
def test_no_set_that_a_search_finds_exceeds_the_sensitivity(
    workload: Workload, name: str, loosest: float, keys: int
) -> None:
    """The largest change by a unit that annealing finds is close to the stated sensitivity, but not above it."""
    strategy = strategy_named(name, workload)
    R = strategy.apply(np.eye(workload.n_cells))
    found = annealed(R, keys, l1=False, seed=keys)
    assert found <= strategy.l2(keys) * (1 + 1e-9) <= loosest * found
    assert annealed(R, keys, l1=True, seed=keys) <= strategy.l1(keys) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 8, 16])
def test_haar_is_priced_exactly(n: int) -> None:
    """The sensitivity of the Haar strategy equals the largest change over all sets of cells, by brute force."""
    strategy = strategy_named("haar", Ranges(n))
    sets = np.array(list(product((0.0, 1.0), repeat=n)))
    moves = sets @ strategy.apply(np.eye(n)).T
    for keys in range(1, n + 1):
        some = moves[sets.sum(axis=1) <= keys]
        assert strategy.l1(keys) == np.abs(some).sum(axis=1).max()
        assert strategy.l2(keys) == pytest.approx(np.linalg.norm(some, axis=1).max())


@pytest.mark.parametrize("kind", [Prefix, Ranges])
@pytest.mark.parametrize(("blend", "window"), [(0, 0), (0.5, 3), (4, 8), (64, 15)])
@pytest.mark.parametrize("n", [3, 30, 500])
def test_rows_of_the_spectral_strategy_fall_away_from_the_diagonal(kind, blend, window, n) -> None:  # type: ignore[no-untyped-def]
    """Every row of the spectral kernel is positive and decreases away from the diagonal, as the L2 bound requires."""
    strategy = strategy_named(f"spectral(blend={blend}, window={min(window, n - 1)})", kind(n))
    i, kernel, table = np.arange(n), strategy.kernel, strategy._table
    K = table[np.abs(i[:, None] - i)] + kernel.sign * table[i[:, None] + i + kernel.shift]
    K += strategy._added * np.eye(n)
    small = 1e-12 * K.max()
    assert K.min() > 0
    steps = np.diff(K, axis=1)
    assert (steps[np.tril_indices(n, -1, n - 1)] >= -small).all() and (
        steps[np.triu_indices(n, 0, n - 1)] <= small
    ).all()
    R = strategy.apply(np.eye(n))
    gram = R.T @ R
    np.testing.assert_allclose(gram, K / np.outer(strategy._scales, strategy._scales), atol=1e-10)
    by_distance = np.array([np.diag(gram, apart).max() for apart in range(n)])
    assert (np.diff(by_distance) <= 1e-9).all()


@pytest.mark.parametrize("kind", [Prefix, Ranges])
@pytest.mark.parametrize("keys", [2, 40, 300, 1000])
def test_grouped_ranks_bound_every_rank(kind, keys: int) -> None:  # type: ignore[no-untyped-def]
    """With 1,500 cells, a unit with adjacent cells causes a change within 4 % of the spectral sensitivity."""
    n = 1500
    strategy = strategy_named("spectral", kind(n))
    R = strategy.apply(np.eye(n))
    sums = np.concatenate([np.zeros((len(R), 1)), np.cumsum(R, axis=1)], axis=1)
    runs = np.linalg.norm(sums[:, keys:] - sums[:, :-keys], axis=0).max()
    assert runs <= strategy.l2(keys) <= 1.04 * runs


@pytest.mark.parametrize("patterns", [2**12, 8])
def test_bounds_by_patterns_hold_with_and_without_a_list_of_them(monkeypatch, patterns: int) -> None:  # type: ignore[no-untyped-def]
    """The L2 bound of marginals holds for all sets of cells, even if there are too many patterns to enumerate."""
    monkeypatch.setattr("sparsehist.workload.sensitivity._MOST_PATTERNS", patterns)
    sizes, rng = (2, 3, 2), seeded(11)
    cells = np.array(np.unravel_index(np.arange(12), sizes))
    differs = cells[:, :, None] != cells[:, None, :]
    members = (np.arange(1, 2**12)[:, None] >> np.arange(12) & 1).astype(np.float64)
    subsets = [subset for length in range(4) for subset in combinations(range(3), length)]
    for _ in range(20):
        parts = rng.exponential(size=len(subsets)) * (rng.random(len(subsets)) < 0.6)
        ratios = np.where(rng.random(3) < 0.5, -1.0 / (np.array(sizes) - 1.0), 0.0)
        factors = np.where(differs, ratios[:, None, None], 1.0)
        dense = sum(part * factors[list(one)].prod(axis=0) for part, one in zip(parts, subsets, strict=True))
        sums = ((members @ dense) * members).sum(axis=1)
        for keys in range(1, 13):
            bound = squared_l2_of_tables(sizes, subsets, parts, ratios, keys)
            assert sums[members.sum(axis=1) <= keys].max() <= bound * (1 + 1e-9)


def test_many_columns_are_priced() -> None:
    """For marginals of all pairs of 30 columns, the sensitivity to 20 cells is below 20 times that to one cell."""
    made = ResidualBasis(Marginals((5,) * 20 + (4,) * 10, 2))
    assert np.sqrt(20.0) < made.l2(20) < 20
    assert ResidualBasis(Marginals((10**40, 3, 4), [[1], [2]])).l2(20) == pytest.approx(20.0)


@pytest.mark.parametrize(
    "workload", [Prefix(17), Ranges(17), Ranges(9, [(0, 8), (3, 5), (3, 5), (8, 8)]), Identity(5), Total(6), SIGNED]
)
def test_the_gram_matrix_is_that_of_the_rows(workload: Workload) -> None:
    """The Gram matrix of a workload equals AᵀA for its explicit matrix A; more than 1,024 cells are refused."""
    rows = workload.apply(np.eye(workload.n_cells))
    np.testing.assert_array_equal(gram_of(workload), rows.T @ rows)
    with pytest.raises(DeclarationError, match="too many cells for a Gram matrix: 1025"):
        gram_of(Prefix(1025))
