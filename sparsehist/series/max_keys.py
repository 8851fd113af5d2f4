"""Choose how many keys a unit should count towards, from two small releases.

The *largest keys* are the keys with the largest counts. A limit on the number of keys that a unit counts towards
decreases these counts. The decrease of a count depends on how many other keys its units have. The first release
uses a quarter of the level and shows the largest keys. The second release uses the rest of the level. It is a table
that counts units by their number of keys and by how many of these keys are among the largest keys. Each unit is
counted in one cell of this table, so the sensitivity is 1. The table shows, for each candidate limit, how many
(unit, key) pairs of the largest keys would be dropped.
The estimates assume that the bias of a key is proportional to the square root of its count, and that the counts of
keys that were not published fall off as 1/rank.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sparsehist.counting import Counting
from sparsehist.counting.contract import SALT_BYTES, Choice, Counts
from sparsehist.counting.progress import reporting
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name, checked_whole
from sparsehist.declaration.declaration import LARGEST_BOUND, NoiseChoice
from sparsehist.domain import Domain, Integers, Product
from sparsehist.domain.base import key_names
from sparsehist.errors import DeclarationError, NotFoundError, of_kind
from sparsehist.histogram import threshold_for_false_keys
from sparsehist.noise import family_named
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release import any_kind
from sparsehist.release.creation import counted_into, pairs_of_log, with_source
from sparsehist.release.home import Home, home_of
from sparsehist.release.key_discovery import Round, check_room
from sparsehist.release.releases import Release
from sparsehist.series.store import Store
from sparsehist.typing import FloatArray

BOUNDS = tuple(dict.fromkeys(round(1.1**power) for power in range(81)))
"""Candidates for max_keys, from 1 to 2,048."""

_FIRST_BOUND, _FIRST_SHARE = 5, Fraction(1, 4)
# Class i covers units with 2**i to 2**(i+1) - 1 keys; the last class has no upper limit.
_CLASSES = Product(keys=Integers(12), largest=Integers(10))
_PLACES = 2 ** ((np.arange(4) + 0.5) / 4)
# The threshold for the table of classes is chosen to give this expected number of false keys. Without a threshold,
# the noise of empty cells would distort the estimates.
_FALSE_CLASSES = 0.4
# A release is used only if noise alone would reach its largest count with a probability of at most 1 %.
_BY_CHANCE = 0.01
# Choose "share" only if its error is below 95 % of the error of "keep", because "keep" is easier to explain.
_WORTH_SHARING = 0.95


@dataclass(frozen=True)
class MaxKeysChoice:
    """The chosen max_keys and bounding, with the estimates that they are based on. All fields are public.

    Attributes:
        max_keys: Largest number of keys that a unit should count towards.
        bounding: "keep" or "share".
        estimates: Table of the estimated error of the largest counts, with one row for each candidate max_keys and
            bounding. Columns: max_keys, bounding, bias (root mean square over the keys with the largest counts),
            noise (standard deviation) and error (both combined); the last three are in counts.
        level: Total level of the releases of the series `keys` and `profile`, as exact text.
        keys: Name of the series whose release showed the largest keys.
        profile: Name of the series that counts units by their number of keys.
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
    release_level: Level = "0.1",
    on_null: Choice = "error",
    on_outside: Choice = "error",
    counting: Counting | None = None,
) -> MaxKeysChoice:
    """Choose max_keys and the bounding, "keep" or "share", from two small private releases of the log.

    Both releases are charged to the population, in addition to later releases of the log. They belong to the series
    `{name}_keys` and `{name}_profile`. Another call with the same name returns the same choice at no cost.

    Parameters are as for `create`, with these differences. The source is the log itself, not `Counts`. `noise` is the
    family of the later series; `release_level` is the level of its release, which decides how much noise a bound
    costs. The choice minimises the error of the `largest_keys` largest keys, a public number. `level` is the cost of
    the choice. A quarter of it is spent on the release of keys: `plan(domain=…, max_keys=5, shows=1000)` returns the
    quarter that shows a key of 1,000 units.

    Raises:
        DeclarationError: If a parameter is wrong.
        DataError: If the log breaks a rule.
        BudgetExceededError: If the population's budget does not allow the choice; nothing was drawn.
        NotFoundError: If a release may be noise alone, because the level is too small for this log. The level is
            spent.
        NameTakenError: If another choice has this name.

    Example:
        >>> import sparsehist as sh
        >>> rows = range(40_000)
        >>> log = pl.DataFrame({"user": [i // 8 for i in rows], "page": [f"p{i % 8}" for i in rows]})
        >>> pages = sh.Strings(max_bytes=4)
        >>> sh.choose_max_keys(sh.open(":memory:", seed=2), log, unit="user", key="page", domain=pages).max_keys
        16
    """
    if isinstance(source, Counts):
        raise DeclarationError("sh.Counts has no units: pass the log itself to choose max_keys")
    checked_whole("largest_keys", largest_keys, 1, LARGEST_BOUND)
    checked_name("choice", name)
    whole, later = as_level(level), as_level(release_level)
    few, most = (level_text(whole * share) for share in (_FIRST_SHARE, 1 - _FIRST_SHARE))
    family = family_named(noise if isinstance(noise, str) else "gaussian", 1)
    declared: dict[str, Any] = {
        "unit": unit, "key": key, "domain": domain, "noise": noise, "population": population,
        "bounding": "keep" if family.integer else "share", "on_null": on_null, "on_outside": on_outside,
    }  # fmt: skip
    first = Declaration(name=f"{name}_keys", max_keys=_FIRST_BOUND, **declared)
    keyed: dict[str, Any] = {"key": _CLASSES.names, "domain": _CLASSES, "max_keys": 1, "bounding": "keep"}
    second = replace(first, name=f"{name}_profile", unit=None, **keyed)
    home, counting = home_of(store), counting or Counting()
    check_room(home, [Round(first, few), Round(second, most)])
    with reporting(counting.progress) as report:
        counting = replace(counting, progress=report)
        first = with_source(first, source)
        record = counted_into(home, source, first, counting, if_exists="resume")
        false_keys = None if first.domain.is_open else 1
        released = any_kind.release(home, first, record.series_id, "largest", level=few, false_keys=false_keys)
        keys = _distinct_from_noise(released, first, few, whole)
        largest = keys.frame.head(largest_keys)
        with home.hold() as state:
            existing = state.series(second.name)
        if existing is None:
            counts = Counts(_profile(home, source, first, largest.select(first.key), counting), largest=1)
            # The series is created from counts, but these were computed from the log. So the declaration names the
            # unit and the source of the log.
            second = replace(second, unit=first.unit, source=first.source)
            existing = counted_into(home, counts, second, counting, is_bounded=True)
        released = any_kind.release(
            home, second, existing.series_id, "profile", level=most, false_keys=_FALSE_CLASSES
        )
        profile = _distinct_from_noise(released, second, most, whole)
    n_largest = largest_keys if first.domain.is_open else min(largest_keys, first.domain.size)
    scale = _scale(largest["noisy_count"].to_numpy(), n_largest)
    estimates = _estimates(profile.frame, largest.height, scale, first, later)
    best = estimates.sort("error", "max_keys").group_by("bounding", maintain_order=True).first()
    kept, weighed = (best.filter(bounding=bounding).row(0, named=True) for bounding in ("keep", "share"))
    worth_it = not family.integer and weighed["error"] < _WORTH_SHARING * kept["error"]
    chosen = weighed if worth_it else kept
    return MaxKeysChoice(
        chosen["max_keys"], chosen["bounding"], estimates, level_text(whole), first.name, second.name
    )


