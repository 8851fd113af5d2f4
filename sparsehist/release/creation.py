"""Create a series: check the declaration, count the log, write the files and commit them."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.counting import count_keys
from sparsehist.counting.contract import ClosedQuery, CountedKeys, Counts, Files, Query, UnitPairs
from sparsehist.counting.count import EMPTY, list_pairs, sorted_keys
from sparsehist.counting.fingerprint import changes, fingerprint
from sparsehist.counting.progress import Counting, reporting
from sparsehist.counting.sources import checked_query, is_spark_frame
from sparsehist.declaration import Declaration
from sparsehist.declaration.declaration import CHECKED_QUERY, UNCHECKED_SOURCE
from sparsehist.errors import DataError, DeclarationError, InputError, SeriesDiffersError, present
from sparsehist.ledger.ledger import Ledger
from sparsehist.release.cell_parameters import LARGEST_COUNT
from sparsehist.release.home import PATIENCE, Home
from sparsehist.release.stored_declaration import catalogue_files, check_equal_declaration, declaration_of
from sparsehist.store import SeriesRecord, State, ensure_store, write_file
from sparsehist.store.layout import spill_directory
from sparsehist.store.series_files import write_series_files, write_sorted
from sparsehist.store.support import BOUNDING, ORDER, salt_for

_CHANGED = {
    "query": "the text of its query differs",
    "source": "the log it was made from differs",
    "rows": "data in memory and remote files cannot be compared with its log",
}


def with_source(declaration: Declaration, source: object) -> Declaration:
    """Set the fields of a declaration that depend on the source of the log, and return the new declaration.

    These fields state the data types of keys, whether all engines keep the same keys of a unit, and what the
    guarantee assumes about the source.
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


PairsChosen = Callable[[pl.DataFrame], tuple[pl.DataFrame, dict[str, bytes]]]
"""A function that chooses which of the distinct (unit, key) pairs of a log to count.

It returns these pairs, and a dict from name to content of files that are stored with the series."""


def counted_into(
    home: Home,
    source: object,
    declaration: Declaration,
    counting: Counting | None = None,
    *,
    # If the series exists: "error" raises an error, "reuse" returns the series if it was made from an equal log, and
    # "resume" returns it even if the logs cannot be compared.
    if_exists: str = "error",
    is_bounded: bool = False,  # whether `source` is a `Counts` in which each unit was already cut to `max_keys` keys
    choose: PairsChosen | None = None,
    check: Callable[[State], None] | None = None,  # function that is called before the commit and may raise an error
) -> SeriesRecord:
    """Count a log into a new series; create the store if needed. `if_exists` says what to do if the series exists."""
    declaration, counting = with_source(declaration, source), counting or Counting()
    if counting.engine == ("memory" if is_spark_frame(source) else "spark"):
        raise DeclarationError(f"engine={counting.engine!r} cannot count a log of this type", parameter="counting")
    ensure_store(home.path)
    with ExitStack() as spills, reporting(counting.progress) as report:
        with home.hold() as state:
            record = state.series(declaration.name)
            if record is None:
                Ledger.of(state).check_series(declaration)
                spill = spills.enter_context(spill_directory(state.spill))
        if record is None:
            # The store is not locked during counting, so other processes can make releases.
            log, unit, written = checked_source(source, declaration), declaration.unit, spill / "series"
            how = counting.resources() | {"unit": None if is_bounded else unit, "progress": report}
            new = _counted(home, log, declaration, written, choose, durable=state.durable, **how)
            with home.hold(at_least=PATIENCE) as state:
                record = state.series(declaration.name)
                if record is None:
                    Ledger.of(state).check_series(declaration)
                    if check is not None:
                        check(state)
                    return _registered(state, declaration, new, written)
    return _reused(home, record, source, declaration, if_exists)  # another process may have created the series


def declared_into(home: Home, declaration: Declaration, if_exists: str) -> SeriesRecord:
    """Create a running series without steps, or return an existing series with the same name and declaration."""
    ensure_store(home.path)
    with home.hold() as state:
        record = state.series(declaration.name)
        if record is not None:
            series = f"{home!r} has a series {declaration.name!r} already"
            check_equal_declaration(series, declaration_of(record), declaration, if_exists)
            return record
        Ledger.of(state).check_series(declaration)
        with spill_directory(state.spill) as spill:
            written = spill / "series"
            written.mkdir(mode=0o700)
            content = catalogue_files(declaration.domain).items()
            files = [write_file(written / name, each, durable=state.durable) for name, each in content]
            salt, series_id = home.generator().bytes(16), secrets.token_hex(8)
            new = SeriesRecord(series_id, declaration.name, declaration.as_json(), salt, files)
            return _registered(state, declaration, new, written)


def _registered(state: State, declaration: Declaration, new: SeriesRecord, written: Path) -> SeriesRecord:
    """Move the files of a new series into the store, commit the series, and return its record."""
    state.commit_series(new, written, integer_noise=declaration.family.integer)
    return present(state.series(new.name))


