"""What l cells of one unit add up to under a strategy that looks at cells column by column.

For the strategies on marginals the Gram matrix G = RᵀR knows of two cells only in which columns they differ:
G(x, x') = Σ_A f_A Π_{i ∈ A, x_i ≠ x'_i} r_i over subsets A of the columns, with f_A ≥ 0 the part of a column's
squared norm that A holds, and -1 <= r_i <= 0 (-1/(n_i - 1) for centred columns, 0 for plain ones). A unit that
touches l distinct cells moves R·x by at most the root of the largest sum of G over l cells with themselves. Bounds:

- every entry is at most f = Σ f_A, so l²·f;
- l times the largest eigenvalue of G, where the caller knows it;
- a linear programme, for up to seven columns, in the numbers m_D of ordered pairs of cells that differ in exactly the
  columns D (Delsarte 1973, for codes): m_∅ = l, Σ m_D <= l², each m_D within the caps below, at most
  l·min(l, cells that agree on B) pairs agree on all columns of B, and Σ_D m_D·Π_{i ∈ B∩D} -1/(n_i - 1) >= 0 for
  every B, as that is a squared norm. Numbers of a set of j < l cells, times l/j, keep to all of it, and so does the
  sum: what is maximal over sets of l cells bounds smaller ones. The bound is that of the dual solution, in doubles,
  so that no tolerance of the solver counts;
- pairs: of the l(l-1)/2 pairs of distinct cells at most l·m_D/2 differ in exactly the columns D, where m_D is the
  product of n_i - 1 over D, and at most e(l) differ in one column only, e the largest number of edges among l
  vertices of a product of complete graphs (Lindsey 1964: the first l in lexicographic order, largest column
  fastest). Pairs go to the largest values first within these caps. With more columns than can be enumerated, pairs
  that differ in three or more share one bound, taken over the three columns known to differ.

A set of l cells written down gives a lower bound to stand beside them. Few cells are tried in all ways (`few_cells`).
Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from sparsehist.typing import ArrayLike, BoolArray, FloatArray, IntArray
from sparsehist.workload.gram.few_cells import greatest, merge_unused, sums_of_products
from sparsehist.workload.gram.profiles import Profile, as_reached, between, numbers_up_to

_PROGRAMMED = 7
"""Up to so many columns the linear programme is solved: 128 unknowns."""

_PROGRAMMES = 4
"""Programmes that are solved to bound all numbers of cells at once, fewer of more than four columns."""

_LOOKED_AT = 2**17
"""Cells of a set times patterns of their columns, where sets of all sizes are looked at."""

_ENUMERATED = 14
"""Up to so many columns all patterns of agreement are listed: 2**14 values."""

_ALL_ORDERS = 4
"""Up to so many columns the set of cells is sought in every order of them."""

_COUNTED = 2**16
"""Up to so many cells of a unit the edges of all smaller sets are counted."""

_WRITTEN_OUT = 1024
"""Cells of the set behind the lower bound; its square is how many pairs are looked at."""

_ROUNDING = 1e-12
"""Relative; far above what sums of so many positive terms lose, far below what matters."""


class Columns(NamedTuple):
    """A Gram matrix that knows of two cells only in which columns they differ.

    Attributes:
        sizes: Number of values of each column, Python integers.
        subsets: The sets A, each a sorted tuple of column numbers.
        parts: f_A >= 0; shape (subsets,).
        ratios: r_i in [-1, 0]; shape (columns,).
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]
    parts: FloatArray
    ratios: FloatArray


class Bounds(NamedTuple):
    """Largest sum of G over l cells with themselves: certified from above, attained from below."""

    upper: float
    lower: float


def largest_sum(gram: Columns, n_cells: int, largest_eigenvalue: float = math.inf) -> Bounds:
    """Bound max 1ᵀ_S G 1_S over sets S of at most `n_cells` distinct cells, from both sides.

    Args:
        gram: The Gram matrix.
        n_cells: l >= 1, as many cells as one unit touches.
        largest_eigenvalue: Of G, where it is known.
    """
    gram = _merged(gram)
    cells = min(n_cells, math.prod(gram.sizes))
    whole = float(gram.parts.sum())
    if not gram.sizes or cells == 1:
        return Bounds(cells * cells * whole, cells * cells * whole)
    tried = _greatest(gram, cells)
    if math.isfinite(tried):
        return Bounds(tried * (1.0 + _ROUNDING), tried)
    upper = upper_sum(gram, cells, largest_eigenvalue)
    lower = max(*(_sum_over_first(gram, cells, order) for order in _orders(gram)), *_sums_over_stars(gram, cells))
    return Bounds(upper, min(lower, upper))


