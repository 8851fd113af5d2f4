"""Plan releases: predict their accuracy and cost from public parameters only. A plan spends nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import polars as pl

from sparsehist.declaration import Declaration, Keep, Share
from sparsehist.declaration.checks import checked_confidence, checked_whole
from sparsehist.declaration.declaration import NoiseChoice, domain_of
from sparsehist.domain import Domain
from sparsehist.domain.base import GREATEST_SIZE
from sparsehist.domain.unread import UnreadDomain
from sparsehist.errors import DeclarationError, LevelError, RefusedError, of_kind, read_each, shown
from sparsehist.histogram.thresholds import least_count, mean_error, publication_probability
from sparsehist.html import in_notebook, table_of_dicts
from sparsehist.ledger.budgets import Limits, budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, Spending, law_of
from sparsehist.ledger.table import DEFAULT_DELTA, finite_or_none
from sparsehist.noise import Family
from sparsehist.privacy import Level, level_text
from sparsehist.privacy.composition import PURE
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.filters import GAUSSIAN_ROUTE, POISSON_ROUTE, PURE_ROUTE, RENYI_ROUTE
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import rounded_down
from sparsehist.release.any_kind import request_of
from sparsehist.release.cell_parameters import LARGEST_COUNT, CellRequest, cell_metadata, requested, sums_published
from sparsehist.release.home import Home
from sparsehist.release.metadata import LEVELS, CellMetadata, Levels, checked_levels, level_fields
from sparsehist.release.pipeline import prepared

PROBABILITIES = (0.5, 0.95, 0.99)
COUNTS = (10, 30, 100, 300, 1000, 3000, 10_000)
_MOST_EQUAL = 100_000
# A search for a level tries values of ln(level) from -_WIDEST to _WIDEST. It stops when ln(level) is known up to an
# error of _CLOSE, and rounds the level to _DIGITS digits.
_WIDEST, _CLOSE, _DIGITS = 90.0, 1e-5, 4


@dataclass(frozen=True, eq=False)
class Plan:
    """The predicted accuracy and cost of releases at candidate levels; nothing is drawn or spent.

    Attributes:
        levels: One row per level. Columns: level (exact text); std and threshold (in counts); expected_false_keys;
            published_50, published_95 and published_99 (the least true count that is published with a probability of
            50, 95 or 99 %); adds (what this release alone would add to the cost of its population, as exact text in
            `currency`); population_epsilon (epsilon of the population after this release, at delta 1e-6); refused
            (why a cap or budget refuses the release, or null). Open domains add delta_share and delta_remaining. Each
            measure adds a column such as price_sum_std, in units of the measure's column.
        counts: One row per level and true count: probability (that the key is published), error (mean distance
            between noisy and true count of published keys, in counts) and relative_error (error divided by count).
        noise: Name of the family.
    """

    levels: pl.DataFrame
    counts: pl.DataFrame
    noise: str

    def _repr_html_(self) -> str:
        """Return the tables `levels` and `counts` of the plan as HTML for a notebook."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        yield table_of_dicts(f"Plan of {self.noise} noise: by level", self.levels.to_dicts())
        yield table_of_dicts("By true count, in units", self.counts.to_dicts())


