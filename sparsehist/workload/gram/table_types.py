"""What l cells of one unit move residuals by in L1: a linear programme in the types of the entries of tables.

A set S of l cells has a table of counts y_A for every set A of columns. Its residual is y_A centred along each of
them: r - l/n_i at a value that r cells have, and y - r/n_j - c/n_i + l/(n_i·n_j) at an entry of two columns, y its
count, r and c those of its row and of its column. So the L1 norms of both are linear in how many values and entries
there are of each *type*, r and (y, r, c), which are integers. What holds for every set of l cells:

- Over the values of a column Σ 1 = n_i, Σ r = l and Σ r² = Q_i. Q_A = Σ y_A² counts the ordered pairs of cells that
  agree on A, and is a sum of the numbers m_D of pairs that differ in exactly the columns D. These keep to Delsarte's
  programme (`agreement`).
- Of two columns, over the entries in the row of a value with r cells: Σ 1 = n_j, Σ y = r, Σ c = l. The sums of φ(r)
  times these over all rows are asked for, with φ(r) = 1, r, 1/(1 + r), and r² for the first; of the second the last
  φ only where all columns are alike. And Σ y² = Q_ij.
- *Signs.* Where all columns have two values, a residual is ±s/2^|A| at each entry, s a sum of l signs: an integer of
  the parity of l, and its norm is |s|. These are the only types there, for residuals of any order; Σ s² is known.
- *Triples*, of four columns and more that are all alike (`triples`): Σ r³, Σ y³, Σ r·y² and Σ r·c·y are numbers of
  triples x, y, z of cells; of the last, y is in the row of x and z in its column.
- *Slices.* The r cells of a row lie in the product of the values that they have in the other columns, d_j of column
  j: Π d_j >= r, so that Σ d_j is at least the least sum of such integers; d_j is the number of entries with y > 0 in
  that row of the table with j. Of three columns, the y cells of an entry have y values in the third: y <= d_k, and
  Σ y² <= r·d_k over the row. Again over all rows, times φ(r) = 1, r, 1/(1 + r).

Residuals of more columns, and tables of too many types, are bounded by tangents of Cauchy and Schwarz,
Σ |v| <= (Σ v²/t + n_A·t)/2, and by 2^|A|·Π (1 - 1/n_i) for each cell. The programme maximises the weighted sum of the
norms. Columns that may change places without changing a weight share their unknowns: the mean over such exchanges of
what a set gives keeps to all of the above.

Any multipliers prove a bound. Those of the solver, which is given some of the types, are completed for all types and
in doubles: the entries of a table, a known number, gain at most the largest gain of a type.

*Squares* alone give a bound, too, and all where there is no time for a programme. Of the set's indicator x, the
residual of A is √(N/n_A) times as long as the part of x that depends on exactly the columns A, N the number of all
cells; and its L1 norm is at most √n_A times its length. These parts are orthogonal and make up x, whose square is l;
that of no columns has l²/N. By Cauchy and Schwarz the weighted sum of the norms, but for that of no columns, is at
most √(Σ w_A²·l·(N - l)).

**Fewer cells.** Without types, numbers of a set of j < l cells, times l/j, keep to all of it, and its norms times
√(l/j), as squares grow with the numbers: with a bound U for l cells, their norms are at most (U - w·j)·√(j/l), w the
weight of the residual of no columns, which is j. With types l is exact. Let F(j) be the greatest weighted norm over
sets of j of all n cells, without that residual. Residuals of all cells together are 0, so a cell drawn from those
outside of S has -1/(n - j) times the residuals of S on average: by convexity F(j + 1) >= (1 - 1/(n - j))·F(j), hence
F(j) <= F(l)·(n - j)/(n - l) for j < l. A cell of S left out gives F(j) <= F(i)·j/i for i < j, and F(n - j) = F(j).
The programme is solved for l cells, then where these three leave most room, while there is work left. Of many cells a
programme without types is solved first with their number j as an unknown between two numbers: in the place of
Σ m = j², Σ m is at least the tangents of j² and at most its chord. That is linear, and bounds all of them at once.
Derived here; every set of small domains is tried in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload.gram.agreement import most_edges
from sparsehist.workload.gram.few_cells import greatest, norms_of_residual
from sparsehist.workload.gram.triples import ALIKE, MOST_PATTERNS, Triples, Y, Z, patterns_of

MOST_COLUMNS = 7
"""Up to so many columns there is a programme."""

_TYPES = 2**17
"""Of all tables together; all are checked, few are given to the solver."""

_WORK, _WORK_WITH_TRIPLES = 180_000, 230_000
"""For all programmes in types, in entries that the solver is given: 40 ms. What is proved by then stands."""

_CALL, _MADE, _PRICED = 15_000, 40, 80
"""As work: a call of the solver; so many entries of all types, made and looked at, or looked at again, as one."""

_RANGE, _FOR_RANGES = 0.85, 0.5
"""Numbers of cells bounded at once, the least to the most; and the part of the work that may be spent on it."""

_BEGUN, _PATTERN = 8_000, 10
"""As work: a programme but for its types; a pattern of triples."""

_GIVEN, _GIVEN_WITH_TRIPLES = 70_000, 25_000
"""Entries that the solver begins with, but for columns by themselves."""

_SPARSE = 8
"""Triples serve where at most one in so many cells is in a set; beyond, the time is better spent without them."""

_DENSE = 5
"""Ranges of numbers of cells serve where more than one in so many cells is in a set."""

_KINDS = 3
"""Of pairs of columns. Where there are more, there is no time for types of two columns: tangents bound them."""

_TANGENTS = 1.3 ** np.arange(-15, 36)
_FEW_TANGENTS = 1.3 ** np.array([-12, -6, -3, -1, 1, 3, 6, 10, 16, 24])
_MANY_TABLES = 20
"""Where there are more, each has few tangents: the solver takes long over a thousand rows."""

_LARGEST = 40_000
"""Entries of a programme without types, beyond which there is no time for one: squares are left."""

_FEW_CELLS = 6
_SIZES = 12
_ROUNDS = 8
_CLOSE = 1e-2
_KEPT, _ADDED = 100, 50
_GROWTHS = (1.4, 1.7, 2.0, 2.5, 3.0)
_ROUNDING = 1e-12


class WeightedResiduals(NamedTuple):
    """Residuals of tables with their weights.

    Attributes:
        sizes: Number of values of each column, at least 2; a column may be in no residual.
        subsets: The sets A of columns, each sorted, with all of their subsets.
        weights: What the L1 norm of each residual is multiplied by; shape (subsets,).
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]
    weights: FloatArray


