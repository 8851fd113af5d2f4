"""Create a series: check that it may be created, count the log, write the files, commit."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.counting import count_keys
from sparsehist.counting.contract import ClosedQuery, Counts, Files, Query
from sparsehist.counting.count import EMPTY, list_pairs, sorted_keys
from sparsehist.counting.fingerprint import changes, fingerprint
from sparsehist.counting.progress import Counting, reporting
from sparsehist.counting.spark_sources import is_spark_frame
from sparsehist.declaration import Declaration
from sparsehist.declaration.declaration import CHECKED_QUERY, UNCHECKED_SOURCE
from sparsehist.errors import DataError, DeclarationError, InputError, SeriesDiffersError, StoreError, present
from sparsehist.ledger.ledger import Ledger
from sparsehist.release.cell_parameters import LARGEST_COUNT
from sparsehist.release.home import PATIENCE, Home
from sparsehist.release.stored_declaration import check_alike, declaration_of, write_bounding, write_catalogues
from sparsehist.store import (
    RegisteredFile,
    SeriesRecord,
    State,
    ensure_store,
)
from sparsehist.store.layout import spill_directory
from sparsehist.store.series_files import write_series_files, write_sorted
from sparsehist.store.support import BOUNDING, ORDER, salt_for

_DIFFERS = {"query": "the text of its query", "source": "the log it was made from", "rows": "its rows"}


def with_source(declaration: Declaration, source: object) -> Declaration:
    """Return the declaration with the fields that the source decides.

    These are the types of keys, the order in which a unit's pairs are cut, and the assumptions of the guarantee.
    """
    if is_spark_frame(source) or (isinstance(source, Counts) and source.counted_by is not None):
        declaration = replace(declaration, bounding=replace(declaration.bounding, portable=True))
    if isinstance(source, Files):
        declaration = replace(declaration, key_types=tuple(source.types.items()))
    if isinstance(source, Query):
        unverified = declaration.unverified or source.unverified
        of_session = isinstance(source, ClosedQuery) and not source.is_checked
        trusted = UNCHECKED_SOURCE if unverified or of_session else CHECKED_QUERY
        return replace(declaration, unverified=unverified, source=trusted)
    if isinstance(source, (str, os.PathLike, list, tuple, Files)):
        return declaration
    return replace(declaration, source=UNCHECKED_SOURCE)


class PairFilter:
    """A filter that removes pairs of a unit and a key before they are counted."""

    def begin(self, state: State) -> None:
        """Read from the store what the filter needs, before the log is read."""

    def kept(self, pairs: pl.DataFrame, columns: str | Sequence[str]) -> pl.DataFrame:  # noqa: ARG002 - see subclasses
        """Return the distinct pairs of a unit (in these columns) and a key that count."""
        return pairs

    def check(self, state: State) -> None:
        """Refuse to commit if the stored state has changed since `begin` read it."""

    def files(self, directory: Path, *, durable: bool) -> list[RegisteredFile]:  # noqa: ARG002 - see subclasses
        """Write the files that filters of later series read."""
        return []


@dataclass(frozen=True, repr=False)
class NewLog:
    """A log to be counted into a new series; or a series that was made from the same log is reused."""

    source: object
    declaration: Declaration
    if_exists: str = "error"  # or "reuse"; or "resume", which accepts rows that cannot be compared
    counted_here: bool = False  # whether the source is `Counts` that this package made of the declared units

    @property
    def unit(self) -> str | tuple[str, ...] | None:
        """Columns of the source that name the unit."""
        return None if self.counted_here else self.declaration.unit


def counted_into(
    home: Home, asked: NewLog, counting: Counting | None = None, *, bound: PairFilter | None = None
) -> SeriesRecord:
    """Count a log into a new series, or return the existing equal one; create the store if there is none."""
    declaration, counting = asked.declaration, counting or Counting()
    if counting.engine == ("memory" if is_spark_frame(asked.source) else "spark"):
        raise DeclarationError(f"engine={counting.engine!r} does not count this log", parameter="counting")
    made = ensure_store(home.path)
    try:
        with ExitStack() as spills, reporting(counting.progress) as report:
            with home.hold() as state:
                record = state.series(declaration.name)
                if record is None:
                    check_new(state, declaration, home.who)
                    if bound is not None:
                        bound.begin(state)
                    spill = spills.enter_context(spill_directory(state.spill))
            if record is None:
                asked = replace(asked, source=checked_source(asked.source, declaration))
                # Counting does not lock the store, so others may release.
                written = spill / "series"
                new = _counted(home, asked, written, bound, report, durable=state.durable, **counting.resources())
                with home.hold(at_least=PATIENCE) as state:
                    record = state.series(declaration.name)
                    if record is None:
                        check_new(state, declaration, home.who)
                        if bound is not None:
                            bound.check(state)
                        return _registered(state, home, declaration, new, written)
        return _reused(home, record, asked)  # the store existed, or another process made it first
    except BaseException:
        if made:
            _remove_if_empty(home)
        raise


def declared_into(home: Home, declaration: Declaration, if_exists: str) -> SeriesRecord:
    """Make a running series, whose steps are appended later, or return the existing equal one."""
    ensure_store(home.path)
    with home.hold() as state:
        record = state.series(declaration.name)
        if record is not None:
            what = f"{home!r} has a series {declaration.name!r} already"
            check_alike(what, declaration_of(record), declaration, if_exists)
            return record
        check_new(state, declaration, home.who)
        with spill_directory(state.spill) as spill:
            written = spill / "series"
            written.mkdir(mode=0o700)
            files = write_catalogues(written, declaration.domain, durable=state.durable)
            salt, series_id = home.generator().bytes(16), secrets.token_hex(8)
            new = SeriesRecord(series_id, declaration.name, declaration.as_json(), salt, files)
            return _registered(state, home, declaration, new, written)


def _registered(state: State, home: Home, declaration: Declaration, new: SeriesRecord, written: Path) -> SeriesRecord:
    """Move the files of a series into the store and commit it."""
    state.commit_series(new, written, integer_noise=declaration.family.integer, who=home.who)
    return present(state.series(new.name))


def check_new(state: State, declared: Declaration, who: str | None) -> None:
    """Refuse a series that exceeds the budget. The population's first open series reserves delta."""
    ledger = Ledger.of(state)
    ledger.check_series(declared)
    reserved = ledger.reserving(declared.population) if declared.domain.is_open else None
    if reserved is not None:
        state.declare(
            "set budget", who=who, population=declared.population, reason="the first open domain reserves delta",
            details=reserved.as_json(),
        )  # fmt: skip


