"""The client of one person: a value, its memo at every setting so far, and every report that was ever sent."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from sparsehist.entropy import generator
from sparsehist.errors import (
    CapExceededError,
    InputError,
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    present,
    raise_alone,
)
from sparsehist.local.histories import Degradation, coarser_reports, draw_memo, draw_report, finer_history
from sparsehist.local.rappor import Rappor
from sparsehist.privacy.exact_numbers import Number, at_least_zero
from sparsehist.sessions.own_process import OwnProcess
from sparsehist.store.private_files import disk_errors, write_file
from sparsehist.typing import BoolArray, Generator

_MAGIC = b"sparsehist rappor 1\n"


@dataclass(eq=False, repr=False)
class _History:
    """All a client remembers; secret but for the settings, coarse to fine.

    Attributes:
        settings: Coarse to fine.
        true_bits: The filter of the value; shape (bits,).
        memos: One per setting.
        days: Names of the reports, in the order drawn, and their numbers.
        reports: One list per setting, in the order of `days`.
    """

    settings: list[Rappor]
    true_bits: BoolArray
    memos: list[BoolArray]
    days: dict[str, int] = field(default_factory=dict)
    reports: list[list[BoolArray]] = field(default_factory=list)


class RapporClient(OwnProcess):
    """One person's RAPPOR: a report for each day, and every past report at a finer setting once the person agrees.

    A report is drawn once and then remembered, for its day and for every setting. Relaxing draws memo and past
    reports of the finer setting from their joint law with what was sent: all reports together then say exactly what
    the finer ones say, and cost `setting.epsilon()` of the finest.

    With `path` everything is kept in a private file (mode 0600), which is on the disk before a report is returned;
    the file may be used by several processes. Without, the client lives in memory, in one process.

    Args:
        setting: The first, most private setting.
        value: What the person has. Secret.
        cap: Largest epsilon (of any number of reports) that may ever be relaxed to, or None.
        path: A new file, or None; `RapporClient.open` goes on from one.

    Raises:
        CapExceededError: If the setting itself is beyond the cap.
        NameTakenError: If the file exists.

    Example:
        >>> quiet = Rappor(128, 2, keep=0.25, one_if_set=0.65, one_if_not=0.4)
        >>> open_ = Rappor(128, 2, keep=0.5, one_if_set=0.8, one_if_not=0.25)
        >>> client = RapporClient(quiet, "https://example.org", cap=5)
        >>> first = client.report("2024-01-01")
        >>> client.relax(open_)
        >>> bool((client.report("2024-01-01", quiet) == first).all()), client.report("2024-01-01").shape
        (True, (128,))

    Source: own derivation; see `sparsehist.local.histories`.
    """

    __slots__ = ("_cap", "_generator", "_history", "_lock", "_path")

    def __init__(
        self,
        setting: Rappor,
        value: str | bytes,
        cap: Number | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Draw the memo, and write the file before anything is reported."""
        super().__init__()
        self._cap = None if cap is None else float(at_least_zero(cap, "cap"))
        self._require_within_cap(setting)
        self._path = None if path is None else Path(path).resolve()
        self._lock = threading.Lock()
        self._generator: Generator | None = None
        bits = setting.filter(value)
        memo = draw_memo(setting, bits, rng=self._rng())
        self._history = _History([setting], bits, [memo], {}, [[]])
        if self._path is not None:
            with _locked(self._path):
                if self._path.exists():
                    raise NameTakenError(f"{self._path} exists; go on from it with RapporClient.open")
                self._write()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RapporClient:
        """Go on from a file.

        Raises:
            NotFoundError: If there is none.
            StoreDamagedError: If it was truncated or altered.
        """
        made = cls.__new__(cls)
        made._resume(Path(path).resolve())  # noqa: SLF001 - the class makes its own
        return made

    @property
    def setting(self) -> Rappor:
        """The finest setting so far."""
        return self._history.settings[-1]

    @property
    def settings(self) -> tuple[Rappor, ...]:
        """All settings so far, coarse to fine."""
        return tuple(self._history.settings)

    def report(self, when: Hashable, setting: Rappor | None = None) -> BoolArray:
        """The report of a day: drawn when first asked for, the same ever after.

        Args:
            when: A day, number or name.
            setting: One of `settings`; by default the finest.

        Returns:
            The report, to be sent; shape (bits,), bool.

        Raises:
            InputError: If the setting is not one of the client's, or `when` is not what a file can name.
            StoreError: If the file cannot be written (nothing was reported then), or in a forked process.
        """
        day = _name(when)
        with self._latest():
            history = self._history
            row = history.settings.index(self._known(setting))
            if day not in history.days:
                self._draw(day)
            return history.reports[row][history.days[day]].copy()

    def reports(self, setting: Rappor | None = None) -> dict[str, BoolArray]:
        """All reports so far at a setting, by day, in the order they were first asked for."""
        with self._latest():
            row = self._history.settings.index(self._known(setting))
            return {
                day: report.copy() for day, report in zip(self._history.days, self._history.reports[row], strict=True)
            }

    def relax(self, finer: Rappor) -> None:
        """Agree to a finer setting; every past report can be had at it from now on.

        Args:
            finer: Less private than all settings so far.

        Raises:
            DeclarationError: If the current setting does not follow from it; the message names the inequality.
            CapExceededError: If it is beyond the cap; nothing was drawn.
        """
        self._require_within_cap(finer)
        with self._latest():
            history = self._history
            step = Degradation(history.settings[-1], finer)
            if finer == history.settings[-1]:
                return
            past = np.array(history.reports[-1], np.bool_).reshape(-1, finer.bits)
            memo, reports = finer_history(step, history.true_bits, history.memos[-1], past, rng=self._rng())
            self._history = _History(
                [*history.settings, finer],
                history.true_bits,
                [*history.memos, memo],
                history.days,
                [*history.reports, list(reports)],
            )
            self._keep(history)

    def __repr__(self) -> str:
        """Settings and how many reports; no values, no file."""
        shown = ", ".join(map(str, self.settings))
        return f"RapporClient({shown}; {len(self._history.days)} reports)"

    def _resume(self, path: Path) -> None:
        super().__init__()
        self._path, self._lock, self._generator = path, threading.Lock(), None
        self._cap, self._history = _read(path)

    def _draw(self, day: str) -> None:
        """Draw one report at every setting: the finest from its memo, each coarser one from the next finer."""
        before, rng = self._history, self._rng()
        drawn = [draw_report(before.settings[-1], before.memos[-1], rng=rng)]
        for row in range(len(before.settings) - 2, -1, -1):
            step = Degradation(before.settings[row], before.settings[row + 1])
            flipped = before.memos[row] ^ before.memos[row + 1]
            drawn.insert(0, coarser_reports(step, flipped, drawn[0], rng=rng))
        before.days[day] = len(before.days)
        for reports, report in zip(before.reports, drawn, strict=True):
            reports.append(report)
        try:
            self._keep(before)
        except BaseException:
            del before.days[day]
            for reports in before.reports:
                reports.pop()
            raise

    def _keep(self, before: _History) -> None:
        """Write the file, or go back to what it holds."""
        if self._path is None:
            return
        try:
            self._write()
        except BaseException:
            self._history = before
            raise

    @contextmanager
    def _latest(self) -> Iterator[None]:
        """Hold the client, and what other processes have written since."""
        with self._lock:
            if self._path is None:
                self.require_own_process()
                yield
                return
            with _locked(self._path):
                self._cap, self._history = _read(self._path)
                yield

    def _known(self, setting: Rappor | None) -> Rappor:
        if setting is None:
            return self._history.settings[-1]
        if setting not in self._history.settings:
            raise InputError(f"{setting} is none of this client's settings; relax to it first")
        return setting

    def _require_within_cap(self, setting: Rappor) -> None:
        if self._cap is not None and setting.epsilon() > self._cap:
            raise CapExceededError(
                f"requested epsilon {setting.epsilon():.6g}, cap {self._cap:.6g}; nothing was drawn"
            )

    def _rng(self) -> Generator:
        """One generator in memory, whose process is checked; a fresh one for each piece of work on a file."""
        if self._path is not None:
            return generator()
        if self._generator is None:
            self._generator = generator()
        return self._generator

    def _write(self) -> None:
        history = self._history
        body = {
            "cap": self._cap,
            "settings": [_as_json(setting) for setting in history.settings],
            "true": _packed(history.true_bits),
            "memos": [_packed(memo) for memo in history.memos],
            "days": list(history.days),
            "reports": [[_packed(report) for report in reports] for reports in history.reports],
        }
        text = json.dumps(body).encode()
        digest = hashlib.sha256(text).hexdigest().encode()
        write_file(present(self._path), _MAGIC, digest + b"\n", text, durable=True)


