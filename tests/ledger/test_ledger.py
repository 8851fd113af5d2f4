"""The ledger shows what releases cost, and releases that would exceed a budget or cap are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.errors import BudgetExceededError, CapExceededError, DeclarationError
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, Spending, measure_path
from sparsehist.privacy import gaussian
from sparsehist.release import cell_round
from sparsehist.store import State

LOG = pl.DataFrame({"user": [f"u{i}" for i in range(300)], "key": ["/home"] * 300})


def a_series(store, name="visits", **more):
    """Create a small series, which has Gaussian noise by default."""
    declared = {"unit": "user", "key": "key", "max_keys": 1, "domain": sh.Strings(max_bytes=6), "noise": "gaussian"}
    return sh.create(store, LOG, name=name, **{**declared, **more})


@pytest.fixture
def store():
    """Return a new store in memory."""
    return sh.open(":memory:", seed=1)


def spent(store, scope, **only):
    """Return the ledger's first row with this scope, such as "series" or "population"."""
    return store.ledger(full=True).filter(scope=scope, **only).row(0, named=True)


def test_a_budget_in_rho_is_shared_by_the_series_of_a_population(store):
    """A budget in rho covers all series of one population, including dropped series, and no other population."""
    store.set_budget(rho=1)
    first, second = a_series(store, "first"), a_series(store, "second", noise="laplace", cap="0.5")
    first.release("a", level="0.5", threshold=50)
    store.drop("first")
    second.release("a", level="0.25", threshold=250)  # the budget charges the cap, ε = 0.5, as ρ = 0.5·tanh(0.25)
    with pytest.raises(BudgetExceededError, match=r"level 0\.4, .*remaining rho 0\.377540668\d+; the largest"):
        a_series(store, "third").release("a", level="0.4", threshold=60)
    second.release("b", level="0.5", threshold=250)
    assert store.ledger(full=True).filter(scope="population")["remaining"].item().startswith("rho 0.37754066")
    assert spent(store, "population")["cost"] == pytest.approx(0.5 + 0.5 * np.tanh(0.25))
    a_series(store, "fourth", population="others").release("a", level=2, threshold=50)


def test_a_series_that_the_route_cannot_charge_is_refused_at_create(store):
    """A series whose noise the accounting route cannot charge is refused, and the error names a suitable route."""
    store.set_budget(rho=100)
    store.set_budget(epsilon=1, delta=1e-6, population="exact")
    store.set_budget(epsilon=1, delta="0", population="pure")
    named = {"default": ("skellam", "renyi"), "exact": ("laplace", "rho"), "pure": ("gaussian", "gaussian")}
    for population, (noise, could) in named.items():
        with pytest.raises(BudgetExceededError, match=f"cannot charge {noise} noise; .*route='{could}'"):
            a_series(store, noise=noise, population=population)
    assert store.series_names() == []
    a_series(store, noise="skellam", population="free")
    with pytest.raises(DeclarationError, match=r"cannot charge the noise of the series 'visits'.*route='renyi'"):
        store.set_budget(rho=1, population="free")
    store.set_budget(epsilon=1, delta=1e-6, route="renyi", population="free")


def test_poisson_noise_has_a_route_of_its_own(store):
    """On the Poisson accounting route, a series without a cap refuses releases finer than its first release."""
    store.set_budget(epsilon=1, delta=1e-6, route="poisson")
    series = a_series(store, noise="poisson")
    series.release("a", level="0.01", threshold=200)
    assert spent(store, "path")["remaining"] == "0.01"  # without a cap, the first release's level becomes the cap
    with pytest.raises(BudgetExceededError, match="without a cap, whose first release"):
        series.release("b", level="0.011", threshold=200)


def test_open_domains_spend_delta_beside_rho(store):
    """A budget in rho accepts open domains only if it has a delta, which then limits all series together."""
    series = a_series(store, domain=sh.Open(delta=1e-6))
    store.set_budget(rho=1)
    with pytest.raises(BudgetExceededError, match="no delta left for open domains"):
        series.release("a", level="0.5")
    with pytest.raises(BudgetExceededError, match="reserves no delta for open domains"):
        a_series(store, "other", domain=sh.Open(delta=1e-6))
    store.set_budget(rho=1, delta=1e-7, reason="a domain nobody can list")
    made = series.release("a", level="0.5")
    row = spent(store, "everybody")
    assert 0.25e-7 < row["delta_infinity"] == made.metadata["delta_infinity"] < 0.51e-7
    second = a_series(store, "other", domain=sh.Open(delta=1e-6))
    second.release("a", level="0.25")
    with pytest.raises(BudgetExceededError, match=r"needs a further delta of .* for its open domain"):
        second.release("b", level="0.3", open_delta=5e-8)
    assert 0.4e-7 < spent(store, "population")["delta_infinity"] < 0.77e-7
    assert row["epsilon"] > gaussian.epsilon(1e-6, "0.5")


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_laplace", "skellam", "poisson"])
def test_a_fresh_budget_serves_the_level_that_stands_for_it(store, noise):
    """On each accounting route, a new budget of ε = 1 and δ = 1e-6 allows one release at exactly this ε and δ.

    A release at a level that is 0.1 % finer than the budget allows is refused.
    """
    routes = {"gaussian": ("gaussian", "renyi"), "skellam": ("renyi",), "poisson": ("poisson",)}
    for route in routes.get(noise, ("pure", "renyi")):
        store.set_budget(epsilon=1, delta=1e-6, route=route, population=route)
        series = a_series(store, f"of_{route}", noise=noise, population=route)
        made = series.release("a", level="epsilon_delta(1, 1e-6)", threshold=500)
        assert made.metadata["epsilon_delta"] == "epsilon_delta(1, 0.000001)"
        assert series.release("a", level=sh.EpsilonDelta(1, "1e-6")).frame.equals(made.frame)
        level = Fraction(made.metadata["level"])
        assert spent(store, "path", series=f"of_{route}")["remaining"] == made.metadata["level"]
        with pytest.raises(BudgetExceededError, match=f"largest level that would fit is {made.metadata['level']}"):
            series.release("b", level=level * Fraction(1001, 1000), threshold=500)


