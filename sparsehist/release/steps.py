"""Append steps to a running series: choose the (unit, key) pairs to count, and store the pairs and the counts.

A pair is counted unless it was counted at an earlier step, or its unit already counts towards `max_keys` keys. If a
unit has too many new keys, the keys with the smallest keyed hashes of unit and key are kept; ties are broken by key.
So the pairs of a unit that are counted depend only on the secret salt and on the rows of this unit up to the step.

Keys are numbered in the order in which they are first counted. Stored pairs have digests of units; `finish` erases
them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from sparsehist.counting.contract import Counts, UnitPairs
from sparsehist.counting.in_memory import mixed
from sparsehist.counting.progress import Counting, reporting
from sparsehist.counting.tuples import types_of_tuple
from sparsehist.counting.words import odd
from sparsehist.declaration import Declaration
from sparsehist.domain.base import key_names
from sparsehist.errors import DataError, DeclarationError, NameTakenError, RefusedError, present, promise
from sparsehist.release.creation import pairs_of_log, with_source
from sparsehist.release.home import PATIENCE, Home
from sparsehist.store import RegisteredFile, SeriesRecord, State, StepRecord
from sparsehist.store.private_files import verified
from sparsehist.store.support import hash_keys
from sparsehist.typing import IntArray, WordArray

_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_KEYS, _PAIRS = "keys", "pairs"
_MOST_KEYS = 2**32 - 1


def comparable_units(units: pl.Series, columns: str | Sequence[str]) -> tuple[pl.Series, str]:
    """Return units as whole numbers or text, and their data type in words. Only units of one type can be compared.

    If several columns identify a unit, `units` contains text that was made from them, and the data type lists their
    types, such as "tuples of whole numbers, text". The data type is "" if there are no units.
    """
    dtype = units.dtype
    if dtype in _WHOLE or dtype.is_temporal():
        units, kind = units.to_physical().cast(pl.Int64), "whole numbers" if dtype in _WHOLE else str(dtype)
    else:
        kind = "text" if isinstance(dtype, pl.String | pl.Categorical | pl.Enum) else str(dtype)
        units = units.bin.encode("hex") if dtype == pl.Binary else units.cast(pl.String)
    if not units.len():
        return units, ""
    return units, kind if isinstance(columns, str) or len(columns) == 1 else types_of_tuple(units[0])


def kind_of_all(earlier: str, kind: str, before: str) -> str:
    """Return the data type of earlier and new units, or "" if there are no units. Raise an error if types differ."""
    if earlier and kind and kind != earlier:
        raise DataError(
            "units cannot be compared, because their data type changed: cast the column to the earlier type; "
            f"units are {kind} now, and {earlier} in earlier {before}"
        )
    return earlier or kind


def unit_digests(units: pl.Series, salt: bytes) -> tuple[pl.Series, WordArray]:
    """Return a digest of each unit, and 64 bits of the digest; different units have different digests.

    Whole numbers are multiplied by a secret odd number modulo 2**64, which is a bijection. Text gets a keyed hash of
    128 bits.
    """
    if units.dtype == pl.Int64:
        words: WordArray = units.to_numpy().view(np.uint64) * odd(salt, b"multiplier")
        return pl.Series("unit", words), words
    digests = [hashlib.blake2b(unit.encode(), key=salt, digest_size=16, person=b"unit").digest() for unit in units]
    return pl.Series("unit", digests, dtype=pl.Binary), np.frombuffer(b"".join(digests), "<u8")[::2]


@dataclass(frozen=True, repr=False)
class StepPairs:
    """The distinct (unit, key) pairs in the log of a step. They are secret.

    `pairs` has the columns row (index in `units`), code (index in `keys`) and order (a hash; a unit with too many
    keys keeps those with the smallest hashes). `digest` is a keyed hash of the set of pairs.
    """

    pairs: pl.DataFrame
    units: pl.Series
    keys: pl.DataFrame
    unit_kind: str
    digest: bytes

    @classmethod
    def of_pairs(cls, pairs: UnitPairs, columns: str | Sequence[str], salt: bytes) -> StepPairs:
        """Make a `StepPairs` from the (unit, key) pairs of a log; the columns `columns` identify a unit."""
        units, kind = comparable_units(pairs.units, columns)
        digests, words = unit_digests(units, salt)
        row = np.repeat(np.arange(units.len(), dtype=np.uint32), pairs.sizes)
        order = mixed(words[row] + hash_keys(pairs.keys, salt)[pairs.codes])
        sums = np.array([order.sum(), mixed(order ^ words[row]).sum(), order.size], np.uint64)
        digest = hashlib.blake2b(sums.tobytes(), key=salt, digest_size=16, person=b"appended-pairs").digest()
        frame = pl.DataFrame({"row": row, "code": pairs.codes, "order": order})
        return cls(frame, digests, pairs.keys, kind, digest)


def added(listed: StepPairs, files: StepFiles, most_keys: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Choose the (unit, key) pairs of a step to count, by the rules at the top of this module.

    Return the keys that are counted for the first time, in the order of their key numbers, and the chosen pairs.
    Both are secret.
    """
    n_known, names = files.all_keys.height, listed.keys.columns
    codes = pl.int_range(n_known, n_known + listed.keys.height, dtype=pl.UInt32, eager=True)
    numbers = files.numbers_of(listed.keys).fill_null(codes)  # new keys first get temporary numbers
    before = files.pairs_of(listed.units)
    n_free = most_keys - np.bincount(before["row"], minlength=listed.units.len())
    fresh = listed.pairs.with_columns(key=numbers.gather(listed.pairs["code"])).join(
        before, on=["row", "key"], how="anti"
    )
    fresh = fresh.with_columns(n_free=n_free[fresh["row"].to_numpy()])
    fits = pl.len().over("row") <= pl.col("n_free")
    over = fresh.filter(~fits, pl.col("n_free") > 0)
    first = over.hstack(listed.keys[over["code"]]).sort("row", "order", *names).select(fresh.columns)
    kept = pl.concat([fresh.filter(fits), first.filter(pl.int_range(pl.len()).over("row") < pl.col("n_free"))])
    new = listed.keys.with_row_index("code")[kept.filter(pl.col("key") >= n_known)["code"].unique()].sort(names)
    number_of = numbers.to_numpy(writable=True)
    number_of[new["code"].to_numpy()] = n_known + np.arange(new.height)
    pairs = {"unit": listed.units.gather(kept["row"]), "key": number_of[kept["code"].to_numpy()]}
    return new.select(names), pl.DataFrame(pairs)