def checked_source(source: object, declaration: Declaration) -> object:
    """Return the source to count. If it is an SQL query, check it, and look up the tables and files that it names.

    Raise an error if a row of the query's result may depend on several units, unless the query or the declaration has
    `unverified=True`.
    """
    if not isinstance(source, Query):
        return source
    query = replace(source, unverified=source.unverified or declaration.unverified)
    return checked_query(query, declaration.unit or (), declaration.key_columns)


def _reading(declaration: Declaration) -> dict[str, Any]:
    """Return the fields of a declaration that are needed to read a log, as keyword arguments."""
    return {
        "unit": declaration.unit, "key": declaration.key, "without_key": not declaration.key_columns,
        "domain": declaration.domain, "on_null": declaration.on_null, "on_outside": declaration.on_outside,
        "key_types": dict(declaration.key_types), "measures": declaration.measures,
    }  # fmt: skip


def pairs_of_log(home: Home, source: object, declaration: Declaration, salt: bytes, counting: Counting) -> UnitPairs:
    """Return the distinct (unit, key) pairs of a log. The store is not locked while the log is read."""
    log = checked_source(source, declaration)
    with ExitStack() as spills, reporting(counting.progress) as report:
        with home.hold() as state:
            spill = spills.enter_context(spill_directory(state.spill))
        how = counting.resources() | {"temporary_directory": spill, "progress": report, "salt": salt}
        return list_pairs(log, **_reading(declaration), **how)


def _counted(
    home: Home,
    log: Any,
    declaration: Declaration,
    written: Path,
    choose: PairsChosen | None,
    *,
    durable: bool,
    **how: Any,
) -> SeriesRecord:
    """Count a log, write the files of its series into the directory `written`, and return the series' record."""
    source, made_from, rng = log, fingerprint(log), home.generator()
    salt, content = rng.bytes(16), dict[str, bytes]()
    how |= {"temporary_directory": written.parent, "salt": salt_for(BOUNDING, salt)}
    declared = _reading(declaration) | how
    if choose is not None:
        log, content = choose(list_pairs(log, **declared).frame())
        declared = {"domain": declaration.domain} | how | {"unit": "unit", "key": log.drop("unit").columns}
    may_be_empty = choose is not None or declaration.period is not None
    declared |= {"weights": declaration.touched, "portable": declaration.bounding.portable}
    options: dict[str, Any] = {"salt": salt, "durable": durable, "threads": how["threads"]}
    if is_spark_frame(log) and not home.reproducible:
        engine, pieces = sorted_keys(log, salt_for(ORDER, salt), **declared)
        written.mkdir(mode=0o700)
        files = write_sorted(written, _countable(pieces, may_be_empty=may_be_empty), **options)
    else:
        counted = count_keys(log, may_be_empty=may_be_empty, **declared)
        engine = counted.engine
        if home.reproducible:  # make the rows and their order independent of the engine
            counted = CountedKeys.of(counted.frame.filter(pl.col("count") > 0).sort(pl.all()), engine)
        (counts,) = _countable([counted.counts], may_be_empty=True)
        how["progress"]("writing")
        written.mkdir(mode=0o700)
        files = write_series_files(written, counts["count"], counted.rows, rng=rng, **options)
    content |= catalogue_files(declaration.domain)
    files += [write_file(written / name, each, durable=durable) for name, each in content.items()]
    if fingerprint(source, made_from["key"]) != made_from:
        raise DataError("files of the log changed while it was counted: count it again when they are complete")
    stored = declaration.as_json() | {"engine": engine}
    return SeriesRecord(secrets.token_hex(8), declaration.name, stored, salt, files, json.dumps(made_from))


def _countable(frames: Iterable[pl.DataFrame], *, may_be_empty: bool) -> Iterator[pl.DataFrame]:
    """Check each frame of counts and yield it. Raise an error if the log is empty, or if a count is too large."""
    for number, frame in enumerate(frames):
        if number == 0 and frame.is_empty() and not may_be_empty:
            raise DataError(EMPTY)
        if int(frame["count"].max() or 0) > LARGEST_COUNT:  # type: ignore[arg-type]
            raise DataError(
                "a count is too large to add noise exactly: check that the count column counts units, "
                f"or scale it; the largest allowed count is {LARGEST_COUNT}"
            )
        yield frame


def _reused(
    home: Home, record: SeriesRecord, source: object, declaration: Declaration, if_exists: str
) -> SeriesRecord:
    """Return the existing series if it was made from this log with this declaration; otherwise raise an error."""
    existing = declaration_of(record)
    series = f"{home!r} has a series {existing.name!r} already"
    check_equal_declaration(series, existing, declaration, if_exists)
    try:
        changed = changes(json.loads(record.made_from), source)
    except (InputError, OSError):  # a source that was deleted or cannot be read counts as changed
        changed = ["source"]
    if not changed or (changed == ["rows"] and if_exists == "resume"):
        return record
    remedy = "open the series by its name, store.series(…), or count this log under another name"
    if existing.period is not None:
        remedy = "a period is counted once; a period without releases can be dropped and counted again"
    raise SeriesDiffersError(f"{series}, and {' and '.join(_CHANGED[each] for each in changed)}: {remedy}")
