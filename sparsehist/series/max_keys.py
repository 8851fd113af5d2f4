"""How many keys a unit should count towards, found from two small releases.

What bounding takes from the largest keys depends on who has them: units with many keys mostly have rare ones. First
a quarter of the level goes into a release of the keys, which shows the largest ones; then the rest into the number of
units by how many keys they have and how many of the largest ones: each unit is in one cell of that table. It tells
what each bound would take from the largest keys together, which is weighed against the noise. How it is spread over
these keys is not known, between evenly and as their counts are: it is taken to follow the roots of the counts. Keys
that are too small for the first release, of those whose error is to be small, are taken to fall off as 1/rank.

Source: our own derivation; the table of one cell a unit has sensitivity 1 whatever its keys.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting import Counting
from sparsehist.counting.contract import SALT_BYTES, Choice, Counts
from sparsehist.counting.count import list_pairs
from sparsehist.counting.progress import reporting
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name, checked_whole
from sparsehist.declaration.declaration import LARGEST_BOUND, NoiseChoice
from sparsehist.domain import Domain, Integers, Product
from sparsehist.domain.base import key_names
from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, SeriesDiffersError, of_kind
from sparsehist.histogram import threshold_for_false_keys
from sparsehist.noise import family_named
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release import any_kind
from sparsehist.release.creation import NewLog, checked_source, counted_into, reading_of, with_source
from sparsehist.release.home import Home, home_of
from sparsehist.release.key_discovery import Round, check_room
from sparsehist.release.pipeline import published_metadata
from sparsehist.release.releases import Release
from sparsehist.series.store import Store
from sparsehist.store.layout import spill_directory
from sparsehist.typing import FloatArray

BOUNDS = (
    *(*range(1, 17), 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90, 100, 110, 125, 140, 160, 180, 200),
    *(225, 250, 280, 300, 350, 400, 450, 500, 550, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000),
)
"""What is chosen from."""

_USUAL_LEVEL = Fraction(1, 10)
_FIRST_BOUND, _FIRST_SHARE = 5, Fraction(1, 4)
# Twice as many keys each: the last classes hold all that have more.
_CLASSES, _CLASSES_OF_LARGEST = 12, 10
_PLACES = 2 ** ((np.arange(4) + 0.5) / 4)
# Classes below the threshold, nearly three standard deviations, count as empty, as most are: noise would add up.
_FALSE_CLASSES = 0.4
# A release is believed if noise alone would show a cell as large as its largest one time in a hundred at most.
_BY_CHANCE = 0.01
# Counts of units are easier to explain than weighted ones: these have to be better by so much.
_WORTH_SHARING = 0.95


@dataclass(frozen=True)
class MaxKeysChoice:
    """What was chosen, and by which estimates; public.

    Attributes:
        max_keys: Keys a unit should count towards.
        bounding: "keep" or "share".
        estimates: What each bound would cost a key among the largest, in counts: max_keys, bounding, bias (root mean
            square over these keys), noise (standard deviation) and error (both together).
        level: What the choice cost, exact text, in the series `keys` and `profile`.
        keys: Name of the series whose release showed the largest keys.
        profile: Name of the series of the number of units by how many keys they have.
    """

    max_keys: int
    bounding: str
    estimates: pl.DataFrame = field(repr=False)
    level: str
    keys: str
    profile: str


def choose_max_keys(
    store: str | os.PathLike[str] | Store,
    source: object,
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str],
    domain: Domain | str,
    name: str = "choice",
    noise: NoiseChoice = "gaussian",
    population: str = "default",
    largest_keys: int = 500,
    level: Level = "0.005",
    release_level: Level | None = None,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    counting: Counting | None = None,
) -> MaxKeysChoice:
    """Choose max_keys, and whether to keep or to share, by two small private releases of the log.

    The releases stand in the ledger of the population, and whatever is released of the log later adds to them. Asked
    again with the same name, the store gives the same choice at no cost.

    Parameters are as for `create`, but for these. The source is the log itself, not `Counts`. The choice makes two
    series, `{name}_keys` and `{name}_profile`. `noise` is the family of the later series, and `release_level` the
    level of the later release, which decides how much noise a bound costs; 0.1 if it is not known. The error is made
    small for the `largest_keys` largest keys, a public number of at least 1. `level` is what the choice may cost; a
    quarter of it goes into the release of keys: `plan(domain=…, max_keys=5, shows=1000)` names the quarter that shows
    a key of 1,000 units.

    Returns:
        The choice, with the estimates it rests on.

    Raises:
        DeclarationError: If a parameter is wrong.
        DataError: If the log breaks a rule.
        BudgetExceededError: If the budget of the population has no room for the choice or, where its level is given,
            for the later release; before anything is drawn.
        NotFoundError: If one of its two releases shows nothing that noise alone would seldom show: the level is too
            small for this log. It is spent.
        NameTakenError: If the name stands for another choice.

    Example:
        >>> import sparsehist as sh
        >>> rows = range(40_000)
        >>> log = pl.DataFrame({"user": [i // 8 for i in rows], "page": [f"p{i % 8}" for i in rows]})
        >>> pages = sh.Strings(max_bytes=4)
        >>> sh.choose_max_keys(sh.open(":memory:", seed=2), log, unit="user", key="page", domain=pages).max_keys
        15
    """
    if isinstance(source, Counts):
        raise DeclarationError("Counts hold no units: choose max_keys from the log itself")
    checked_whole("largest_keys", largest_keys, 1, LARGEST_BOUND)
    whole = as_level(level)
    few, most = (level_text(whole * share) for share in (_FIRST_SHARE, 1 - _FIRST_SHARE))
    later = _USUAL_LEVEL if release_level is None else as_level(release_level)
    checked_name("choice", name)
    shared = not family_named(noise if isinstance(noise, str) else "gaussian", 1).integer
    declared: dict[str, Any] = {
        "unit": unit, "key": key, "domain": domain, "noise": noise, "bounding": "share" if shared else "keep",
        "population": population, "on_null": on_null, "on_outside": on_outside,
    }  # fmt: skip
    first = Declaration(name=f"{name}_keys", max_keys=_FIRST_BOUND, **declared)
    classes = Product(keys=Integers(_CLASSES), largest=Integers(_CLASSES_OF_LARGEST))
    of_classes: dict[str, Any] = {"key": classes.names, "domain": classes, "max_keys": 1, "bounding": "keep"}
    second = replace(first, name=f"{name}_profile", unit=None, **of_classes)
    home, counting = home_of(store), counting or Counting()
    check_room(home, [Round(first, level_text(whole))])  # costs add up: so it is told of the level that was named
    planned = [Round(first, few), Round(second, most)]
    if release_level is not None:
        planned.append(Round(replace(first, name="later"), level_text(later)))
    check_room(home, planned)
    with reporting(counting.progress) as report:
        counting = replace(counting, progress=report)
        first = with_source(first, source)
        try:
            made = counted_into(home, NewLog(source, first, "resume"), counting).series_id
        except SeriesDiffersError:
            told = "was made from another log or otherwise declared: give this choice another name"
            raise NameTakenError(f"the choice {name!r} {told}") from None
        _check_level(home, first, name, whole)
        false_keys = None if first.domain.is_open else 1
        keys = of_kind(any_kind.release(home, first, made, "largest", level=few, false_keys=false_keys), Release)
        _check_stands_out(keys, first, few, whole)
        largest = keys.frame.head(largest_keys)
        with home.hold() as state:
            known = state.series(second.name)
        if known is None:
            units = _profile(home, source, first, largest.select(first.key), report, **counting.resources())
            # Its units are those of the log, and what vouches for them is what vouches for the log.
            second = replace(second, unit=first.unit, source=first.source)
            known = counted_into(home, NewLog(_table(units, classes), second, counted_here=True), counting)
        profile = any_kind.release(home, second, known.series_id, "profile", level=most, false_keys=_FALSE_CLASSES)
        shown = of_kind(profile, Release)
        _check_stands_out(shown, second, most, whole)
    wanted = largest_keys if first.domain.is_open else min(largest_keys, first.domain.size)
    scale = _scale(largest["noisy_count"].to_numpy(), wanted)
    estimates = _estimates(shown.frame, largest.height, scale, first, later)
    best = estimates.sort("error", "max_keys").group_by("bounding", maintain_order=True).first()
    kept, weighed = (best.filter(pl.col("bounding") == way).row(0, named=True) for way in ("keep", "share"))
    chosen = weighed if shared and weighed["error"] < _WORTH_SHARING * kept["error"] else kept
    return MaxKeysChoice(
        chosen["max_keys"], chosen["bounding"], estimates, level_text(whole), first.name, second.name
    )


def _check_level(home: Home, declared: Declaration, name: str, level: Fraction) -> None:
    """Refuse a choice of that name at another level."""
    with home.hold() as state:
        made = published_metadata(state, home.find(state, declared.name))
    if made and as_level(made[0].level) / _FIRST_SHARE != level:
        at = level_text(as_level(made[0].level) / _FIRST_SHARE)
        raise NameTakenError(f"the choice {name!r} was made at level {at}: ask at that level, or use another name")


def _check_stands_out(shown: Release, declared: Declaration, level: str, whole: Fraction) -> None:
    """Refuse to choose by noise alone: decided by what is published, so that it tells nothing else."""
    family, size = declared.family_in_units, 1 if declared.domain.is_open else declared.domain.size
    factor = 100 if declared.family.currency == "rho" else 10  # ten times less noise: rho grows with its square
    least, finer = (
        threshold_for_false_keys(family, level_text(at), size, _BY_CHANCE) / declared.unit_of_counts
        for at in (as_level(level), factor * as_level(level))
    )
    if (shown.frame["noisy_count"] > (0.0 if declared.domain.is_open else least)).any():
        return
    larger = f"level {level_text(factor * whole)}, with a tenth of the noise"
    if not declared.domain.is_open:
        larger += f", where one of more than {finer:,.0f} does; here it takes {least:,.0f}"
    raise NotFoundError(
        f"at level {level_text(whole)} what the choice published may be noise alone, and it stays spent: no count "
        f"stands out. Choose again under another name at {larger}; or take a bound you know. "
        f"Beforehand, plan(domain=…, max_keys={_FIRST_BOUND}, shows=…) names the level for keys of so many units, a "
        "quarter of the price"
    )


def _profile(
    home: Home,
    source: object,
    first: Declaration,
    largest: pl.DataFrame,
    report: Callable[[str], None],
    **counted: Any,
) -> pl.DataFrame:
    """Each unit with its classes, by distinct keys and by keys among the largest; units without any are left out."""
    source = checked_source(source, first)
    with ExitStack() as spills:
        with home.hold() as state:
            spill = spills.enter_context(spill_directory(state.spill))
        pairs = list_pairs(
            source, salt=secrets.token_bytes(SALT_BYTES), temporary_directory=spill, progress=report,
            **reading_of(first), **counted,
        )  # fmt: skip
    names = key_names(first.domain.columns)
    marked = largest.rename(dict(zip(first.key, names, strict=True))).with_columns(among=pl.lit(1))
    sizes = (
        pairs.frame()
        .join(marked, on=names, how="left")
        .group_by("unit")
        .agg(keys=pl.len(), largest=pl.col("among").sum())
        .filter(pl.col("largest") > 0)
    )
    return sizes.select(
        unit=pl.int_range(pl.len()),
        keys=_class_of("keys", _CLASSES),
        largest=_class_of("largest", _CLASSES_OF_LARGEST),
    )


def _table(units: pl.DataFrame, classes: Product) -> Counts:
    """Units by class. Empty classes are listed: that all are empty must come out as noise does, not as a refusal."""
    every = classes.keys(np.arange(classes.size))
    every.columns = list(classes.names)
    counted = units.group_by(every.columns).agg(count=pl.len().cast(pl.Int64))
    joined = every.join(counted, on=every.columns, how="left")
    return Counts(joined.with_columns(pl.col("count").fill_null(0)), largest=1)


def _class_of(column: str, classes: int) -> pl.Expr:
    """Return the number of binary digits less one: exact, where a logarithm might be rounded."""
    bits = pl.sum_horizontal(*(pl.col(column) >= 2**bit for bit in range(1, classes)))
    return bits.cast(pl.Int64)


def _middle(classes: pl.Series) -> FloatArray:
    """Return a number of keys that stands for a class: the geometric mean of its ends."""
    least = 2.0 ** classes.to_numpy().astype(np.float64)
    return np.sqrt(least * (2 * least - 1))


def _scale(noisy: FloatArray, wanted: int) -> float:
    """What the wanted keys lose, as a root mean square, for each pair of a unit and a shown key that is lost."""
    shown = np.maximum(noisy, 1.0)  # sorted; noise that may be negative must not have a root
    others = shown[-1] * shown.size * np.log(max(1.0, wanted / shown.size))
    return float(np.sqrt((shown.sum() + others) / wanted) / np.sqrt(shown).sum())


def _estimates(
    table: pl.DataFrame, n_largest: int, scale: float, declared: Declaration, level: Fraction
) -> pl.DataFrame:
    """Bias and noise of a key among the largest at a level, for each bound."""
    share_power = 0.5 if declared.family.norm == "l2" else 1.0
    # A unit has no more of the largest keys than it has keys, nor than there are: other classes are noise.
    possible = (pl.col("largest") <= pl.col("keys")) & (2 ** pl.col("largest") <= n_largest)
    table = table.filter(possible)
    # Units of a class have numbers of keys all over it.
    keys = np.multiply.outer(_PLACES, 2.0 ** table["keys"].to_numpy())
    pairs = table["noisy_count"].to_numpy() * np.minimum(_middle(table["largest"]), n_largest)
    rows = []
    for bound in BOUNDS:
        noise = family_named(declared.noise, bound).std(level)
        for bounding, power in (("keep", 1.0), ("share", share_power)):
            bias = float(pairs @ (1 - np.minimum(1, bound / keys) ** power).mean(axis=0)) * scale
            rows.append((bound, bounding, bias, noise, float(np.hypot(bias, noise))))
    return pl.DataFrame(rows, schema=["max_keys", "bounding", "bias", "noise", "error"], orient="row")
