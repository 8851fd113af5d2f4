"""Tests of audiences (readers who see noisy values at different levels), and of distances in graphs."""

from __future__ import annotations

import csv
from collections import Counter, deque
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.audiences import Audiences, Network, by_distance, distances, read_graph
from sparsehist.errors import CapExceededError, DataError, DeclarationError, InputError, LevelOrderError
from sparsehist.noise import DiscreteLaplace, Laplace, RandomisedResponse

KARATE = Path(__file__).parents[2] / "data" / "karate_club.csv"


def edges():
    """Return the edges of the karate club graph as pairs of integers."""
    with KARATE.open() as file:
        return [(int(one), int(other)) for one, other in list(csv.reader(file))[1:]]


def by_hand(pairs, sources):
    """Return the distance of each reachable node from the nearest source, by breadth-first search."""
    near = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    hops, queue = dict.fromkeys(sources, 0), deque(sources)
    while queue:
        node = queue.popleft()
        for other in near.get(node, ()):
            if other not in hops:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops


def graphlike(pairs, *, directed=False):
    """Return an object with the methods of a networkx graph that the package uses."""
    nodes = sorted({node for pair in pairs for node in pair})
    return SimpleNamespace(is_directed=lambda: directed, edges=lambda: pairs, nodes=lambda: nodes)


def test_the_karate_club_has_the_reference_values():
    """For the karate club graph, distances, and the level and noise of a coalition, equal reference values."""
    assert len(edges()) == len({frozenset(edge) for edge in edges()}) == 78
    hops = distances(edges(), 0)
    assert Counter(hops.values()) == {0: 1, 1: 16, 2: 9, 3: 8}
    club = Audiences(sh.MultipleRelease(Laplace(), [0] * 3), by_distance(hops))
    coalition = club.coalition([member for member, far in hops.items() if far >= 2])
    assert coalition.sum_of_levels == Fraction(43, 6)
    assert coalition.std_if_independent**2 == pytest.approx(0.63716814159292035398, rel=1e-14)
    assert (coalition.level, coalition.std**2) == (Fraction(1, 2), pytest.approx(8))


def test_every_form_of_a_graph_gives_the_same_distances():
    """Pairs, mappings, arrays, frames and graph objects give equal distances, with integers or names as nodes."""
    pairs = [(one * 10**6, other * 10**6) for one, other in edges()]
    near = {}
    for one, other in pairs:
        near.setdefault(one, []).append(other)
        near.setdefault(other, [])
    frame = pl.DataFrame(pairs, schema=["a", "b"], orient="row")
    for form in (pairs, near, np.array(pairs), frame, frame.to_pandas(), graphlike(pairs), iter(pairs)):
        assert distances(form, 0) == by_hand(pairs, [0])
    named = [(f"member {one}", f"member {other}") for one, other in edges()]
    assert distances(named, "member 0") == by_hand(named, ["member 0"])


@pytest.mark.parametrize("seed", range(6))
def test_distances_are_those_of_a_plain_search(seed):
    """Distances in random graphs equal those of a breadth-first search, from one source or several."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 300, (int(rng.integers(100, 500)), 2))
    graph = read_graph(pairs)
    for many in (1, 3):
        sources = rng.choice(list(graph.people), many, replace=False).tolist()
        hops = dict(zip(graph.people, graph.hops(sources).tolist(), strict=True))
        assert {node: far for node, far in hops.items() if far >= 0} == by_hand(pairs.tolist(), sources)


def test_what_is_no_graph_is_refused():
    """`distances` refuses directed graphs, arrays of a wrong shape, and a source that is no node of the graph."""
    for graph in (np.zeros((3, 3)), 5, graphlike([(1, 2)], directed=True)):
        with pytest.raises(DataError):
            distances(graph, 1)
    with pytest.raises(InputError, match="no node"):
        distances([(1, 2)], 3)


def test_readers_read_their_level_and_are_never_lowered():
    """A reader sees the same noisy values until the reader's level is raised.

    The level of a reader cannot be lowered, and cannot exceed the cap of the vector.
    """
    vector = sh.MultipleRelease(DiscreteLaplace(), np.arange(1000), cap=1)
    staff = Audiences(vector, {"ann": "1/2", "bob": "1/10"})
    first = staff.read("bob")
    assert np.array_equal(staff.read("bob").values, first.values)
    assert first.level == Fraction(1, 10)
    staff.admit("bob", "1/2")
    assert np.array_equal(staff.read("bob").values, staff.read("ann").values)
    staff.admit("cid", 1)
    with pytest.raises(LevelOrderError, match="cannot be lowered"):
        staff.admit("ann", "1/4")
    with pytest.raises(CapExceededError):
        staff.admit("dan", 2)
    with pytest.raises(InputError, match="no reader"):
        staff.read("dan")
    assert staff.levels == {"ann": Fraction(1, 2), "bob": Fraction(1, 2), "cid": Fraction(1)}


def test_a_network_shows_each_value_at_the_level_of_its_distance():
    """Readers at equal distance from the owner of a value see equal noisy values. Readers too far away see none."""
    values = {member: 100 * member for member in range(34)}
    club = Network(values, edges(), DiscreteLaplace(), levels={1: "1", 2: "1/2"})
    hops = {reader: distances(edges(), reader) for reader in range(34)}
    seen = {}
    for reader in range(34):
        view = club.view(reader)
        assert set(view) == {owner for owner, far in hops[reader].items() if far in (1, 2)}
        for owner, value in view.items():
            far = hops[reader][owner]
            assert view.level(owner) == Fraction(1, far)
            assert seen.setdefault((owner, far), value) == value
    assert all(abs(value - values[owner]) < 60 for (owner, _), value in seen.items())
    assert any(value != values[owner] for (owner, _), value in seen.items())


def test_a_coalition_knows_what_its_nearest_member_knows():
    """A coalition sees the value of an owner outside it exactly as the member nearest to that owner sees it."""
    club = Network(np.arange(34) * 100, edges(), RandomisedResponse(4_000))
    members = [16, 25, 8]
    together = club.coalition(members)
    views = {member: club.view(member) for member in members}
    assert set(together) == set(range(34)) - set(members)
    for owner, value in together.items():
        nearest = min(members, key=lambda member: distances(edges(), member)[owner])
        assert (value, together.level(owner)) == (views[nearest][owner], views[nearest].level(owner))
    club.seal()
    assert dict(club.coalition(members)) == dict(together)
    again = Network.from_bytes(club.to_bytes(), edges())
    assert dict(again.coalition(members)) == dict(together)
    with pytest.raises(DataError, match="nodes"):
        Network.from_bytes(club.to_bytes(), edges()[:5])


def test_a_network_checks_what_it_is_given():
    """A network refuses missing values, missing levels and levels that rise with distance; no repr shows a value."""
    with pytest.raises(DataError):
        Network(np.zeros(33, int), edges(), DiscreteLaplace())
    for levels in ({}, {1: "1/2", 2: 1}):
        with pytest.raises(DeclarationError):
            Network(np.zeros(34, int), edges(), DiscreteLaplace(), levels=levels)
    club = Network(np.full(34, 777), edges(), DiscreteLaplace())
    assert "777" not in repr(club) + repr(club.view(0))
