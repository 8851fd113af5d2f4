"""Make releases of any kind: cells, workloads or running counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.errors import DeclarationError, of_kind
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import cell_round, pipeline
from sparsehist.release.cell_parameters import measure_sums, requested
from sparsehist.release.home import Home
from sparsehist.release.metadata import Request, level_fields
from sparsehist.release.release_files import check_target
from sparsehist.release.releases import Release, WorkloadRelease
from sparsehist.release.stored_declaration import declaration_of

_CELL_PARAMETERS = ("threshold", "false_keys", "open_delta", "measures")
_WORKLOAD_PARAMETERS = ("workload", "strategy")


def request_of(
    declaration: Declaration,
    name: str,
    *,
    level: Level | EpsilonDelta | None = None,
    epsilon: Level | None = None,
    delta: Level | None = None,
    max_false_keys: float = 1e7,
    existing_kind: str | None = None,
    **parameters: Any,
) -> tuple[Request, pipeline.Opener]:
    """Check the arguments of `Series.release`. Return them as a `Request`, with a function that opens the noise path.

    The arguments determine the kind of the release, together with `existing_kind`: the kind of the existing release
    with the requested name, such as "workload", or None if there is no such release.
    """
    chosen = {word: value for word, value in parameters.items() if value is not None}
    levels = level_fields(level, epsilon, delta)
    of_workload = "workload" in chosen or (existing_kind == "workload" and not chosen.keys() & set(_CELL_PARAMETERS))
    refused = dict.fromkeys(_WORKLOAD_PARAMETERS, "for workloads: give workload=")
    if of_workload:
        refused = dict.fromkeys(_CELL_PARAMETERS, "for releases of cells, and this is a release of a workload")
    if declaration.steps is None:
        refused["step"] = "for running series only"
    for word in chosen.keys() & refused.keys():
        raise DeclarationError(f"{word}= is {refused[word]}", parameter=word)
    if of_workload:
        if declaration.steps is not None:
            raise DeclarationError("a running series cannot release workloads", parameter="workload")
        from sparsehist.release import workload_round  # imported only when needed, because importing scipy is slow

        return workload_round.requested(declaration, name, levels, **chosen), workload_round.open_path
    sums = measure_sums(declaration, chosen.pop("measures", None))
    step = chosen.pop("step", None)
    cells = replace(requested(name, levels, **chosen, max_false_keys=max_false_keys), measures=sums)
    if declaration.steps is None:
        return cells, cell_round.open_path
    from sparsehist.release import running_round

    number = None if step is None else declaration.steps.step_of(step)
    request = running_round.RunningRequest(**vars(cells), step=number)
    return request, lambda locked, _: running_round.RunningPath(locked)


def release(
    home: Home,
    series: Declaration | str,
    series_id: str | None,
    name: str,
    *,
    target: Path | None = None,
    **parameters: Any,
) -> Release | WorkloadRelease:
    """Make a release of a series, or return the existing release called `name`.

    `series` is the declaration or the name of the series. `target` is the file to which the caller will write the
    release; if this file cannot be written, raise an error before drawing noise.
    """
    checked_name("release", name)
    with home.hold() as state:
        declaration = None if isinstance(series, str) else series
        record = home.find(state, declaration.name if declaration else str(series), series_id)
        locked = pipeline.LockedSeries(home, state, record, declaration or declaration_of(record))
        if target is not None:
            check_target("the release", target, home.path, free=state.release_named(record, name) is None)
        kind = pipeline.kind_of(locked, name)
        request, open_path = request_of(locked.declaration, name, existing_kind=kind, **parameters)
        if request.kind == "workload":
            from sparsehist.release import workload_round

            workload_round.warn_of_counts(locked.declaration, of_kind(request, workload_round.WorkloadRequest))
        return pipeline.release(locked, request, open_path)