class StepFiles:
    """The files of a running series. They are secret, and each is read when it is first needed.

    Each step replaces the files "keys" and "pairs", and adds a file with the number of new units of each key. The
    name of the added file is the number of the step, counted from 0.
    """

    def __init__(self, state: State, record: SeriesRecord, dtypes: Sequence[pl.DataType]) -> None:
        self._directory = record.directory
        self._schema = dict(zip(key_names(len(dtypes)), dtypes, strict=True))
        self.n_steps = len(state.steps(record))
        attached = (file for path in state.paths(record) for file in path.files)
        self._files = {file.name.partition(".")[2]: file for file in attached}

    @property
    def unit_files(self) -> list[str]:
        """Names of the files that record which units were counted."""
        return [file.name for part, file in self._files.items() if part == _PAIRS]

    @cached_property
    def all_keys(self) -> pl.DataFrame:
        """All keys counted so far; the number of a key is its row in this frame."""
        frame = self._read(_KEYS)
        return pl.DataFrame(schema=self._schema) if frame is None else frame.cast(pl.Schema(self._schema))

    @cached_property
    def _pairs(self) -> pl.DataFrame | None:
        return self._read(_PAIRS)

    def _read(self, part: str) -> pl.DataFrame | None:
        file = self._files.get(part)
        return None if file is None else read_frame(self._directory, file)

    def numbers_of(self, keys: pl.DataFrame) -> pl.Series:
        """Return the index of each key in `all_keys`; null for keys that are not in it."""
        numbered = self.all_keys.with_row_index("number")
        return keys.join(numbered, on=keys.columns, how="left", maintain_order="left")["number"]

    def pairs_of(self, units: pl.Series) -> pl.DataFrame:
        """Return the pairs of units counted so far. Columns: row (index in `units`) and key (number of the key)."""
        # Do not join an empty Series: its data type may differ from the data type of the stored units.
        if self._pairs is None or not units.len():
            return pl.DataFrame(schema={"row": pl.UInt32, "key": pl.UInt32})
        rows = units.alias("unit").to_frame().with_row_index("row")
        return self._pairs.join(rows, on="unit").select("row", "key")

    def counts_at(self, steps: Sequence[int], some: IntArray) -> IntArray:
        """Return the running counts of keys, given their numbers, at ascending steps; shape (steps, keys)."""
        column = np.full(self.all_keys.height, -1, np.int64)
        column[some] = np.arange(some.size)
        counts = np.zeros((len(steps), some.size), np.int64)
        for step in range(max(steps, default=-1) + 1):
            content = verified(self._directory, self._files[str(step)])
            numbers, units = np.frombuffer(content, "<i8").reshape(2, -1)
            at = column[numbers]
            counts[np.searchsorted(steps, step), at[at >= 0]] += units[at >= 0]
        return np.cumsum(counts, axis=0)

    def write(
        self, state: State, record: SeriesRecord, keys: pl.DataFrame, pairs: pl.DataFrame
    ) -> tuple[list[RegisteredFile], list[str]]:
        """Write the files of the next step; return the new files and the names of the files that they replace."""
        promise(self.all_keys.height + keys.height <= _MOST_KEYS, "more than 2**32 keys")
        units = np.bincount(pairs["key"])
        numbers = np.flatnonzero(units)
        content = {str(self.n_steps): np.stack([numbers, units[numbers]]).astype("<i8").tobytes()}
        if keys.height:
            content[_KEYS] = as_bytes(self.all_keys, keys)
        if pairs.height:
            content[_PAIRS] = as_bytes(*([] if self._pairs is None else [self._pairs]), pairs)
        replaced = [file.name for part, file in self._files.items() if part in content]
        written = [state.write_attachment(record, f".{part}", what) for part, what in content.items()]
        return written, replaced