def _distinct_from_noise(released: object, declared: Declaration, level: str, whole: Fraction) -> Release:
    """Raise an error if a release may contain only noise. This costs no privacy, as the release is already public."""
    release, least = of_kind(released, Release), 0.0
    if not declared.domain.is_open:
        threshold = threshold_for_false_keys(declared.family_in_units, level, declared.domain.size, _BY_CHANCE)
        least = threshold / declared.unit_of_counts
    if (release.frame["noisy_count"] > least).any():
        return release
    # A tenth of the noise needs 100 times the rho, or 10 times the epsilon.
    larger = level_text((100 if declared.family.currency == "rho" else 10) * whole)
    raise NotFoundError(
        "the release may be noise alone, and its cost cannot be undone. Either set max_keys yourself, or call "
        "choose_max_keys() again with a new name and a larger level. For example, to detect keys that 1,000 units "
        "touched, use four times the level that plan(domain=…, max_keys=5, shows=1000) returns, because keys are "
        "released at a quarter of the level. "
        f"Level of this call: {level_text(whole)}. Level for a tenth of the noise: {larger}"
    )


def _profile(
    home: Home, source: object, first: Declaration, largest: pl.DataFrame, counting: Counting
) -> pl.DataFrame:
    """Count units by their number of keys, and by how many of these are among the keys with the largest counts.

    Units without any of the largest keys are omitted. Empty classes are included, because the release must add noise
    even if all classes are empty.
    """
    names = key_names(first.domain.columns)
    pairs = pairs_of_log(home, source, first, secrets.token_bytes(SALT_BYTES), counting)
    marked = largest.rename(dict(zip(first.key, names, strict=True))).with_columns(among=pl.lit(1))
    units = (
        pairs.frame()
        .join(marked, on=names, how="left")
        .group_by("unit")
        .agg(keys=pl.len(), largest=pl.col("among").sum())
        .filter(pl.col("largest") > 0)
    )
    classes = _CLASSES.keys(np.arange(_CLASSES.size))
    classes.columns = list(_CLASSES.names)
    counted = units.select(_class_of(name) for name in _CLASSES.names).group_by(_CLASSES.names).len("count")
    counts = pl.col("count").fill_null(0).cast(pl.Int64)
    return classes.join(counted, on=classes.columns, how="left").with_columns(counts)