def test_the_counterexamples_are_refused_at_the_step_that_would_break_the_budget(store):
    """The adaptive counterexamples in docs/mathematics.md are refused at the release that would exceed the budget."""
    for route in ("gaussian", "renyi"):
        store.set_budget(epsilon=3, delta=1e-6, route=route, population=route)
        a_series(store, f"first_{route}", population=route).release("a", level="0.0209", threshold=500)
        second = a_series(store, f"second_{route}", population=route)
        # The route "gaussian" may allow this release: it will refuse the Laplace noise that the attack needs next.
        if route == "gaussian":
            second.release("a", level="0.1887", threshold=500)
            continue
        with pytest.raises(BudgetExceededError, match="largest level that would fit"):
            second.release("a", level="0.1887", threshold=500)
    with pytest.raises(BudgetExceededError, match="cannot charge laplace"):
        a_series(store, "coin", population="gaussian", noise="laplace", cap="2.149")
    coin = a_series(store, "coin", population="renyi", noise="laplace", cap="2.149")
    with pytest.raises(BudgetExceededError, match=r"cap 2\.149 is charged whole .* no level would fit"):
        coin.release("a", level="2.149", threshold=500)

    opened = a_series(store, "open", population="split", domain=sh.Open(delta="1e-6"))
    store.set_budget(epsilon=1, delta=1e-6, population="split")
    whole = Fraction(gaussian.largest_rho(1, 1e-6))
    assert opened.release("a", level=whole * Fraction("0.68"), open_delta=1e-12).metadata["delta_infinity"] < 2e-12
    with pytest.raises(BudgetExceededError, match="remaining gaussian"):
        opened.release("b", level=whole, open_delta=1e-12)
    with pytest.raises(BudgetExceededError, match="for its open domain"):
        opened.release("b", level="0.001", open_delta=9e-7)
    assert opened.release("b", level="0.001").metadata["delta_infinity"] < 2.6e-7


def test_numerical_slack_is_shown_and_charged_to_nothing(store, monkeypatch):
    """The ledger shows numerical slack, even slack above delta. Budgets and epsilon do not include the slack."""
    monkeypatch.setattr("sparsehist.release.cell_parameters.numerical_slack", lambda *_, **__: 1e-3)
    store.set_budget(epsilon=2, delta=1e-6)
    series = a_series(store)
    for name in ("a", "b"):
        series.release(name, level="0.05", threshold=900)
    row = spent(store, "series")
    assert row["numerical_slack"] == pytest.approx(2e-3)
    assert row["epsilon"] == pytest.approx(gaussian.epsilon(1e-6, "0.05"), rel=1e-9)


def test_a_charged_cap_is_not_raised(store):
    """If a budget has charged the whole cap of a series, the cap cannot be raised.

    On the pure accounting route, which charges noise paths instead of caps, the cap can still be raised.
    """
    store.set_budget(epsilon=3, delta=1e-6, route="renyi", population="mixed")
    store.set_budget(epsilon=3, delta=0, population="pure")
    for population in ("mixed", "pure"):
        series = a_series(store, population, noise="laplace", cap="0.5", population=population)
        series.raise_cap("0.6", reason="not yet released")
        series.release("a", level="0.1", threshold=500)
    with pytest.raises(BudgetExceededError, match="create a new series with a larger cap"):
        store.series("mixed").raise_cap("0.7", reason="more")
    store.series("pure").raise_cap("0.7", reason="more")


def test_a_second_path_of_a_series_without_a_cap_is_not_free(store):
    """On the Rényi route, the level of the first release limits the total cost of all paths of an uncapped series."""
    store.set_budget(epsilon=3, delta=1e-6, route="renyi")
    a_series(store, noise="laplace").release("a", level="0.1", threshold=500)
    with store.hold() as state:
        ledger = Ledger.of(state)
    with pytest.raises(BudgetExceededError, match="without a cap, whose first release"):
        ledger.check(Spending(*ledger.accounts, Fraction(1, 20), measure_path("price")))