def plan(
    levels: Levels = None,
    *,
    d: int | None = None,
    domain: Domain | str | None = None,
    max_keys: int,
    noise: NoiseChoice = "gaussian",
    bounding: str | Keep | Share = "keep",
    epsilon: Level | None = None,
    delta: Level | None = None,
    false_keys: float | None = None,
    threshold: float | None = None,
    open_delta: float | None = None,
    counts: Sequence[int] = COUNTS,
    shows: int | None = None,
    probability: float = 0.95,
    equal: int | None = None,
    within: EpsilonDelta | Level | None = None,
) -> Plan:
    """Predict the accuracy and cost of releases of a histogram; no log and no store are needed.

    Args:
        levels: Candidate levels, by default 0.001, 0.01, 0.1 and 1. A larger level has less noise.
        d: Number of cells of the domain; a whole number up to 10**4000.
        domain: The domain or its text, instead of `d`.
        max_keys: Largest number of keys that a unit counts towards.
        noise: Family of noise: a name, a class or an instance, as in `sparsehist.create`.
        bounding: "keep", "share" or `sh.Share(…)`, as in `sparsehist.create`; "share" weights true counts.
        epsilon: Plan the largest level that is (epsilon, delta)-DP, instead of `levels`; needs `delta`.
        delta: The delta that belongs to `epsilon`.
        false_keys: Expected number of published empty cells; by default 0.01 if there is no threshold.
        threshold: Threshold in counts, instead of `false_keys`.
        open_delta: Delta that the release spends in an open domain; by default half of the domain's delta.
        counts: True counts for which the plan has rows.
        shows: Plan the smallest level, rounded up to 4 digits, that publishes a key of this true count with the given
            `probability`, instead of `levels`.
        probability: Probability of publication, for `shows`.
        equal: Plan the largest cap, rounded down to 12 digits, that each of this many series can have, instead of
            `levels`.
        within: The `EpsilonDelta` or rho that these series share, for `equal`.

    Raises:
        DeclarationError: If a parameter is wrong; the message shows its value.
        LevelError: If a level is not valid, or its noise is too small or too large at this max_keys.
        ThresholdError: If a threshold is out of range, or would publish too many empty cells.

    Example:
        >>> planned = plan(["0.01", "0.5"], d=10**69, max_keys=20)
        >>> planned.levels.select("level", "published_95").rows()
        [('0.01', 618), ('0.5', 88)]
        >>> plan(d=10**69, max_keys=20, shows=50).levels.select("level", "published_95").rows()
        [('1.53', 50)]
    """
    histogram = _domain_of(d, domain)
    key = [f"key_{i}" for i in range(histogram.columns)]
    declared: Any = {"key": key, "bounding": bounding, "noise": noise}
    declaration = Declaration(name="plan", domain=histogram, max_keys=max_keys, **declared)
    request = requested("plan", threshold=threshold, false_keys=false_keys, open_delta=open_delta)
    ledger = Ledger().with_series(Account("plan", declaration))
    if within is not None:
        law = law_of(declaration.noise)
        route = law if law in (GAUSSIAN_ROUTE, POISSON_ROUTE) else PURE_ROUTE if law == PURE else RENYI_ROUTE
        budget = budget_within(within, route=route, opens=histogram.is_open)
        ledger = replace(ledger, limits=Limits(budgets={declaration.population: budget}))
    planner = Planner(ledger, "plan", declaration, request, partial(cell_metadata, declaration, past=()))
    candidates = checked_levels(levels, epsilon, delta)
    return planner.plan(counts, levels=candidates, shows=shows, probability=probability, equal=equal)


def _domain_of(d: int | None, domain: object) -> Domain:
    if (d is None) == (domain is None):
        raise DeclarationError("plan needs either d= (the number of cells) or domain=")
    if d is None:
        return domain_of(domain)
    if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= GREATEST_SIZE:
        raise DeclarationError(f"d must be a whole number of cells from 1 to 10**4000, got {shown(d)}")
    return UnreadDomain(f"{d} cells", size=d)


@dataclass(frozen=True)
class Planner:
    """A planner for the releases of a series. It uses the same functions as actual releases."""

    ledger: Ledger
    series_id: str
    declaration: Declaration
    request: CellRequest
    metadata: Callable[[CellRequest], CellMetadata]  # computes the metadata of a release from its request

    def plan(
        self,
        counts: Sequence[int],
        *,
        levels: Sequence[Fraction | EpsilonDelta],
        shows: int | None = None,
        probability: float = 0.95,
        equal: int | None = None,
    ) -> Plan:
        """Plan releases at `levels`, and at levels computed from `shows` and `equal`; see `sparsehist.plan`."""
        candidates = [*levels]
        if shows is not None:
            candidates.append(self._level_that_shows(shows, probability))
        if equal is not None:
            candidates.append(self._cap_of_equal(equal))
        whole = sorted(set(read_each("counts", counts, partial(_count, "counts"), "a positive whole number")))
        by_level: list[dict[str, Any]] = []
        by_count: list[dict[str, Any]] = []
        for metadata, spends in map(self.release, candidates or checked_levels(LEVELS)):
            by_level.append(_level_row(metadata) | _cost_in(self.ledger, spends))
            by_count += _count_rows(metadata, whole)
        types: dict[str, Any] = {"refused": str, "population_epsilon": float}
        frame = pl.DataFrame(by_level, schema_overrides=types, infer_schema_length=None)
        return Plan(frame, pl.DataFrame(by_count), self.declaration.noise)

    def release(self, level: Fraction | EpsilonDelta) -> tuple[CellMetadata, tuple[Spending, ...]]:
        """Return the metadata of a release at this level, and the charges that it would add to the ledger."""
        request = replace(self.request, **level_fields(level))
        return prepared(self.ledger, self.series_id, self.declaration, CELLS, request, self.metadata)[1:]

    def _level_that_shows(self, shows: int, probability: float) -> Fraction:
        """Return the smallest level (to 4 digits) at which a key of count `shows` is published with `probability`."""
        count = _count("shows", shows)
        checked_confidence(probability, "probability")

        def enough(level: Fraction) -> bool:
            try:
                metadata, _ = self.release(level)
            except LevelError:  # the noise is too small (if level > 1) or too large to be exact
                return level > 1
            return bool(publication_probability(*_law(metadata), [count])[0] >= probability)

        low, high = -_WIDEST, _WIDEST
        while high - low > _CLOSE:
            middle = (low + high) / 2.0
            low, high = (low, middle) if enough(Fraction(math.exp(middle))) else (middle, high)
        if high > _WIDEST - 1:
            raise LevelError(f"no level reaches the publication probability {probability:g} for the count {count}")
        return -rounded_down(-Fraction(math.exp(high)), _DIGITS)

    def _cap_of_equal(self, times: int) -> Fraction:
        """Return the largest cap with which `times` more series still fit into the population's budget."""
        cap = self.ledger.largest_equal_cap(self.declaration, checked_whole("equal", times, 1, _MOST_EQUAL))
        if cap is None:
            raise DeclarationError(
                "equal= divides a budget: set a budget for the population, or give within= (an EpsilonDelta or a rho)"
            )
        if not cap:
            raise DeclarationError(
                f"the rest of the budget is too small for {times} series of {self.declaration.noise} noise"
            )
        return cap


