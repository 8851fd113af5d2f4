"""The public parameters of series and releases as rows of a name and a value, for terminals and for notebooks."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sparsehist.series.metadata import CellMetadata, Metadata, RunningMetadata, WorkloadMetadata

if TYPE_CHECKING:
    from sparsehist.domain import Domain
    from sparsehist.periods.periodic_series import PeriodicSeries
    from sparsehist.series.declaration import Declaration


def declaration_rows(declared: Declaration) -> list[tuple[str, str]]:
    """The public parameters of a series, as people read them."""
    return [
        ("unit", declared.unit_text or "counts bounded elsewhere"),
        ("key", ", ".join(declared.key)),
        ("max_keys", f"{declared.max_keys:,}"),
        *([("bounding", declared.shares.describe())] if declared.shares else []),
        *([("portable", "units keep the keys that every engine would choose")] if declared.portable else []),
        ("domain", f"{declared.domain.describe()}, {keys_text(declared.domain)}"),
        ("noise", declared.noise),
        ("cap", declared.cap_text or "none"),
        *([("steps", f"{declared.steps:,}")] if declared.steps else []),
        *([("period", declared.period)] if declared.period else []),
        ("population", declared.population),
        ("on_null, on_outside", f"{declared.on_null}, {declared.on_outside}"),
        *([("guarantee", declared.rests_on)] if declared.rests_on else []),
        *([("chosen by looking", declared.chosen_by_looking)] if declared.chosen_by_looking else []),
    ]


def periodic_rows(made: PeriodicSeries, row: dict[str, Any]) -> list[tuple[str, str]]:
    """The public parameters of a log in periods, and what it has cost."""
    shown = [*declaration_rows(made.declaration), ("periods", row["periods"]), ("budget", row["budget"] or "none")]
    if added := made.added():
        released = set(made.released())
        told = ", ".join(f"{period} (released)" if period in released else period for period in added)
        shown.insert(-1, ("added", told))
    if row["releases"]:
        shown += [(f"spent per {made.rule.unit_period}", f"{row['currency']} {row['per_period'].split()[0]}")]
        shown += [("spent per user", f"{row['currency']} {row['level']}")]
    return shown


def release_rows(about: Metadata) -> list[tuple[str, str]]:
    """The parameters one reads a count or an answer by."""
    guarantee = about.guarantee.replace("numerical_slack", f"a numerical slack of {about.numerical_slack:.1g}")
    promised, _, rests_on = guarantee.partition("; ")
    told = "; ".join(filter(None, (f"{promised}, for {about.neighbours}", rests_on)))
    level = [("level", about.level), ("guarantee", told)]
    if isinstance(about, WorkloadMetadata):
        std = f"standard deviation of an answer {about.std:.4g} units (root mean square)"
        return [
            ("workload", f"{about.workload}, by {about.strategy}"),
            *level,
            ("noise", f"{about.noise}, {std}"),
            ("counts", about.counts or "units"),
            ("post-processing", ", ".join(about.post_processing) or "none"),
        ]
    noise = ("noise", f"{about.noise}, standard deviation {about.std:.4g} units")
    if not isinstance(about, CellMetadata):
        return [*level, noise]
    rows = [
        *([("step", f"{about.step} of {about.steps}")] if isinstance(about, RunningMetadata) else []),
        *level,
        noise,
        ("threshold", f"{about.threshold:,.4f} units"),
        ("expected false keys", f"{about.expected_false_keys:.3g}"),
    ]
    if about.delta_infinity is None:
        return rows
    spent = f"{about.delta_infinity:.4g} spent so far, {about.delta_remaining:.4g} of {about.delta} left"
    return [*rows, ("delta of the series", spent)]


def keys_text(domain: Domain) -> str:
    """How many keys could occur."""
    return "any key" if domain.is_open else f"{size_text(domain.size)} keys"


def size_text(size: int) -> str:
    """A number of cells, exact while it can be read."""
    if size < 10**9:
        return f"{size:,}"
    return f"{Decimal(size):.3g}"  # floats end at 1e308, domains do not