def test_the_largest_level_of_a_path_leaves_room_for_the_other_paths():
    """The largest level that fits a noise path is the cap minus the levels spent on the series' other noise paths."""
    capped = Ledger().with_series(Account("1", Declaration(name="visits", unit="user", max_keys=1, cap=1)))
    assert capped.with_release(Spending("1", Fraction(1, 4), measure_path("price"))).largest_level("1") == Fraction(
        3, 4
    )


def test_refusals_draw_nothing_and_are_recorded(store, monkeypatch):
    """A refused release draws no noise and spends nothing, and the ledger records who requested it."""
    series = a_series(store, cap=1)
    store.set_budget(rho="0.1")
    store.who = "bob"

    def drawn(*_, **__):
        pytest.fail("a refused release was drawn")

    monkeypatch.setattr(cell_round, "draw_round", drawn)
    monkeypatch.setattr(State, "commit_round", drawn)
    for level, error in (("0.5", BudgetExceededError), ("2", CapExceededError)):
        with pytest.raises(error):
            series.release("a", level=level, threshold=50)
    refused = store.events().filter(what="refuse")
    assert refused.select("who", "release", "level").rows() == [("bob", "a", "0.5"), ("bob", "a", "2")]
    assert refused["generation"].n_unique() == 1
    assert spent(store, "everybody")["releases"] == 0


def test_limits_hold_ex_ante_until_they_are_raised_after_a_release(store):
    """A cap or budget is marked ex ante until it is raised after a release, and ex post from then on."""
    series = a_series(store, cap="0.5")
    series.raise_cap(1, reason="not yet released")
    for rho in (3, 4):
        store.set_budget(rho=rho, reason="not yet released")
    assert spent(store, "series")["standing"] is None
    series.release("a", level=1, threshold=50)
    store.set_budget(rho=2)
    standing = ("budget", "cap", "standing")
    limits = pl.col("scope").is_in(["series", "population"])
    known = store.ledger(full=True).filter(limits).sort("scope")
    assert known.select(standing).rows() == [("rho 2", None, "ex ante"), (None, "1", "ex ante")]
    series.raise_cap(2, reason="a second study")
    store.set_budget(rho=5, reason="a second study")
    known = store.ledger(full=True).filter(limits).sort("scope")
    assert known.select(standing).rows() == [("rho 5", None, "ex post"), (None, "2", "ex post")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda store: store.series("visits").raise_cap("0.5", reason="x"), "only be raised"),
        (lambda store: a_series(store, "free").raise_cap(1, reason="x"), "no cap"),
        (lambda store: store.set_budget(), "in epsilon and delta: give"),
        (lambda store: store.set_budget(epsilon=1), "needs a delta"),
        (lambda store: store.set_budget(epsilon=1, delta=2), "below 1"),
        (lambda store: store.declare_disjoint(["a", "a"], reason="x"), "two or more populations"),
        (lambda store: store.ledger(delta=1, full=True), "delta"),
    ],
)
def test_a_wrong_limit_is_refused_with_advice(store, call, words):
    """A wrong cap or budget is refused with an error that shows the correct use, and is not recorded."""
    a_series(store, cap=1)
    with pytest.raises(DeclarationError, match=words):
        call(store)
    assert set(store.events()["what"]) == {"create store", "create series"}


def test_a_ledger_that_is_carried_on_equals_the_one_of_the_store(store):
    """Adding releases to a ledger in a dry run gives the same ledger as making these releases in the store."""
    series = a_series(store, domain=sh.Open(delta="1e-6"))

    def ledger():
        with store.hold() as state:
            return Ledger.of(state)

    for name, level in (("first", "0.5"), ("coarser", "0.1"), ("finer", "1")):
        carried = ledger()
        about = series.release(name, level=level).metadata
        ((series_id, account),) = ledger().accounts.items()
        spent = account.on(CELLS)
        added = Spending(series_id, Fraction(level), CELLS, about["delta_infinity"], about["numerical_slack"])
        known = carried.with_release(added).accounts[series_id].on(CELLS)
        for field in ("finest", "releases", "delta_infinity", "numerical_slack"):
            assert getattr(known, field) == pytest.approx(getattr(spent, field), rel=1e-12), field
    lower = ledger().with_release(Spending(series_id, Fraction(1, 10))).accounts[series_id].on(CELLS)
    assert (lower.finest, lower.delta_infinity) == (1, spent.delta_infinity)


def test_open_domains_take_their_half_of_delta_from_the_noise():
    """For an open domain, a plan uses half of the requested delta to compute the level of the noise."""
    halved = sh.plan(domain=sh.Strings(max_bytes=8), max_keys=3, equal=1, within=sh.EpsilonDelta(1, "5e-7"))
    beside = sh.plan(domain=sh.Open(delta="1e-7"), max_keys=3, equal=1, within=sh.EpsilonDelta(1, "1e-6"))
    assert beside.levels["level"].item() == halved.levels["level"].item()