def upper_sum(gram: Columns, n_cells: int, largest_eigenvalue: float = math.inf, *, programmed: bool = True) -> float:
    """The upper bound of `largest_sum`; without the linear programme at a fraction of the time."""
    gram = _merged(gram)
    whole = float(gram.parts.sum())
    cells = min(n_cells, math.prod(gram.sizes))
    if not gram.sizes or cells == 1:
        return cells * cells * whole
    closer = min(cells * largest_eigenvalue, cells * whole + 2.0 * _sum_of_pairs(gram, cells))
    if programmed and len(gram.sizes) <= _PROGRAMMED:
        closer = min(closer, float(_programmed(gram, np.array([cells]), [cells])[0]))
    return min(cells * cells * whole, closer * (1.0 + _ROUNDING))


def _greatest(gram: Columns, cells: int) -> float:
    """The greatest sum itself, where the sets are few enough to be tried."""
    parts: dict[tuple[int, ...], float] = {}
    for subset, part in zip(gram.subsets, gram.parts.tolist(), strict=True):
        parts[subset] = parts.get(subset, 0.0) + part

    def term(subset: tuple[int, ...], partitions: Sequence[IntArray], cells: int) -> FloatArray:
        factors = [np.ones((1, cells**2))]
        for column, part in zip(subset, partitions, strict=True):
            alike = (part[:, :, np.newaxis] == part[:, np.newaxis]).reshape(len(part), -1)
            factors.append(np.where(alike, 1.0, gram.ratios[column]))
        return np.asarray(parts[subset] * sums_of_products(factors)[0])

    return greatest(gram.sizes, list(parts), term, cells)


