"""The RAPPOR client of one person: a Bloom filter and, for each setting, a memo (randomised filter) and reports."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple, dataclass, replace

import numpy as np

from sparsehist.dense.state_bytes import pack, unpack
from sparsehist.errors import CapExceededError, InputError
from sparsehist.local.histories import Degradation, coarser_reports, draw_memo, draw_report, finer_history
from sparsehist.local.rappor import Rappor
from sparsehist.privacy.levels import Level, at_least_zero
from sparsehist.typing import BoolArray, Generator


@dataclass(frozen=True, eq=False, repr=False)
class RapporClient:
    """The RAPPOR client of one person. It draws daily reports. `relax` adds a less private setting for all reports.

    The report of a day is drawn only once at each setting. All reports at all settings together cost only as much as
    those at the finest (least private) setting: `setting.epsilon()`.

    A client is immutable: a call returns the next client. Save it (`to_bytes`) before you send the report. Two
    copies of a client would draw two reports for one day, and break the promise.

    Attributes:
        settings: The settings, from coarse to fine; public.
        cap: Largest epsilon that a setting may have for any number of reports, or None; public.
        days: Names of the reports, in the order drawn.
        true_bits: The Bloom filter of the value; shape (bits,). Secret.
        memos: One memo (randomised Bloom filter) per setting; shape (settings, bits). Secret.
        drawn: All reports; shape (settings, days, bits).

    Example:
        >>> from sparsehist import entropy
        >>> rng = entropy.generator()
        >>> quiet = Rappor(128, 2, keep=0.25, one_if_set=0.65, one_if_not=0.4)
        >>> frank = Rappor(128, 2, keep=0.5, one_if_set=0.8, one_if_not=0.25)
        >>> client = RapporClient.start(quiet, "https://example.org", cap=5, rng=rng)
        >>> client, first = client.report("2024-01-01", rng=rng)
        >>> client = client.relax(frank, rng=rng)
        >>> bool((client.reports(quiet)["2024-01-01"] == first).all()), client.reports()["2024-01-01"].shape
        (True, (128,))

    Source: own derivation; see `sparsehist.local.histories`.
    """

    settings: tuple[Rappor, ...]
    cap: float | None
    days: tuple[str, ...]
    true_bits: BoolArray
    memos: BoolArray
    drawn: BoolArray

    @classmethod
    def start(cls, setting: Rappor, value: str | bytes, cap: Level | None = None, *, rng: Generator) -> RapporClient:
        """Create a client with a memo (randomised filter). Raise CapExceededError if `setting.epsilon()` > `cap`."""
        limit = None if cap is None else float(at_least_zero(cap, "cap"))
        _require_within(limit, setting)
        bits = setting.filter(value)
        memo = draw_memo(setting, bits, rng=rng)
        return cls((setting,), limit, (), bits, memo[None], np.empty((1, 0, setting.bits), np.bool_))

    def report(self, when: Hashable, *, rng: Generator) -> tuple[RapporClient, BoolArray]:
        """Return the report of a day at the finest setting. The first call for a day draws it; later calls repeat it.

        Returns:
            The updated client and the report, shape (bits,). Save the client before you send the report: the earlier
            client would draw a second report for this day.
        """
        if isinstance(when, bool) or not (isinstance(when, str | int | np.integer) or hasattr(when, "isoformat")):
            raise InputError(f"the day of a report must be a date, a number or a string, got {type(when).__name__}")
        day = str(when)
        if day in self.days:
            return self, self.reports()[day]
        row = draw_report(self.settings[-1], self.memos[-1], rng=rng)
        rows = [row]
        for coarse in reversed(range(len(self.settings) - 1)):
            step = Degradation(self.settings[coarse], self.settings[coarse + 1])
            flipped = self.memos[coarse] ^ self.memos[coarse + 1]
            rows.insert(0, coarser_reports(step, flipped, rows[0], rng=rng))
        drawn = np.concatenate([self.drawn, np.stack(rows)[:, None]], axis=1)
        return replace(self, days=(*self.days, day), drawn=drawn), row

    def reports(self, setting: Rappor | None = None) -> dict[str, BoolArray]:
        """Return a dict from day to report at one of the client's settings; by default at the finest setting."""
        if setting is not None and setting not in self.settings:
            raise InputError("the client does not have this setting: add it with relax() first")
        row = len(self.settings) - 1 if setting is None else self.settings.index(setting)
        return dict(zip(self.days, self.drawn[row].copy(), strict=True))

    def relax(self, finer: Rappor, *, rng: Generator) -> RapporClient:
        """Add a finer (less private) setting. Draw a memo (randomised filter) and all past reports at this setting.

        Raises:
            DeclarationError: If reports at the finest setting so far cannot be drawn from reports at the new setting.
            CapExceededError: If the finer setting is above the cap; then nothing is drawn.
        """
        _require_within(self.cap, finer)
        step = Degradation(self.settings[-1], finer)
        if finer == self.settings[-1]:
            return self
        memo, past = finer_history(step, self.true_bits, self.memos[-1], self.drawn[-1], rng=rng)
        memos, drawn = np.concatenate([self.memos, memo[None]]), np.concatenate([self.drawn, past[None]])
        return replace(self, settings=(*self.settings, finer), memos=memos, drawn=drawn)

    def to_bytes(self) -> bytes:
        """Return the client as bytes, which are as secret as the value of the person."""
        settings = [[one.bits, one.hashes, *map(str, astuple(one)[2:])] for one in self.settings]
        header = {"settings": settings, "cap": self.cap, "days": self.days, "shape": self.drawn.shape}
        return pack("RapporClient", header, [np.packbits(bits) for bits in (self.true_bits, self.memos, self.drawn)])

    @classmethod
    def from_bytes(cls, content: bytes) -> RapporClient:
        """Load a client saved by `to_bytes`. Raise StoreDamagedError for altered bytes, InputError for any others."""
        header, packed = unpack("RapporClient", content)
        settings, days, bits = header["shape"]
        shapes = ((bits,), (settings, bits), (settings, days, bits))
        true_bits, memos, drawn = (
            np.unpackbits(words, count=int(np.prod(shape))).reshape(shape).astype(np.bool_)
            for words, shape in zip(packed, shapes, strict=True)
        )
        read = tuple(Rappor(*given) for given in header["settings"])
        return cls(read, header["cap"], tuple(header["days"]), true_bits, memos, drawn)

    def __repr__(self) -> str:
        return f"RapporClient({', '.join(map(str, self.settings))}; {len(self.days)} reports)"


def _require_within(cap: float | None, setting: Rappor) -> None:
    if cap is not None and setting.epsilon() > cap:
        raise CapExceededError(f"requested epsilon {setting.epsilon():.6g}, cap {cap:.6g}; nothing was drawn")
