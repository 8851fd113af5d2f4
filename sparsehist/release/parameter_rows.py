"""The public parameters of series and releases as rows of a name and a value, for terminals and for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsehist.declaration.parameters import rows
from sparsehist.privacy import as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import in_prose
from sparsehist.release.metadata import CellMetadata, Metadata, RunningMetadata, WorkloadMetadata

if TYPE_CHECKING:
    from sparsehist.declaration import Declaration


def declaration_rows(declared: Declaration) -> list[tuple[str, str]]:
    """The public parameters of a series, as people read them."""
    return [
        *([] if declared.unit else [("unit", "counts bounded elsewhere")]),
        *rows(declared),
        *([("guarantee", declared.rests_on)] if declared.rests_on else []),
    ]


def asked_text(about: Metadata) -> str:
    """The level as it was asked for: epsilon and delta, if given, and the level that keeps to them."""
    if about.epsilon_delta is None:
        return about.level
    asked = EpsilonDelta.parse(about.epsilon_delta).in_words
    return f"{asked} (level {level_text(in_prose(as_level(about.level)))})"


def release_rows(about: Metadata) -> list[tuple[str, str]]:
    """The parameters needed to interpret a count or an answer, as rows."""
    guarantee = about.guarantee.replace("numerical_slack", f"a numerical slack of {about.numerical_slack:.1g}")
    level = [("level", asked_text(about)), ("guarantee", guarantee)]
    if isinstance(about, WorkloadMetadata):
        std = f"standard deviation of an answer {about.std:.4g} units (root mean square)"
        return [
            ("workload", f"{about.workload}, by {about.strategy}"),
            *level,
            ("noise", f"{about.noise}, {std}"),
            ("counts", about.counts or "units"),
        ]
    noise = ("noise", f"{about.noise}, standard deviation {about.std:.4g} units")
    if not isinstance(about, CellMetadata):
        return [*level, noise]
    levels, stds = about.measure_levels or {}, about.measure_stds or {}
    rows = [
        *([("step", f"{about.step} of {about.declaration.n_steps}")] if isinstance(about, RunningMetadata) else []),
        *level,
        noise,
        *((f"{name}_sum", f"level {at}, standard deviation {stds[name]:.4g}") for name, at in levels.items()),
        ("threshold", f"{about.threshold:,.4f} units"),
        ("expected false keys", f"{about.expected_false_keys:.3g}"),
    ]
    if about.delta_infinity is None:
        return rows
    spent = f"{about.delta_infinity:.4g} spent so far, {about.delta_remaining:.4g} left"
    return [*rows, ("delta of the series", spent)]