def _name(when: Hashable) -> str:
    if isinstance(when, bool) or not isinstance(when, str | int | date | np.integer):
        raise InputError(f"a report is named by a day, number or text, got {type(when).__name__}")
    return str(when)


def _as_json(setting: Rappor) -> list[Any]:
    return [setting.bits, setting.hashes, str(setting.keep), str(setting.one_if_set), str(setting.one_if_not)]


def _packed(bits: BoolArray) -> str:
    return np.packbits(bits).tobytes().hex()


def _unpacked(text: str, bits: int) -> BoolArray:
    packed = np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.unpackbits(packed, count=bits).astype(np.bool_)


def _read(path: Path) -> tuple[float | None, _History]:
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    with disk_errors(path):
        content = path.read_bytes()
    if not content.startswith(_MAGIC):
        raise InputError(f"{path} was not written by RapporClient, or by another version of it")
    digest, _, text = content[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise StoreDamagedError(f"{path} was truncated or altered; there is no other copy of what it held")
    try:
        body = json.loads(text)
        settings = [Rappor(*given) for given in body["settings"]]
        bits = settings[0].bits
        return body["cap"], _History(
            settings,
            _unpacked(body["true"], bits),
            [_unpacked(memo, bits) for memo in body["memos"]],
            {day: number for number, day in enumerate(body["days"])},
            [[_unpacked(report, bits) for report in reports] for reports in body["reports"]],
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise_alone(StoreDamagedError(f"{path} was altered; there is no other copy of what it held"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file against other processes, by a lock that ends with the process."""
    with disk_errors(path):
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