def append_step(
    home: Home, declaration: Declaration, series_id: str, source: object, step: int, counting: Counting | None = None
) -> bool:
    """Append a step (numbered from 1), and return True.

    If this step was already appended with the same (unit, key) pairs, do nothing and return False.
    """
    counting = counting or Counting()
    if isinstance(source, Counts):
        raise DeclarationError(
            "a running series needs units, to know which pairs were counted before: append the log, not counts"
        )
    declared = with_source(declaration, source)
    with reporting(counting.progress) as report:
        with home.hold() as state:
            record = home.find(state, declaration.name, series_id)
            _appended_before(state, record, step)
        pairs = pairs_of_log(home, source, declared, record.salt, replace(counting, progress=report))
        report("appending")
        listed = StepPairs.of_pairs(pairs, present(declaration.unit), record.salt)
        # Wait longer than usual if the store is in use, so that the work of counting is not lost.
        with home.hold(at_least=PATIENCE) as state:
            record = home.find(state, declaration.name, series_id)
            before = _appended_before(state, record, step)
            if step <= len(before):
                if before[step - 1].digest != listed.digest:
                    raise NameTakenError(
                        f"step {step} of {declaration.name!r} was appended before with other rows, and cannot change"
                    )
                return False
            kind = kind_of_all(before[-1].unit_kind if before else "", listed.unit_kind, "steps")
            files = StepFiles(state, record, declaration.domain.dtypes)
            written, replaced = files.write(state, record, *added(listed, files, declaration.most_touched))
            new = StepRecord(step - 1, listed.digest, kind, declared.source)
            state.commit_step(record, new, written, replaced)
    return True


def finish(home: Home, declaration: Declaration, series_id: str) -> None:
    """Erase the record of which (unit, key) pairs were counted. No step can be appended afterwards."""
    with home.hold() as state:
        record = home.find(state, declaration.name, series_id)
        if not state.is_finished(record):
            files = StepFiles(state, record, declaration.domain.dtypes)
            state.finish_series(record, files.unit_files)


def _appended_before(state: State, record: SeriesRecord, step: int) -> list[StepRecord]:
    """Return the steps appended so far. Raise an error if `step` would leave a gap or the series is finished."""
    before = state.steps(record)
    if state.is_finished(record):
        raise RefusedError(f"the series {record.name!r} is finished: nothing more can be appended")
    if step > len(before) + 1:
        raise DeclarationError(f"steps must be appended in order: the next step is {len(before) + 1}, got {step}")
    return before


def as_bytes(*frames: pl.DataFrame) -> bytes:
    """Return the rows of all frames as the content of one Arrow file."""
    sink = io.BytesIO()
    pl.concat(frames).write_ipc(sink, compat_level=pl.CompatLevel.oldest())
    return sink.getvalue()


def read_frame(directory: Path, file: RegisteredFile) -> pl.DataFrame:
    """Read a file that contains the result of `as_bytes`. Raise an error if the file is damaged."""
    return pl.read_ipc(io.BytesIO(verified(directory, file)))