def _class_of(column: str) -> pl.Expr:
    """Return the class of each number in a column: floor(log2(number)), capped at the last class."""
    classes = int(_CLASSES.components[_CLASSES.names.index(column)].size)
    bits = pl.sum_horizontal(*(pl.col(column) >= 2**bit for bit in range(1, classes)))
    return bits.cast(pl.Int64).alias(column)


def _scale(noisy: FloatArray, n_largest: int) -> float:
    """Return the bias (root mean square over the largest keys) per dropped (unit, key) pair of the largest keys."""
    shown = np.maximum(noisy, 1.0)  # noisy counts in decreasing order; those below 1 are raised to 1
    others = shown[-1] * shown.size * np.log(max(1.0, n_largest / shown.size))  # estimated sum of unpublished counts
    return float(np.sqrt((shown.sum() + others) / n_largest) / np.sqrt(shown).sum())


def _estimates(
    profile: pl.DataFrame, n_largest: int, scale: float, declared: Declaration, level: Fraction
) -> pl.DataFrame:
    """Return a table of the bias and noise of the largest counts, for each candidate max_keys and bounding."""
    # Drop classes that no unit can be in, because they contain only noise: a unit has at most `n_largest` of the
    # largest keys, and at most as many as it has keys in total.
    profile = profile.filter(pl.col("largest") <= pl.col("keys"), 2 ** pl.col("largest") <= n_largest)
    # A class is a range of numbers. For the number of keys of a unit, average over four values spread over the range.
    # For the number of its largest keys, use only the geometric mean of the ends of the range.
    keys = np.multiply.outer(_PLACES, 2.0 ** profile["keys"].to_numpy())
    least = 2.0 ** profile["largest"].to_numpy()
    pairs = profile["noisy_count"].to_numpy() * np.minimum(np.sqrt(least * (2 * least - 1)), n_largest)
    rows = []
    for bound in BOUNDS:
        noise = family_named(declared.noise, bound).std(level)
        for bounding, power in (("keep", 1.0), ("share", 0.5 if declared.family.norm == "l2" else 1.0)):
            bias = float(pairs @ (1 - np.minimum(1, bound / keys) ** power).mean(axis=0)) * scale
            rows.append((bound, bounding, bias, noise, float(np.hypot(bias, noise))))
    return pl.DataFrame(rows, schema=["max_keys", "bounding", "bias", "noise", "error"], orient="row")