def largest_l1(residuals: WeightedResiduals, n_cells: int) -> float:
    """Bound the sum of weighted L1 norms over sets of at most `n_cells` distinct cells.

    Example:
        >>> round(largest_l1(WeightedResiduals((3,), ((), (0,)), np.array([0.0, 1.0])), 3), 9)  # (2/3, -1/3, -1/3)
        1.333333333
    """
    whole = math.prod(residuals.sizes)
    most_cells = min(n_cells, whole)
    tried, few = _tried(residuals, most_cells)
    if few == most_cells:
        return tried * (1.0 + _ROUNDING)
    cells = min(most_cells, whole // 2)
    if cells <= few:
        return _Programme(residuals, most_cells, typed=False).bound() * (1.0 + _ROUNDING)
    sizes = np.arange(1.0, cells + 1)
    constant = float(residuals.weights[residuals.subsets.index(())])
    most = np.minimum(tried * np.maximum(1.0, sizes / few), _by_squares(residuals, sizes))
    first = _Programme(residuals, cells, typed=False)
    if first.entries > _LARGEST:
        return (float(most.max()) + constant * most_cells) * (1.0 + _ROUNDING)
    plain = first.bound()
    most = np.minimum(most, (plain - constant * sizes) * np.sqrt(sizes / cells))
    triples = _triples(residuals, cells)
    left = float(_WORK if triples is None else _WORK_WITH_TRIPLES - _PATTERN * triples.orbit.size)
    if _DENSE * cells > whole:
        most, left = _by_ranges(residuals, most, few, left - first.work)
    here, exact = cells, 0.0
    for _ in range(_SIZES):
        programme = _Programme(residuals, here, typed=True, triples=triples)
        found = programme.bound(left)
        left -= programme.work + _BEGUN
        exact = exact or found
        most = np.minimum(most, found * _of_others(sizes, here, here, whole))
        here = int(np.argmax(most)) + 1
        if most[here - 1] <= (1.0 + _CLOSE) * exact or left < programme.least:
            break
    bound = float(most.max()) + constant * most_cells
    if cells == most_cells:
        bound = min(bound, plain)
    return bound * (1.0 + _ROUNDING)


def _by_squares(residuals: WeightedResiduals, sizes: FloatArray) -> FloatArray:
    """Bound the norms of so many cells, but for that of no columns, by their squares; see the top."""
    weights = np.where([bool(subset) for subset in residuals.subsets], residuals.weights, 0.0)
    bounds: FloatArray = np.sqrt((weights**2).sum() * sizes * (math.prod(residuals.sizes) - sizes))
    return bounds


def _tried(residuals: WeightedResiduals, most_cells: int) -> tuple[float, int]:
    """The greatest norm of so many cells, or of fewer if those are too many to be tried; and how many."""
    weights = dict(zip(residuals.subsets, residuals.weights.tolist(), strict=True))
    known: dict[tuple[tuple[int, int], ...], FloatArray] = {}  # the same for columns alike

    def norm(subset: tuple[int, ...], partitions: Sequence[IntArray], cells: int) -> FloatArray:
        sizes = [residuals.sizes[column] for column in subset]
        key = (*zip(sizes, map(len, partitions), strict=True), (cells, 0))
        if key not in known:
            known[key] = norms_of_residual(sizes, partitions) if subset else np.asarray(float(cells))
        return np.asarray(weights[subset] * known[key])

    few, tried = most_cells, math.inf
    for few in sorted({most_cells, *range(1, min(_FEW_CELLS, most_cells))}, reverse=True):
        tried = greatest(residuals.sizes, residuals.subsets, norm, few)
        if math.isfinite(tried):
            break
    return tried, few


def _by_ranges(residuals: WeightedResiduals, most: FloatArray, few: int, left: float) -> tuple[FloatArray, float]:
    """Bounds for each number of cells, from the top down while they may matter; and the work that is left then."""
    whole, sizes, upper = math.prod(residuals.sizes), np.arange(1.0, most.size + 1), most.size
    enough = left - _FOR_RANGES * _WORK
    while upper > few and left > enough and most[:upper].max() > (1.0 + _CLOSE) * most[upper:].max(initial=0.0):
        fewest = math.ceil(_RANGE * upper)
        programme = _Programme(residuals, upper, typed=False, fewest=fewest)
        most = np.minimum(most, programme.bound() * _of_others(sizes, fewest, upper, whole))
        left -= programme.work + _BEGUN
        upper = fewest - 1
    return most, left


def _of_others(sizes: FloatArray, fewest: int, upper: int, whole: int) -> FloatArray:
    """How far above a bound for so many cells others can be."""
    return np.where(sizes < fewest, (whole - sizes) / (whole - fewest), np.maximum(1.0, sizes / upper))


class _Classes(NamedTuple):
    """Columns that may change places without changing a weight: the class of each column."""

    of_column: tuple[int, ...]

    @classmethod
    def of(cls, residuals: WeightedResiduals) -> _Classes:
        """Find them."""
        weights = dict(zip(residuals.subsets, residuals.weights.tolist(), strict=True))
        first: list[int] = []
        classes: list[int] = []
        for column, size in enumerate(residuals.sizes):
            for number, other in enumerate(first):
                swap = {column: other, other: column}
                moved = {tuple(sorted(swap.get(i, i) for i in subset)): one for subset, one in weights.items()}
                if residuals.sizes[other] == size and moved == weights:
                    classes.append(number)
                    break
            else:
                classes.append(len(first))
                first.append(column)
        return cls(tuple(classes))

    def key(self, columns: Sequence[int]) -> tuple[int, ...]:
        """The classes of some columns: the same for sets that may change places."""
        return tuple(sorted(self.of_column[column] for column in columns))


def _triples(residuals: WeightedResiduals, cells: int) -> Triples | None:
    """For four columns and more, all alike: of columns of several kinds the programme would take too long."""
    size, n_columns = residuals.sizes[0], len(residuals.sizes)
    serves = n_columns >= 4 and _SPARSE * cells <= size**n_columns and patterns_of(size) ** n_columns <= MOST_PATTERNS
    return Triples(size, n_columns) if serves and max(_Classes.of(residuals).of_column) == 0 else None


class _Table:
    """Types of the entries of a residual, or the whole norm as the only one, and what they add to the rows.

    Attributes:
        value: What one entry adds to the norm, weighted; shape (types,).
        entries: Their number; of a norm, the most that it can be.
        axes: Numbers that tell the types apart, with their means; () if all are given from the beginning.
        given: The types that the solver knows of.
        parts: Rows of the programme, and what an entry of each type adds there.
    """

    def __init__(self, value: FloatArray, entries: float, axes: tuple[tuple[IntArray, float], ...] = ()) -> None:
        self.value, self.entries, self.axes = value, entries, axes
        self.given = np.arange(value.size)
        self.parts: list[tuple[int, FloatArray]] = []

    def begin(self, most: int) -> None:
        """Give some types: small ones, ever fewer of the others, and those of a set that is spread evenly."""
        for growth in _GROWTHS if self.axes and self.value.size > most else ():
            some = [np.isin(axis, _graded(int(axis.max()), growth)) for axis, _ in self.axes]
            even = [(axis >= int(mean)) & (axis <= int(mean) + 1) for axis, mean in self.axes]
            self.given = np.flatnonzero(np.logical_and.reduce(some) | np.logical_and.reduce(even))
            if self.given.size <= most:
                break

    def columns(self, n_rows: int) -> sparse.coo_array:
        """The columns of the programme for the types that are given."""
        chosen = self.given
        rows = np.repeat([row for row, _ in self.parts], chosen.size)
        places = np.tile(np.arange(chosen.size), len(self.parts))
        values = np.concatenate([feature[chosen] for _, feature in self.parts])
        return sparse.coo_array((values, (rows, places)), (n_rows, chosen.size))

    def gain(self, multipliers: FloatArray) -> FloatArray:
        """What an entry of each type adds to the norm beyond what the multipliers charge for it."""
        gain = self.value.copy()
        for row, feature in self.parts:
            gain -= multipliers[row] * feature
        return gain

    def give(self, gain: FloatArray) -> None:
        """Give the types of the greatest gains, some of smaller ones, and keep those that the multipliers rest on."""
        kept = self.given[np.argsort(-gain[self.given], kind="stable")][:_KEPT]
        better = np.flatnonzero(gain > 0.02 * gain.max())
        better = better[np.argsort(-gain[better], kind="stable")]
        some = better[:: 1 + better.size // _ADDED]
        self.given = np.unique(np.concatenate([kept, better[:_ADDED], some]))


class _Side(NamedTuple):
    """A table of two columns seen from one of them.

    Attributes:
        other: The class of the other column.
        table: The table.
        total: How many cells the value of this column has, for each type.
        counts: Of the entry, y.
        share: One; one half where a table is seen from both of its columns.
        across: How many cells the value of the other column has.
    """

    other: int
    table: _Table
    total: IntArray
    counts: FloatArray
    share: float
    across: FloatArray


class _Programme:
    """Rows over the numbers of pairs m and the tables; see the top.

    Args:
        typed: Whether for sets of exactly so many cells, by types; else for up to so many, by tangents.
        triples: The patterns of triples, if their numbers are unknowns too; with types only.
        fewest: For sets of at least so many cells, by tangents, without the residual of no columns.
    """

    def __init__(
        self,
        residuals: WeightedResiduals,
        cells: int,
        *,
        typed: bool,
        triples: Triples | None = None,
        fewest: int | None = None,
    ) -> None:
        self.sizes, self.cells, self.typed, self.fewest = residuals.sizes, cells, typed, fewest
        self.whole = math.prod(residuals.sizes)
        self.classes = _Classes.of(residuals)
        self.pairs: list[FloatArray] = []
        self.room: list[float] = []
        self.equal: list[bool] = []
        self.tables: list[_Table] = []
        self.values: dict[int, tuple[int, _Table]] = {}
        self.sides: dict[int, list[_Side]] = {}
        self.work = self.least = 0
        self.triples = triples
        self._numbers_of_pairs()
        if triples is not None:
            self._numbers_of_triples(triples)
        orbits: dict[tuple[int, ...], tuple[tuple[int, ...], float]] = {}
        for subset, weight in zip(residuals.subsets, residuals.weights.tolist(), strict=True):
            first, total = orbits.get(self.classes.key(subset), (subset, 0.0))
            orbits[self.classes.key(subset)] = first, total + weight
        self.of_pairs = np.zeros(self.low.size)  # what m adds to the norm: the residual of no columns, Σm/l
        n_pairs = sum(len(subset) == 2 for subset, _ in orbits.values())
        for subset, weight in orbits.values():
            if subset:
                self._residual(subset, weight, len(orbits))
            elif not typed and fewest is None:
                self.of_pairs += weight / cells
        for number in self.values:
            self._rows_of_values(number)
        for table in self.tables:
            given = _GIVEN if triples is None else _GIVEN_WITH_TRIPLES
            table.begin(given // (len(self.room) * max(1, n_pairs)))

    def row(self, pairs: FloatArray | float, room: float, *, equal: bool = False) -> int:
        """Add pairs·m + … <= room, or = room; its number."""
        self.pairs.append(np.broadcast_to(pairs, self.low.shape))
        self.room.append(room)
        self.equal.append(equal)
        return len(self.room) - 1

    @property
    def entries(self) -> int:
        """How large the programme is."""
        return (self.low.size + sum(table.given.size for table in self.tables)) * len(self.room)

    def bound(self, left: float = math.inf) -> float:
        """The bound that the solver's multipliers prove, with other types given to it while work is left."""
        from scipy.optimize import linprog  # a fifth of a second, for marginals of several keys only

        best = math.inf
        looked_at = sum(table.value.size * len(table.parts) for table in self.tables)
        for _ in range(_ROUNDS):
            pairs, room, equal = np.array(self.pairs), np.array(self.room), np.array(self.equal)
            rows = sparse.hstack(
                [sparse.coo_array(pairs), *(table.columns(len(room)) for table in self.tables)], format="csr"
            )
            value = np.concatenate([self.of_pairs, *(table.value[table.given] for table in self.tables)])
            high = [self.high, *(np.full(table.given.size, table.entries) for table in self.tables)]
            low = np.concatenate([self.low, np.zeros(value.size - self.low.size)])
            work = _CALL + value.size * len(room) + looked_at // (_PRICED if self.work else _MADE)
            self.work += work
            self.least = self.least or work
            solved = linprog(
                -value,
                A_ub=rows[~equal],
                b_ub=room[~equal],
                A_eq=rows[equal] if equal.any() else None,
                b_eq=room[equal] if equal.any() else None,
                bounds=np.stack([low, np.concatenate(high)], axis=1),
                method="highs-ds",
                options={"presolve": False},
            )
            if solved.status != 0:  # not all types were given, and these come to no set
                break
            multipliers = np.zeros(len(room))
            multipliers[~equal] = np.maximum(-solved.ineqlin.marginals, 0.0)
            if equal.any():
                multipliers[equal] = -solved.eqlin.marginals
            rest = self.of_pairs - multipliers @ pairs
            proved = float(multipliers @ room + np.maximum(rest * self.low, rest * self.high).sum())
            missing = False
            for table in self.tables:
                gain = table.gain(multipliers)
                most = float(gain.max())
                proved += table.entries * max(most, 0.0)
                if table.entries * most > _CLOSE / 10 * -solved.fun:
                    table.give(gain)
                    missing = True
            best = min(best, proved)
            missing &= best >= -solved.fun * (1.0 + _CLOSE) or self.triples is not None
            if self.triples is not None:
                for broken in self.triples.broken(solved.x[self.low.size - self.triples.size : self.low.size]):
                    self.row(self._of_triples(-broken), 0.0)
                    missing = True
            more = _CALL + value.size * len(room) + looked_at // _PRICED
            if not missing or self.work + more > left:
                break
        return best

    def _numbers_of_pairs(self) -> None:
        """What is known of the numbers m, summed over sets of columns that may change places."""
        cells = self.cells
        norms: FloatArray = np.ones((1, 1))
        agreeing: FloatArray = np.ones((1, 1))
        caps: FloatArray = np.ones(1)
        keys: list[tuple[int, ...]] = [()]
        for column, size in enumerate(self.sizes):
            norms = np.kron(norms, [[1.0, 1.0], [1.0, -1.0 / (size - 1)]]).astype(np.float64)
            agreeing = np.kron(agreeing, [[1.0, 1.0], [1.0, 0.0]]).astype(np.float64)
            caps = np.kron(caps, [1.0, min(size - 1, cells)]).astype(np.float64)
            keys = [(*key, *more) for key in keys for more in ((), (column,))]
        self.orbit: dict[tuple[int, ...], int] = {}
        member = np.array([self.orbit.setdefault(self.classes.key(key), len(self.orbit)) for key in keys])
        number = np.bincount(member).astype(np.float64)
        some = [int(np.argmax(member == orbit)) for orbit in range(number.size)]
        share = np.zeros((len(keys), number.size))
        share[np.arange(len(keys)), member] = 1.0 / number[member]
        more = self.triples.size if self.triples is not None else 0
        self.norms, self.agreeing = (np.pad((one @ share)[some], ((0, 0), (0, more))) for one in (norms, agreeing))
        self.low, self.high = np.zeros(number.size + more), np.full(number.size + more, float(cells * cells))
        self.high[: number.size] = number * cells * np.minimum(caps[some], cells - 1.0)
        self.low[0] = self.high[0] = cells
        here = np.eye(1, self.low.size)[0]
        if self.fewest is None:
            self.row(self.agreeing[0], cells**2, equal=self.typed)
        else:
            self.low[0] = self.fewest
            self.row(self.agreeing[0] - (self.fewest + cells) * here, -float(self.fewest * cells))
            for least in (self.fewest, (self.fewest + cells) / 2.0, cells):
                self.row(2.0 * least * here - self.agreeing[0], least**2)
        for orbit in range(1, number.size):
            together = self.whole // math.prod(self.sizes[column] for column in keys[some[orbit]])
            self.row(-self.norms[orbit], 0.0)
            self.row(self.agreeing[orbit] - min(cells, together) * here, 0.0)
        edges = 2.0 * most_edges(self.sizes, np.arange(1, cells + 1))
        most = float(edges[-1]) / cells if self.typed else float(np.max(edges / np.arange(1, cells + 1)))
        self.row(np.array([float(len(key) == 1) for key in self.orbit] + [0.0] * more) - most * here, 0.0)

    def _numbers_of_triples(self, triples: Triples) -> None:
        """Those are unknowns over the number of cells, after the numbers of pairs."""
        kinds = np.array([self.orbit[(0,) * apart] for apart in range(len(self.sizes) + 1)])
        for rows, share in zip(triples.with_pairs(), (1.0, 1.0 / self.cells), strict=True):
            for row in np.hstack([-share * np.eye(kinds.size)[kinds], rows]):
                self.row(row, 0.0, equal=True)
        rows, apart, most = triples.at_most()
        known = np.zeros((apart.size, kinds.size))
        sets = np.array([math.comb(len(self.sizes), number) for number in apart.tolist()])
        known[np.arange(apart.size), kinds[apart]] = -most / (sets * self.cells)
        for row in np.hstack([known, rows]):
            self.row(row, 0.0)

    def _sum_of_triples(self, table: _Table, numbers: FloatArray, feature: FloatArray) -> None:
        """So many triples are the sum of a feature over the entries of a table."""
        table.parts.append((self.row(self._of_triples(-numbers), 0.0, equal=True), feature / self.cells))

    def _of_triples(self, numbers: FloatArray) -> FloatArray:
        """A row over pairs and triples."""
        return np.concatenate([np.zeros(self.low.size - numbers.size), numbers])

    def _squares(self, *columns: int) -> FloatArray:
        """Q_A as a combination of m."""
        squares: FloatArray = self.agreeing[self.orbit[self.classes.key(columns)]]
        return squares

    def _residual(self, subset: tuple[int, ...], weight: float, n_tables: int) -> None:
        """The norm of a residual, as closely as there is time for."""
        if self.typed and max(self.sizes) == 2:
            self._signs(subset, weight)
        elif self.typed and len(subset) == 1:
            self._one_column(subset[0], weight)
        elif self.typed and len(subset) == 2 and self._few_types(subset, n_tables):
            self._two_columns(*subset, weight)
        else:
            self._norm(subset, weight, n_tables)

    def _norm(self, subset: tuple[int, ...], weight: float, n_tables: int) -> None:
        """The norm of a residual by tangents."""
        entries = math.prod(self.sizes[column] for column in subset)
        part = math.prod(1.0 - 1.0 / self.sizes[column] for column in subset)
        most = 2.0 ** len(subset) * part * self.cells
        table = _Table(np.array([weight]), most)
        squares = part * self.norms[self.orbit[self.classes.key(subset)]]
        slopes = _TANGENTS if n_tables <= _MANY_TABLES else _FEW_TANGENTS
        for slope in (math.sqrt(part * self.cells / entries) * slopes).tolist():
            if entries * slope < 2.0 * most and slope < 2.0 * self.cells:
                table.parts.append((self.row(-squares / (2.0 * slope), entries * slope / 2.0), np.ones(1)))
        self.tables.append(table)

    def _signs(self, subset: tuple[int, ...], weight: float) -> None:
        """The norms |s| of a residual of columns of two values."""
        s = np.arange(float(self.cells % 2), self.cells + 1.0, 2.0)
        table = _Table(weight * s, 1.0)
        table.parts.append((self.row(0.0, 1.0, equal=True), np.ones_like(s)))
        table.parts.append((self.row(-self.norms[self.orbit[self.classes.key(subset)]], 0.0, equal=True), s * s))
        self.tables.append(table)

    def _most(self, *columns: int) -> int:
        """How many cells can agree on these columns."""
        return min(self.cells, self.whole // math.prod(self.sizes[column] for column in columns))

    def _one_column(self, column: int, weight: float) -> None:
        """The types of the values of a column."""
        total = np.arange(self._most(column) + 1)
        r = total.astype(np.float64)
        table = _Table(weight * np.abs(r - self.cells / self.sizes[column]), self.sizes[column])
        table.parts.append((self.row(0.0, self.sizes[column], equal=True), np.ones_like(r)))
        table.parts.append((self.row(0.0, self.cells, equal=True), r))
        table.parts.append((self.row(-self._squares(column), 0.0, equal=True), r * r))
        if self.triples is not None:
            self._sum_of_triples(table, self.triples.mean(self.triples.are(column, ALIKE)), r**3)
        self.tables.append(table)
        self.values[self.classes.of_column[column]] = column, table

    def _few_types(self, pair: tuple[int, ...], n_tables: int) -> bool:
        i, j = pair
        kinds = len({self.classes.key(pair) for pair in combinations(range(len(self.sizes)), 2)})
        types = (self._most(i) + 1) * (self._most(j) + 1) * (self._most(i, j) + 1)
        return kinds <= _KINDS and types * n_tables <= 4 * _TYPES

    def _two_columns(self, i: int, j: int, weight: float) -> None:
        """The types of the entries of two columns; of two of one class, with r >= c, as both orders are alike."""
        one, two = self.classes.of_column[i], self.classes.of_column[j]
        n_i, n_j, together = self.sizes[i], self.sizes[j], self.whole // (self.sizes[i] * self.sizes[j])
        most = self._most(i), self._most(j), self._most(i, j)
        r, c, y = (axis.reshape(-1) for axis in np.indices([number + 1 for number in most]))
        there = (y <= r) & (y <= c) & (r + c - y <= self.cells) & ((r >= c) | (one != two))
        there &= (r - y <= together * (n_j - 1)) & (c - y <= together * (n_i - 1))
        r, c, y = r[there], c[there], y[there]
        r_, c_, y_ = r.astype(np.float64), c.astype(np.float64), y.astype(np.float64)
        norm = np.abs(y_ - r_ / n_j - c_ / n_i + self.cells / (n_i * n_j))
        means = (self.cells / n_i, self.cells / n_j, self.cells / (n_i * n_j))
        table = _Table(weight * norm, n_i * n_j, tuple(zip((r, c, y), means, strict=True)))
        table.parts.append((self.row(0.0, n_i * n_j, equal=True), np.ones_like(y_)))
        table.parts.append((self.row(-self._squares(i, j), 0.0, equal=True), y_ * y_))
        if self.triples is not None:
            mean, at = self.triples.mean, self.triples.are
            self._sum_of_triples(table, mean(at(i, ALIKE) & at(j, ALIKE)), y_**3)
            self._sum_of_triples(table, mean(at(i, ALIKE, Z) & at(j, ALIKE, Y)), r_ * c_ * y_)
            self._sum_of_triples(table, mean(at(i, ALIKE) & at(j, ALIKE, Z)), (r_ + c_) / 2.0 * y_**2)
        self.tables.append(table)
        share = 0.5 if one == two else 1.0
        self.sides.setdefault(one, []).append(_Side(two, table, r, y_, share, c_))
        self.sides.setdefault(two, []).append(_Side(one, table, c, y_, share, r_))

    def _rows_of_values(self, number: int) -> None:
        """What holds over the row of each value of a column, summed up with a few weights."""
        column, table = self.values[number]
        totals = np.arange(float(table.value.size))
        sides = self.sides.get(number, [])
        others = [self.classes.of_column[other] for other in range(len(self.sizes)) if other != column]
        present = {side.other for side in sides}
        sizes = [size for place, size in enumerate(self.sizes) if place != column]
        fewest = _least_sums(sizes, [float(other in present) for other in others], int(totals[-1]))

        def row(weight: FloatArray, own: FloatArray, parts: list[tuple[_Side, FloatArray]], *, equal: bool) -> None:
            index = self.row(0.0, 0.0, equal=equal)
            table.parts.append((index, weight * own))
            for side, feature in parts:
                side.table.parts.append((index, side.share * weight[side.total] * feature))

        ones = np.ones_like(totals)
        powers = (1, 2) if self.triples is not None else (1,)
        weights = [ones, totals, *((1.0 + totals) ** -power for power in powers)]
        for other in sorted(present):
            seen = [side for side in sides if side.other == other]
            size = float(self.sizes[self.classes.of_column.index(other)])
            for weight in (*weights, totals**2):
                row(weight, -size * ones, [(side, np.ones_like(side.counts)) for side in seen], equal=True)
            for weight in weights if len(self.values) == 1 else weights[:2]:  # one for every class takes long
                row(weight, -totals, [(side, side.counts) for side in seen], equal=True)
            for weight in weights if len(self.values) == 1 else weights[1:2]:
                row(weight, -self.cells * ones, [(side, side.across) for side in seen], equal=True)
        for weight in weights:
            used = [(side, -others.count(side.other) * (side.counts > 0.0).astype(np.float64)) for side in sides]
            row(weight, fewest, used, equal=False)
            if len(others) == 2 and set(others) == present:
                for held, free in {(others[0], others[1]), (others[1], others[0])}:
                    squares = [(side, side.counts**2) for side in sides if side.other == held]
                    room = [
                        (side, -side.total.astype(np.float64) * (side.counts > 0.0))
                        for side in sides
                        if side.other == free
                    ]
                    row(weight, 0.0 * ones, squares + room, equal=False)


def _graded(most: int, growth: float) -> IntArray:
    """Some of the numbers up to one, all small ones."""
    return np.unique(np.append(np.floor(growth ** np.arange(1 + math.log(most + 1, growth))), [0, most])).astype(
        np.int64
    )


def _least_sums(sizes: Sequence[int], price: Sequence[float], most: int) -> FloatArray:
    """The least Σ price·d over whole numbers d_j <= sizes[j] of a product of r at least; for r = 0, …, most."""
    numbers = np.arange(most + 1)
    least = np.where(numbers <= 1, 0.0, np.inf)
    for size, one in zip(sizes, price, strict=True):
        options = [one * d + least[-(-numbers // d)] for d in range(1, min(size, max(most, 1)) + 1)]
        least = np.min(options, axis=0)
    least[0] = 0.0
    return least