def _count(what: str, count: int) -> int:
    return checked_whole(what, count, 1, LARGEST_COUNT)


def _law(metadata: CellMetadata) -> tuple[Family, Level, float]:
    return metadata.family, metadata.level, metadata.effective_threshold


def _level_row(metadata: CellMetadata) -> dict[str, Any]:
    opened = ("delta_share", "delta_remaining") if metadata.declaration.domain.is_open else ()
    row = {name: getattr(metadata, name) for name in ("level", "std", "threshold", "expected_false_keys", *opened)}
    row |= {f"published_{100 * p:.0f}": least_count(*_law(metadata), p) for p in PROBABILITIES}
    return row | {f"{each.measure.sum_column}_std": each.std for each in sums_published(metadata)}


def _count_rows(metadata: CellMetadata, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    for count, probability in zip(counts, publication_probability(*_law(metadata), counts).tolist(), strict=True):
        row = {"level": metadata.level, "count": count, "probability": probability}
        error = mean_error(*_law(metadata), count)
        yield row | {"error": error, "relative_error": error / count}


def _cost_in(ledger: Ledger, spends: Sequence[Spending]) -> dict[str, Any]:
    """Return the cost columns of a plan: added cost, its currency, epsilon, and the reason for refusal (or None)."""
    population = ledger.accounts[spends[0].series_id].population
    try:
        ledger.check(*spends)
        refused = None
    except RefusedError as refusal:
        refused = str(refusal)
    ledgers = (ledger, ledger.with_release(*spends))
    before, after = (each.cost_of(each.of_population(population)) for each in ledgers)
    adds, currency = "", after.currency
    if before.amount is not None and after.amount is not None and (before.currency == currency or not before.amount):
        adds = level_text(after.amount - before.amount) if after.amount > before.amount else "0"
    elif before.rho is not None and after.rho is not None:  # costs in several currencies are compared as rho
        adds, currency = f"{after.rho - before.rho:.6g}", "rho"
    epsilon = finite_or_none(guarantee(after, DEFAULT_DELTA))
    return {"adds": adds, "currency": currency, "population_epsilon": epsilon, "refused": refused}


def plan_releases(
    home: Home,
    declaration: Declaration,
    series_id: str,
    levels: Any = None,
    *,
    epsilon: Level | None = None,
    delta: Level | None = None,
    counts: Sequence[int] = COUNTS,
    shows: int | None = None,
    probability: float = 0.95,
    equal: int | None = None,
    **parameters: Any,
) -> Plan:
    """Plan releases of cells, or of one step of a running series; see `Series.plan`."""
    if declaration.steps is not None and parameters.get("step") is None:
        raise DeclarationError(
            f"{declaration.name!r} is a running series: give step=, the step to plan", parameter="step"
        )
    request = of_kind(request_of(declaration, "plan", **parameters)[0], CellRequest)
    with home.hold() as state:
        record, ledger = home.find(state, declaration.name, series_id), Ledger.of(state)
        public: Any = cell_metadata
        past: Any = state.past
        if declaration.steps is not None:
            from sparsehist.release import running_round

            public, past = running_round.running_metadata, state.past_points
        metadata = partial(public, declaration, past=past(record.path_id))
    planner = Planner(ledger, series_id, declaration, request, metadata)
    candidates = checked_levels(levels, epsilon, delta)
    return planner.plan(counts, levels=candidates, shows=shows, probability=probability, equal=equal)
