from __future__ import annotations

import math

import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Prefix,
    Ranges,
    Total,
    Union,
    Workload,
    choose,
    compare,
    lower_bound,
    strategy_named,
)
from sparsehist.workload.lower_bound import _kernel, _reflected_windows


@pytest.mark.parametrize(
    "workload", [Prefix(300), Ranges(300), Prefix(1), Ranges(2), Identity(50), Total(9)], ids=str
)
@pytest.mark.parametrize("keys", [1, 8])
@pytest.mark.parametrize("pure", [False, True])
def test_the_chosen_strategy_is_the_best_of_the_table(workload, keys, pure):
    """What `choose` takes is priced in the table, and nothing there is better."""
    chosen, table = choose(workload, keys, pure=pure), compare(workload, keys, pure=pure)
    errors = {candidate.strategy: candidate.mean_squared_error for candidate in table}
    assert errors[chosen.name] == pytest.approx(min(errors.values()))
    assert errors == dict(sorted(errors.items(), key=lambda item: item[1]))
    for candidate in table:
        made = strategy_named(candidate.strategy, workload)
        scale = made.l1_sensitivity(keys) if pure else made.sensitivity(keys).l2
        assert candidate.mean_squared_error == pytest.approx(scale**2 * made.mean_variance())
        assert math.isfinite(candidate.mean_squared_error) and candidate.mean_squared_error > 0
        assert candidate.ratio is None if pure else candidate.ratio >= 1 - 1e-9


def test_the_choice_depends_on_the_cells_of_a_unit():
    """At many cells a unit the plain spectral strategy loses to the identity, and what is chosen beats both."""
    table = {candidate.strategy: candidate.mean_squared_error for candidate in compare(Prefix(256), 80)}
    chosen = choose(Prefix(256), 80).name
    assert table["identity"] < table["spectral"] / 1.8
    assert table[chosen] < table["identity"]


def test_a_long_column_is_priced_on_a_shorter_one():
    """The choice for ten million cells is made at once, and keeps the length of its transform in its name."""
    assert choose(Prefix(10**7), 1).name == "spectral(length=10005187)"
    assert choose(Ranges(10**7), 1, pure=True).name.startswith("hierarchical")


def test_a_total_is_measured_as_it_is():
    """One query is one noise, whatever the number of cells."""
    strategy = choose(Total(1000), 3)
    assert (strategy.name, strategy.n_noise, strategy.sensitivity(3).l2) == ("direct", 1, 3.0)


def test_a_small_matrix_has_a_strategy_of_its_own():
    """For a small matrix the optimised strategy is among those compared, and its choice is no worse than others."""
    matrix = [[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1]]
    table = compare(Workload(matrix), 1)
    assert table[0].strategy == choose(Workload(matrix), 1).name


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    "workload",
    [
        Union(Marginals((2, 3), 1), Marginals((2, 3), [[]])),
        Union(Kronecker(Identity(2), Identity(3)), Marginals((2, 3), [[0]])),
        Union(Union(Kronecker(Total(4))), Identity(4)),
        Union(Workload([[0, 0, 0]]), Identity(3)),
    ],
    ids=["marginals", "product and marginals", "a union in a union", "a part that asks nothing"],
)
def test_every_union_has_a_strategy(workload, pure, keys):
    """Also one whose columns are not known one by one, or with a part that asks nothing."""
    chosen = choose(workload, keys, pure=pure)
    chosen.check(rng=entropy.seeded(1))
    assert compare(workload, keys, pure=pure)[0].strategy == chosen.name


@pytest.mark.parametrize("keys", [1, 3])
def test_what_asks_nothing_has_no_strategy(keys):
    """It is refused in words, for units of any number of cells."""
    with pytest.raises(DeclarationError, match=r"no strategy answers|asks nothing"):
        choose(Workload([[0, 0, 0]]), keys)


@pytest.mark.parametrize("kind", [Prefix, Ranges])
@pytest.mark.parametrize("keys", [2, 5, 20])
def test_bounds_of_long_columns_agree_with_those_of_short_ones(kind, keys):
    """Windows reflected at the ends, in closed form, bound nearly as well as windows written out, never better."""
    dense = lower_bound(kind(1024), keys).mean_squared_error
    closed = _reflected_windows(_kernel(kind(1024)), keys) / kind(1024).n_queries
    assert 0.95 * dense <= closed <= dense


@pytest.mark.parametrize(("kind", "most"), [(Prefix, 1.2), (Ranges, 1.1)])
def test_long_columns_are_near_their_bound_for_units_of_several_cells(kind, most):
    """At twenty cells a unit what is chosen for 4,096 cells is proven to be within 20 and 10 % of the best."""
    chosen = choose(kind(4096), 20)
    error = chosen.sensitivity(20).l2 ** 2 * chosen.mean_variance()
    assert 1 <= error / lower_bound(kind(4096), 20).mean_squared_error <= most