def profile(gram: Columns, n_cells: int, largest_eigenvalue: float = math.inf) -> Profile:
    """What 1, 2, …, `n_cells` cells come to, at most all: by the linear programme of a few of these numbers.

    Under |G| it is the same with |r_i|: 1 on the diagonal and |r_i| <= 1 elsewhere is positive semidefinite, products
    and positive sums of such matrices are too, and none of their entries is below that of G or of −G.
    """
    gram = _merged(gram)
    cells = min(n_cells, math.prod(gram.sizes))
    plain = not np.any(gram.ratios)
    norms = _bounds_of_all(gram, cells, largest_eigenvalue, programmes=_PROGRAMMES)
    majorant = norms
    if not plain:
        unsigned = gram._replace(ratios=np.abs(gram.ratios))
        majorant = norms[0] * np.arange(1, cells + 1)
        if len(gram.sizes) <= _ENUMERATED:
            majorant = _bounds_of_all(unsigned, cells, programmes=_PROGRAMMES // 2)
    columns = len(gram.sizes)
    numbers = numbers_up_to(max(1, min(cells, _LOOKED_AT >> columns)))[:: max(1, columns - 2)].tolist()
    order = _orders(gram)[0] if columns else []
    found = [math.sqrt(max(0.0, _sum_over_first(gram, number, order))) * (1.0 - _ROUNDING) for number in numbers]
    reached = as_reached([*numbers, cells + 1], [*found, found[-1]])[:cells]
    return Profile(norms, majorant, np.minimum(reached, norms), largest_eigenvalue)


def _bounds_of_all(gram: Columns, cells: int, largest_eigenvalue: float = math.inf, *, programmes: int) -> FloatArray:
    """Roots of bounds of the sum of G over 1, 2, …, `cells` cells; of many columns by fewer programmes, or none."""
    every = np.arange(1.0, cells + 1)
    norms = np.sqrt(np.minimum(float(gram.parts.sum()) * every**2, largest_eigenvalue * every))
    columns = len(gram.sizes)
    if not columns or cells == 1:
        return norms
    programmes = min(programmes, _PROGRAMMED - columns + 1)
    numbers = np.unique(np.rint(np.geomspace(1, cells, 1 + max(2, programmes))).astype(np.int64))
    if programmes > 1 or (programmes == 1 and largest_eigenvalue < math.inf):
        squares = _programmed(gram, every.astype(np.int64), numbers[1:].tolist()) * (1.0 + _ROUNDING)
        norms = np.maximum.accumulate(np.minimum(norms, np.sqrt(squares)))
        return np.minimum(norms, between(numbers, norms[numbers - 1]))
    asked = [math.sqrt(upper_sum(gram, number, largest_eigenvalue, programmed=False)) for number in numbers.tolist()]
    return np.minimum(norms, between(numbers, asked))


def _programmed(gram: Columns, cells: IntArray, solved: Sequence[int]) -> FloatArray:
    """The bounds of the linear programme for some numbers of cells.

    Any multipliers prove one, and the solver's are the best: those of the numbers it is solved for serve all.
    """
    from scipy.optimize import linprog  # a fifth of a second, for marginals of several keys only

    values = all_patterns(gram, range(len(gram.sizes))).reshape(-1)
    norms: FloatArray = np.ones((1, 1))
    agreeing: FloatArray = np.ones((1, 1))
    differing: FloatArray = np.zeros(1)
    together = np.ones(1)  # cells that agree on B
    for size in gram.sizes:
        norms = np.kron(norms, [[1.0, 1.0], [1.0, -1.0 / (size - 1)]]).astype(np.float64)
        agreeing = np.kron(agreeing, [[1.0, 1.0], [1.0, 0.0]]).astype(np.float64)
        differing = np.add.outer(differing, [0.0, 1.0]).reshape(-1)
        together = np.kron(together, [float(size), 1.0]).astype(np.float64)
    rows = np.concatenate([np.ones((1, values.size)), -norms[1:], agreeing[1:], (differing == 1.0)[np.newaxis]])

    def limits_of(cells: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Right sides, and the least and the largest numbers of pairs; shapes (numbers, rows or patterns)."""
        number = cells[:, np.newaxis].astype(np.float64)
        edges = most_edges(gram.sizes, np.arange(1, min(int(cells.max()), _COUNTED) + 1))
        # Where sets are too many to look at, cells in one column with l - 1 others each are allowed for.
        each = np.maximum.accumulate(2 * edges / np.arange(1, edges.size + 1))
        single = np.where(cells <= _COUNTED, each[np.minimum(cells, _COUNTED) - 1], cells - 1.0)[:, np.newaxis]
        room = [number, np.zeros((cells.size, values.size - 1)), np.minimum(number, together[1:]), single]
        caps = np.ones((cells.size, 1))
        for size in gram.sizes:
            caps = np.stack([caps, caps * np.minimum(size - 1, number)], axis=2).reshape(cells.size, -1)
        high = number * np.minimum(caps, number - 1.0)
        low = np.zeros_like(high)
        high[:, 0] = low[:, 0] = cells
        return number * np.concatenate(room, axis=1), low, high

    limits, low, high = limits_of(cells)
    bounds = np.full(cells.size, math.inf)
    for at in range(len(solved)):
        right, least, largest = (part[0] for part in limits_of(np.array(solved[at : at + 1])))
        box = np.stack([least, largest], axis=1)
        found = linprog(-values, A_ub=rows, b_ub=right, bounds=box, method="highs-ds")
        if found.ineqlin is None:
            continue
        multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
        rest = values - multipliers @ rows
        bounds = np.minimum(bounds, limits @ multipliers + np.maximum(rest * low, rest * high).sum(axis=1))
    return bounds


def most_edges(sizes: Sequence[int], n_cells: ArrayLike) -> IntArray:
    """Most pairs of so many distinct cells that differ in one column only (Lindsey 1964); numbers of any shape.

    Example:
        >>> most_edges((2, 2, 2), [2, 4]).tolist(), most_edges((3, 2), 3).tolist()
        ([1, 4], 3)
    """
    # A cell written as a number, its largest column the fastest digit, has below it one neighbour for every smaller
    # value of every digit: the sum of its digits.
    number = np.asarray(n_cells, np.int64)
    most = int(number.max())
    edges, block = np.zeros(number.shape, np.int64), 1
    for size in sorted(sizes, reverse=True):
        if block >= most:
            break
        period = min(block * size, most + 1)  # beyond, it is never full
        full, rest = np.divmod(number, period)
        whole, part = np.divmod(rest, block)
        in_period = block * (size * (size - 1) // 2) if period <= most else 0
        edges += full * in_period + block * (whole * (whole - 1) // 2) + part * whole
        block = period
    return edges


def all_patterns(gram: Columns, columns: Sequence[int]) -> FloatArray:
    """G at every pattern of differing among some columns, the others agreeing.

    Returns:
        Shape (2,) * len(columns): index 1 along an axis where that column differs.
    """
    place = {column: axis for axis, column in enumerate(columns)}
    values = np.zeros((2,) * len(columns))
    for subset, part in zip(gram.subsets, gram.parts.tolist(), strict=True):
        index = [0] * len(columns)
        for column in subset:
            if column in place:
                index[place[column]] = 1
        values[tuple(index)] += part
    for column, axis in place.items():
        absent, present = np.take(values, 0, axis), np.take(values, 1, axis)
        values = np.stack([absent + present, absent + gram.ratios[column] * present], axis=axis)
    return values


def _merged(gram: Columns) -> Columns:
    """The same without columns that do not matter."""
    sizes, subsets, used = merge_unused(gram.sizes, gram.subsets)
    ratios = np.append(gram.ratios[used], np.zeros(len(sizes) - len(used)))
    return Columns(sizes, subsets, gram.parts, ratios)


def _sum_of_pairs(gram: Columns, cells: int) -> float:
    """Bound the sum of G over pairs of `cells` distinct cells: largest values first, within the caps."""
    values, caps, single, beyond = _patterns(gram, cells)
    left = cells * (cells - 1) / 2.0
    edges_left = float(most_edges(gram.sizes, cells))
    total = 0.0
    for place in np.argsort(-values, kind="stable").tolist():
        if left <= 0.0 or values[place] <= beyond:
            break
        pairs = min(caps[place], left, edges_left if single[place] else math.inf)
        total += pairs * float(values[place])
        left -= pairs
        edges_left -= pairs if single[place] else 0.0
    return total + left * beyond


def _patterns(gram: Columns, cells: int) -> tuple[FloatArray, FloatArray, BoolArray, float]:
    """Values of G by pattern, how many pairs may have each, which differ in one column; and a bound on all others."""
    n_columns = len(gram.sizes)
    others = [min(size - 1, cells - 1) for size in gram.sizes]
    if n_columns <= _ENUMERATED:
        values = all_patterns(gram, range(n_columns)).reshape(-1)[1:]
        multiplicity, differing = np.ones(1), np.zeros(1)
        for other in others:
            multiplicity = np.outer(multiplicity, [1.0, other]).reshape(-1)
            differing = np.add.outer(differing, [0.0, 1.0]).reshape(-1)
        caps = np.minimum(multiplicity[1:], cells - 1) * cells / 2.0
        return values, caps, differing[1:] == 1.0, 0.0
    sums = _Inclusion.of(gram)
    first, second = np.array(list(combinations(range(n_columns), 2))).T
    one, both = _one_and_two(gram, sums)
    two = both[first, second]
    number = np.array(others, np.float64)
    caps = np.minimum(np.concatenate([number, number[first] * number[second]]), cells - 1) * cells / 2.0
    single = np.arange(len(caps)) < n_columns
    return np.concatenate([one, two]), caps, single, max(0.0, _bound_beyond_pairs(gram, sums))


def _one_and_two(gram: Columns, sums: _Inclusion) -> tuple[FloatArray, FloatArray]:
    """G of cells that differ in one column, and in two; shapes (columns,) and (columns, columns)."""
    away = gram.ratios - 1.0
    one = sums.whole + sums.single * away
    return one, np.add.outer(one, one) - sums.whole + sums.double * np.outer(away, away)


class _Inclusion(NamedTuple):
    """Sums of f_A over the subsets that hold given columns."""

    whole: float
    single: FloatArray
    double: FloatArray
    triple: FloatArray

    @classmethod
    def of(cls, gram: Columns, *, triples: bool = True) -> _Inclusion:
        """Sum up; entries of pairs and triples stand at every order of the columns, or at the ascending one."""
        n = len(gram.sizes)
        single, double, triple = np.zeros(n), np.zeros((n, n)), np.zeros((n, n, n) if triples else (0, 0, 0))
        for members, parts in by_length(gram.subsets, gram.parts):
            for target, order in ((single, 1), (double, 2), (triple, 3))[: 3 if triples else 2]:
                for chosen in combinations(range(members.shape[1]), order):
                    np.add.at(target, tuple(members[:, place] for place in chosen), parts)
        return cls(float(gram.parts.sum()), single, double + double.T, triple)


def by_length(subsets: Sequence[tuple[int, ...]], parts: FloatArray) -> list[tuple[IntArray, FloatArray]]:
    """Subsets of one length as the rows of an array, with their parts."""
    lengths = np.array([len(subset) for subset in subsets])
    return [
        (np.array([subsets[place] for place in places], np.int64).reshape(len(places), length), parts[places])
        for length in np.unique(lengths).tolist()
        for places in [np.flatnonzero(lengths == length).tolist()]
    ]


def _bound_beyond_pairs(gram: Columns, sums: _Inclusion) -> float:
    """Bound G of two cells that differ in at least three columns.

    Take three of the columns D that differ; what the others do is unknown. With B = A ∩ D the term of A is f_A times
    the product of r over B times that over more columns of A. Where the first is positive the second is at most 1;
    where it is negative the second is exactly 1 if A = B, and else at least -max|r|.
    """
    n = len(gram.sizes)
    along = np.arange(n)
    columns = np.nonzero((along[:, np.newaxis, np.newaxis] < along[:, np.newaxis]) & (along[:, np.newaxis] < along))
    size = np.abs(gram.ratios)
    flipped = float(size.max())
    alone = {1: np.zeros(n), 3: np.zeros((n, n, n))}
    for members, parts in by_length(gram.subsets, gram.parts):
        if members.shape[1] in alone:
            np.add.at(alone[members.shape[1]], tuple(members.T), parts)
    i, j, k = columns
    triple = sums.triple[i, j, k]
    pairs = {frozenset(pair): sums.double[columns[pair[0]], columns[pair[1]]] for pair in combinations(range(3), 2)}
    total = np.full(len(i), sums.whole)
    bound = size[i] * size[j] * size[k] * (flipped * (triple - alone[3][i, j, k]) - alone[3][i, j, k])
    for one, two in combinations(range(3), 2):
        exactly = pairs[frozenset((one, two))] - triple
        bound += size[columns[one]] * size[columns[two]] * exactly
        total -= exactly
    for one in range(3):
        two, three = (other for other in range(3) if other != one)
        exactly = sums.single[columns[one]] - pairs[frozenset((one, two))] - pairs[frozenset((one, three))] + triple
        itself = alone[1][columns[one]]
        bound += size[columns[one]] * (flipped * (exactly - itself) - itself)
        total -= exactly
    return float(np.max(bound + total - triple))


def _orders(gram: Columns) -> list[list[int]]:
    """Columns to fill first, for sets of cells close to each other."""
    columns = range(len(gram.sizes))
    if len(columns) <= _ALL_ORDERS:
        return [list(order) for order in permutations(columns)]
    near, _ = _one_and_two(gram, _Inclusion.of(gram, triples=False))
    return [
        sorted(columns, key=lambda column: (-gram.sizes[column], -near[column])),
        sorted(columns, key=lambda column: (-near[column], -gram.sizes[column])),
    ]


def _sums_over_stars(gram: Columns, cells: int) -> list[float]:
    """Sums of G over a cell and cells that differ from it in one column: few in each of many, or many in few."""
    one, two = _one_and_two(gram, _Inclusion.of(gram, triples=False))
    np.fill_diagonal(two, one)
    room = np.array([min(size, cells) - 1 for size in gram.sizes], np.float64)
    sums = []
    for depth in sorted({1.0, float(room.max())}):
        taken = np.zeros(len(one))
        for column in np.argsort(-one, kind="stable").tolist():
            taken[column] = min(room[column], depth, cells - 1 - taken.sum())
        whole = float(gram.parts.sum()) * (1.0 + taken.sum())
        # pairs in one column: taken·(taken - 1), so one of every row is a cell itself
        sums.append(float(whole + 2.0 * taken @ one + taken @ two @ taken - taken @ one))
    return sums


def _sum_over_first(gram: Columns, cells: int, order: Sequence[int]) -> float:
    """Sum of G over the first cells in lexicographic order, the first column of `order` the fastest."""
    cells = min(cells, _WRITTEN_OUT)
    rest, digits, columns = np.arange(cells), [], []
    for column in order:
        if not rest.any():
            break
        rest, digit = np.divmod(rest, gram.sizes[column]) if gram.sizes[column] < cells else (rest * 0, rest)
        digits.append(digit)
        columns.append(column)
    counts = _pairs_by_pattern(digits)
    return float(np.sum(all_patterns(gram, columns) * counts))


def _pairs_by_pattern(digits: Sequence[IntArray]) -> IntArray:
    """How many ordered pairs of cells differ in exactly which digits: index 1 along an axis where that one differs.

    Cells that agree in some digits at least are the squares of the sizes of groups; the rest is differences of these.
    """
    cells = digits[0].size if digits else 1
    agreeing = np.empty((2,) * len(digits), np.int64)
    for agrees in np.ndindex(agreeing.shape):
        code = np.zeros(cells, np.int64)
        for digit, counts in zip(digits, agrees, strict=True):
            if counts:
                code = code * (int(digit.max()) + 1) + digit
        groups = np.bincount(code)
        agreeing[agrees] = groups @ groups
    for axis in range(len(digits)):
        some, those = np.take(agreeing, 0, axis), np.take(agreeing, 1, axis)
        agreeing = np.stack([those, some - those], axis=axis)
    return agreeing
