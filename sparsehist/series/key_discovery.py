"""`discover_keys`: keys of a log that nobody can list, as a catalogue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from sparsehist.counting import Counting
from sparsehist.counting.contract import Choice
from sparsehist.domain import Catalogue
from sparsehist.privacy import Level
from sparsehist.release.key_discovery import discover
from sparsehist.series.store import Store


def discover_keys(
    store: str | os.PathLike[str] | Store,
    source: object,
    *,
    unit: str | Sequence[str],
    key: str,
    most_keys: int,
    level: Level,
    delta: str | float | Fraction,
    rounds: int = 3,
    kind: Literal["string", "integer", "date"] = "string",
    name: str = "discovery",
    population: str = "default",
    on_null: Choice = "error",
    counting: Counting | None = None,
) -> Catalogue:
    """Find keys of a log that nobody can list, privately, and return them as a catalogue.

    Far more keys are found than the releases of an open domain show, and the series that is then made over the
    catalogue needs no delta. All levels and thresholds are fixed before the first round. The rounds stand in the
    ledger as series `{name}_1`, … over open domains; asked again with the same name, the store gives the same
    catalogue at no cost.

    Args:
        store: Directory of the store, made if there is none; ":memory:" for experiments; or a Store.
        source: The log itself, as for `create`; not `Counts`.
        unit: Column of the privacy unit, or several that name it together.
        key: Column of the key.
        most_keys: Keys of a unit that may count at all, at least 1; of more, so many are kept by an order that its
            own rows decide. A public number: thresholds rise with it.
        level: rho of zCDP, spent by all rounds together.
        delta: Probability that a key which one unit alone has is found, over all rounds together; above 0, below 1.
        rounds: From 1 to 8. Later rounds take most of level and delta.
        kind: Type of the keys.
        name: Of the discovery.
        population: Whose costs add up over series.
        on_null: "error" or "drop" for rows without unit or key.
        counting: As for `create`; the distinct pairs of unit and key stay in memory.

    Returns:
        The keys that were found, sorted. Public: print it, save it with `write_parquet`, declare it as a domain.

    Raises:
        DeclarationError: If a parameter is wrong.
        DataError: If the log breaks a rule.
        BudgetExceededError: If the population's budget has no room for all rounds; before anything is drawn.
        NotFoundError: If no key was found: the level is too small for this log. It is spent.
        NameTakenError: If the name stands for another discovery.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user": range(3000), "page": [f"p{user % 3}" for user in range(3000)]})
        >>> found = sh.discover_keys(
        ...     sh.open(":memory:", seed=1), log, unit="user", key="page", most_keys=10, level=0.1, delta=1e-6
        ... )
        >>> str(found)
        "catalogue('p0', 'p1', 'p2')"
    """
    home = (store if isinstance(store, Store) else Store(store)).home
    return discover(
        home, source, unit=unit, key=key, most_keys=most_keys, level=level, delta=delta, rounds=rounds, kind=kind,
        name=name, population=population, on_null=on_null, counting=counting,
    )  # fmt: skip
