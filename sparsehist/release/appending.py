"""Append the log of a step to a running series, all or nothing, and end it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from sparsehist.counting.contract import Counts
from sparsehist.counting.count import list_pairs
from sparsehist.counting.progress import Counting, reporting
from sparsehist.declaration import Declaration
from sparsehist.errors import DeclarationError, NameTakenError, RefusedError, present
from sparsehist.release.creation import checked_source, with_source
from sparsehist.release.home import PATIENCE, Home
from sparsehist.release.steps import Day, StepFiles, added, kind_of_all
from sparsehist.store import NewStep, SeriesRecord, State, StepRecord
from sparsehist.store.layout import spill_directory


def append_step(
    home: Home, declaration: Declaration, series_id: str, source: object, step: int, counting: Counting | None = None
) -> bool:
    """Append a step, numbered from 1; return False if it was appended with the same pairs before."""
    counting = counting or Counting()
    if isinstance(source, Counts):
        raise DeclarationError(
            "a running series has to know which units counted before: append the log, not counts made elsewhere"
        )
    declared = with_source(declaration, source)
    with ExitStack() as spills, reporting(counting.progress) as report:
        with home.hold() as state:
            record = home.find(state, declaration.name, series_id)
            _appended_before(state, record, step)
            spill = spills.enter_context(spill_directory(state.spill))
        source = checked_source(source, declaration)
        # The store is not held meanwhile: others may release.
        pairs = list_pairs(
            source, unit=present(declaration.unit), key=declaration.key, domain=declaration.domain,
            without_key=not declaration.key_columns, salt=record.salt,
            on_null=declaration.on_null, on_outside=declaration.on_outside,
            key_types=dict(declared.key_types), temporary_directory=spill, progress=report, **counting.resources(),
        )  # fmt: skip
        report("appending")
        day = Day.of_pairs(pairs, present(declaration.unit), record.salt)
        # A log that was counted is not thrown away because somebody releases at this moment.
        with home.hold(at_least=PATIENCE) as state:
            record = home.find(state, declaration.name, series_id)
            before = _appended_before(state, record, step)
            if step <= len(before):
                if before[step - 1].digest != day.digest:
                    raise NameTakenError(
                        f"step {step} of {declaration.name!r} was appended with other rows; its counts never change"
                    )
                return False
            kind = kind_of_all(before[-1].unit_kind if before else "", day.unit_kind, "steps")
            files = StepFiles(state, record, declaration.domain.dtypes)
            written, replaced = files.write(state, record, added(day, files, declaration.max_keys))
            made = NewStep(step - 1, day.digest, kind, declared.source, (), home.who)
            state.commit_step(record, replace(made, files=written, replaced=replaced))
    return True


def finish(home: Home, declaration: Declaration, series_id: str) -> None:
    """Erase which pairs of units and keys counted; nothing can be appended afterwards."""
    with home.hold() as state:
        record = home.find(state, declaration.name, series_id)
        if not state.is_finished(record):
            files = StepFiles(state, record, declaration.domain.dtypes)
            state.finish_series(record, files.unit_files, who=home.who)


def _appended_before(state: State, record: SeriesRecord, step: int) -> list[StepRecord]:
    """Return the steps that were appended; refuse one that is not next, or any once the series is finished."""
    before = state.steps(record)
    if state.is_finished(record):
        raise RefusedError(f"the series {record.name!r} is finished: nothing more can be appended")
    if step > len(before) + 1:
        raise DeclarationError(f"steps are appended in order, and step {len(before) + 1} comes next, not {step}")
    return before