def checked_source(source: object, declaration: Declaration) -> object:
    """Return the source to count; refuse a query that may mix units, unless it is declared unverified."""
    if not isinstance(source, Query):
        return source
    from sparsehist.counting.queries import checked  # imports DuckDB, which files do not need

    query = replace(source, unverified=source.unverified or declaration.unverified)
    return checked(query, declaration.unit or (), declaration.key_columns)


def reading_of(declaration: Declaration) -> dict[str, Any]:
    """Return the fields of a declaration that are needed to read a log."""
    return {
        "unit": declaration.unit, "key": declaration.key, "without_key": not declaration.key_columns,
        "domain": declaration.domain, "on_null": declaration.on_null, "on_outside": declaration.on_outside,
        "key_types": dict(declaration.key_types), "measures": declaration.measures,
    }  # fmt: skip


def _counted(
    home: Home,
    asked: NewLog,
    written: Path,
    bound: PairFilter | None,
    report: Callable[[str], None],
    *,
    durable: bool,
    **how: Any,
) -> SeriesRecord:
    """Count a log, and write the files of its series into the directory `written`."""
    declaration, made_from, rng = asked.declaration, fingerprint(asked.source), home.generator()
    salt = rng.bytes(16)
    how |= {"temporary_directory": written.parent, "progress": report, "salt": salt_for(BOUNDING, salt)}
    log: Any = asked.source
    told = reading_of(declaration) | {"unit": asked.unit}
    if bound is not None:
        log = bound.kept(list_pairs(log, **told, **how).frame(), present(declaration.unit))
        told = {"unit": "unit", "key": log.drop("unit").columns, "domain": declaration.domain}
    may_be_empty = bound is not None or declaration.period is not None
    told |= how | {
        "max_keys": declaration.max_keys, "weights": declaration.touched, "portable": declaration.portable,
    }  # fmt: skip
    options: dict[str, Any] = {"salt": salt, "durable": durable, "threads": how["threads"]}
    met = None
    if is_spark_frame(log) and not home.reproducible:
        engine, pieces = sorted_keys(log, salt_for(ORDER, salt), **told)
        written.mkdir(mode=0o700)
        files = write_sorted(written, _countable(pieces, may_be_empty=may_be_empty), **options)
    else:
        counted = count_keys(log, may_be_empty=may_be_empty, **told)
        engine, met, frame = counted.engine, counted.bounding, counted.frame
        if home.reproducible:  # engines return rows in any order, and may omit keys with count 0
            frame = frame.filter(pl.col("count") > 0).sort(pl.all())
        (frame,) = _countable([frame], may_be_empty=True)
        report("writing")
        written.mkdir(mode=0o700)
        files = write_series_files(written, frame, rng=rng, **options)
    files += write_catalogues(written, declaration.domain, durable=durable)
    files += write_bounding(written, met, durable=durable)
    if bound is not None:
        files += bound.files(written, durable=durable)
    if fingerprint(asked.source, made_from["key"]) != made_from:
        raise DataError("files of the log changed while it was counted: count it again when they are complete")
    stored = declaration.as_json() | {"engine": engine}
    return SeriesRecord(secrets.token_hex(8), declaration.name, stored, salt, files, json.dumps(made_from))


