"""List public parameters of series and releases as (name, value) rows, for terminals and notebooks."""

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
    """Return the public parameters of a series as rows for people."""
    counts = [] if declared.unit else [("unit", "counts bounded elsewhere")]
    return [*counts, *rows(declared), *([("guarantee", declared.rests_on)] if declared.rests_on else [])]


def asked_text(about: Metadata) -> str:
    """Return the requested level; or the (epsilon, delta) given instead, and the level chosen for it."""
    if about.epsilon_delta is None:
        return about.level
    asked = EpsilonDelta.parse(about.epsilon_delta).in_words
    return f"{asked} (level {level_text(in_prose(as_level(about.level)))})"


def release_rows(about: Metadata) -> list[tuple[str, str]]:
    """Return the parameters needed to interpret a count or an answer, as rows."""
    guarantee = about.guarantee.replace("numerical_slack", f"a numerical slack of {about.numerical_slack:.1g}")
    level = [("level", asked_text(about)), ("guarantee", guarantee)]
    if isinstance(about, WorkloadMetadata):
        std = f"standard deviation of an answer {about.std:.4g} units (root mean square)"
        asked, counts = f"{about.workload}, by {about.strategy}", about.counts or "units"
        return [("workload", asked), *level, ("noise", f"{about.noise}, {std}"), ("counts", counts)]
    found = [*level, ("noise", f"{about.noise}, standard deviation {about.std:.4g} units")]
    if isinstance(about, RunningMetadata):
        found.insert(0, ("step", f"{about.step} of {about.declaration.n_steps}"))
    if isinstance(about, CellMetadata):
        stds = about.measure_stds or {}
        for name, at in (about.measure_levels or {}).items():
            found.append((f"{name}_sum", f"level {at}, standard deviation {stds[name]:.4g}"))
        found.append(("threshold", f"{about.threshold:,.4f} units"))
        found.append(("expected false keys", f"{about.expected_false_keys:.3g}"))
        if about.delta_infinity is not None:
            spent = f"{about.delta_infinity:.4g} spent so far, {about.delta_remaining:.4g} left"
            found.append(("delta of the series", spent))
    return found