def _countable(frames: Iterable[pl.DataFrame], *, may_be_empty: bool) -> Iterator[pl.DataFrame]:
    """Yield frames of counts unchanged; refuse counts too large for noise, and an empty log."""
    for number, frame in enumerate(frames):
        if number == 0 and frame.is_empty() and not may_be_empty:
            raise DataError(EMPTY)
        if int(frame["count"].max() or 0) > LARGEST_COUNT:  # type: ignore[arg-type]
            raise DataError(
                f"a key has more than {LARGEST_COUNT} units: beyond that a count and its noise do not fit into one "
                "double; the count column is not a number of units, or has to be scaled"
            )
        yield frame


def _reused(home: Home, record: SeriesRecord, asked: NewLog) -> SeriesRecord:
    """Return the series that exists, if it was made from the same log with the same declaration."""
    known = declaration_of(record)
    name, of_period = f"{home!r} has a series {known.name!r} already", known.period is not None
    alike = "append the log with the same again" if of_period else "use another name"
    check_alike(name, known, asked.declaration, asked.if_exists, remedy=alike)
    try:
        changed = changes(json.loads(record.made_from), asked.source)
    except (InputError, OSError):  # the source is gone or unreadable
        changed = ["source"]
    if not changed or (changed == ["rows"] and asked.if_exists == "resume"):
        return record
    if changed == ["rows"]:
        raise SeriesDiffersError(
            f"{name}, and rows that a program hands over and remote files cannot be compared with its log: open the "
            "series by its name, store.series(…), or give the log as local files"
        )
    remedy = "use another name to count this log"
    if of_period:
        remedy = "a period is counted once; one that was never released can be dropped and counted again"
    raise SeriesDiffersError(f"{name}, and {' and '.join(_DIFFERS[one] for one in changed)} differs: {remedy}")


def _remove_if_empty(home: Home) -> None:
    """Remove a store made for a series that could not be created, unless another process uses it by now."""
    path = home.path
    discarded = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        with home.hold() as state:
            if state.all_series() or state.ledger() or any(state.spill.iterdir()):
                return
            path.rename(discarded)
    except (StoreError, OSError):
        return
    shutil.rmtree(discarded, ignore_errors=True)
    path.with_name(path.name + ".generation").unlink(missing_ok=True)
