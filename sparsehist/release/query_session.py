"""Interactive queries of a series: a session is a noise path, charged whole when it opens, that answers predicates.

A round of the path is the opening, or one update: a measured answer, what it moved the hypothesis away from, and the
noise of the next threshold. An update stands in one attachment of its round, so it is there as a whole or not at all;
the hypothesis follows from the updates.
"""

from __future__ import annotations

import io
import threading
import zlib
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.domain import Domain
from sparsehist.errors import (
    BudgetExceededError,
    DeclarationError,
    InputError,
    StoreDamagedError,
    of_kind,
    present,
    raise_alone,
)
from sparsehist.interactive.multiplicative_weights import (
    MOST_CELLS,
    Weighing,
    WeightedAnswer,
    first_guess,
    pull,
    updated,
    verdict,
)
from sparsehist.ledger.ledger import INTERACTIVE, PathName
from sparsehist.noise import currency_of
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.composition import PURE, ZCDP
from sparsehist.privacy.levels import at_least_zero
from sparsehist.release import pipeline
from sparsehist.release.home import Home
from sparsehist.release.metadata import InteractiveMetadata, Request, read_metadata, shared
from sparsehist.release.pipeline import ANSWER, Held
from sparsehist.release.releases import Release
from sparsehist.store import NewRound, PathRecord, RegisteredFile, SeriesFiles, SeriesRecord
from sparsehist.store.private_files import verified
from sparsehist.typing import FloatArray

STRATEGY = "multiplicative_weights"
_UPDATE, _START = ".update", ".start"
_NUMBERS = 4  # of an update: its number, 1 if the guess was too high, value and next threshold noise


@dataclass(frozen=True, repr=False)
class Update:
    """A measured answer and what came with it. The noise of the next threshold is secret, the rest is public.

    Attributes:
        number: From 1.
        high: Whether the hypothesis was too high.
        value: In counts.
        threshold_noise: Of the threshold from now on, in counts.
        packed: The predicate: one bit per cell.
    """

    number: int
    high: bool
    value: int
    threshold_noise: int
    packed: bytes

    def pull(self, cells: int) -> FloatArray:
        """What the update moved the hypothesis away from; shape (cells,)."""
        return pull(bits(self.packed, cells), high=self.high)

    def as_bytes(self) -> bytes:
        """As it is stored."""
        head = np.array([self.number, self.high, self.value, self.threshold_noise], "<i8")
        return head.tobytes() + zlib.compress(self.packed, 1)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what `as_bytes` wrote."""
        number, high, value, threshold_noise = np.frombuffer(content, "<i8", _NUMBERS).tolist()
        return cls(number, bool(high), value, threshold_noise, zlib.decompress(content[8 * _NUMBERS :]))


def bits(packed: bytes, cells: int) -> FloatArray:
    """A predicate as weights; shape (cells,)."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=cells).astype(np.float64)


@dataclass(frozen=True, repr=False)
class QueryRequest(Request):
    """What a caller asked of a session, or of its next update; what is None stands as the session has it.

    Attributes:
        measured: The predicate that is to be measured, its true count and whether the guess was too high; None when
            the session opens. Secret.
    """

    kind: ClassVar[str] = INTERACTIVE
    needs: ClassVar[str] = "level= and accuracy="

    accuracy: Fraction | None = None
    mass: int | None = None
    most_updates: int | None = None
    start: Release | None = None
    measured: tuple[bytes, int, bool] | None = None

    @property
    def complete(self) -> bool:
        return self.level is not None and self.accuracy is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "level": None if self.level is None else level_text(self.level),
            "accuracy": None if self.accuracy is None else level_text(self.accuracy),
            "mass": self.mass,
            "most_updates": self.most_updates,
            "start": None if self.start is None else _told(self.start),
        }

    @property
    def session(self) -> str:
        """The name of the session."""
        return self.name.partition(ANSWER)[0]


def next_update(about: InteractiveMetadata, number: int, measured: tuple[bytes, int, bool]) -> QueryRequest:
    """The request of an update of a session."""
    level, accuracy = as_level(about.level), as_level(about.accuracy)
    return QueryRequest(f"{about.name}{ANSWER}{number}", level, accuracy, measured=measured)


def queries_requested(
    declaration: Declaration,
    name: str,
    *,
    level: Level | None = None,
    accuracy: Level | None = None,
    mass: int | None = None,
    most_updates: int | None = None,
    start: Release | None = None,
) -> QueryRequest:
    """Check what can be checked without a store."""
    check_possible(declaration)
    request = QueryRequest(
        checked_name("session of queries", name),
        None if level is None else as_level(level),
        None if accuracy is None else at_least_zero(accuracy, "accuracy"),
        mass,
        most_updates,
        start,
    )
    if request.complete:
        parameters = weighing(declaration, request)
        if start is not None:
            first_guess(parameters, start_counts(declaration, start))
    return request


def check_possible(declaration: Declaration) -> None:
    """Refuse series whose cells cannot be listed, or whose levels are of another currency."""
    domain = declaration.domain
    if domain.is_open:
        raise DeclarationError("a series with an open domain has no interactive queries: its cells cannot be listed")
    if not 2 <= domain.size <= MOST_CELLS:
        raise DeclarationError(
            f"interactive queries weigh every cell of a domain, from 2 to {MOST_CELLS:,} of them; "
            f"{domain.describe()} has {domain.describe_size()}"
        )
    if declaration.shares is not None:
        raise DeclarationError("sessions of interactive queries are for series with bounding='keep'")
    if currency_of(declaration.noise) not in (PURE, ZCDP):
        raise DeclarationError(
            f"{declaration.noise} noise has no interactive queries: take 'gaussian', 'laplace' or 'discrete_laplace'"
        )


def weighing(
    declaration: Declaration, session: QueryRequest | InteractiveMetadata, mass: int | None = None
) -> Weighing:
    """The public parameters of a session that is asked for; or of one that is open, with its mass if measured."""
    return Weighing(
        cells=declaration.domain.size,
        mass=session.mass if mass is None else mass,
        level=as_level(str(present(session.level))),
        accuracy=at_least_zero(str(present(session.accuracy)), "accuracy"),
        sensitivity=declaration.max_keys,
        most_updates=session.most_updates,
        started=session.start is not None,
        currency=currency_of(declaration.noise),
        measured=session.mass is None,
    )


def cell_counts(files: SeriesFiles, domain: Domain) -> FloatArray:
    """The bounded counts of all cells, in the order of the domain; shape (cells,). Secret."""
    counted, counts = files.all_counted(), np.zeros(domain.size)
    counts[domain.index(counted.drop("count"))] = counted["count"].to_numpy()
    return counts


def start_counts(declaration: Declaration, start: Release | pl.DataFrame) -> FloatArray:
    """What a release says of all cells: its noisy counts, and 0 for cells that are not in it; shape (cells,)."""
    frame = start.frame if isinstance(start, Release) else start
    domain, columns = declaration.domain, list(declaration.key)
    if not isinstance(frame, pl.DataFrame) or not {*columns, "noisy_count"} <= set(frame.columns):
        raise DeclarationError(f"start must be a release with the columns {', '.join(columns)} and noisy_count")
    keys = frame.select(pl.col(name).alias(f"key_{i}") for i, name in enumerate(columns))
    if tuple(keys.dtypes) != tuple(domain.dtypes) or not domain.contains(keys).all():
        raise DeclarationError(f"start must be a release of keys of {domain.describe()}")
    counts = np.zeros(domain.size)
    counts[domain.index(keys)] = frame["noisy_count"].to_numpy()
    return counts


class QueryPath:
    """The path of a session, whose first round opens it; with the counts of all cells, shape (cells,). Secret."""

    def __init__(
        self,
        held: Held,
        record: PathRecord | None,
        session: str,
        counts: FloatArray,
        about: InteractiveMetadata | None = None,
    ) -> None:
        self._held, self._record, self._counts, self._about = held, record, counts, about
        self.name: PathName = (INTERACTIVE, session, STRATEGY)
        self._drawn: int | None = None

    @property
    def path_id(self) -> int | None:
        return None if self._record is None else self._record.path_id

    def metadata(self, request: QueryRequest) -> InteractiveMetadata:
        if self._about is not None:
            return replace(self._about, name=request.name, update=int(request.name.partition(ANSWER)[2]))
        return session_metadata(self._held.declaration, request)

    def statement(self, request: QueryRequest, metadata: InteractiveMetadata) -> str:
        del request
        parameters = weighing(self._held.declaration, metadata)
        pure = f"{float(parameters.epsilon):.6g}-DP" if parameters.currency == ZCDP else f"{metadata.level}-DP (pure)"
        rho = f"{metadata.level}-zCDP" if parameters.currency == ZCDP else f"{parameters.rho:.6g}-zCDP"
        return f"{rho} and {pure} for the whole session, whatever is asked"

    def draw(self, request: QueryRequest, metadata: InteractiveMetadata, *, rng: np.random.Generator) -> NewRound:
        declaration, state, record = self._held.declaration, self._held.state, self._held.record
        parameters = weighing(declaration, metadata)
        watch, answer = parameters.levels
        (threshold_noise,) = parameters.noise(2).sample(1, watch, rng=rng).tolist()
        attached: list[RegisteredFile] = []
        noise = None
        if request.measured is None:
            mass = metadata.mass
            if mass is None:
                (missed,) = parameters.noise(1).sample(1, watch, rng=rng).tolist()
                mass = max(1, int(self._counts.sum()) + missed)
            noise = np.array([threshold_noise, mass], np.int64)
            if request.start is not None:
                attached.append(state.write_attachment(record, _START, _as_parquet(declaration, request.start)))
            self._drawn = mass
        else:
            packed, truth, high = request.measured
            (missed,) = parameters.noise(1).sample(1, answer, rng=rng).tolist()
            update = Update(present(metadata.update), high, truth + missed, threshold_noise, packed)
            attached.append(state.write_attachment(record, _UPDATE, update.as_bytes()))
            self._drawn = update.value
        return self._held.new_round(self, request, metadata, level_noise=noise, attachments=attached)

    def rows(self, level: Fraction, metadata: InteractiveMetadata) -> pl.DataFrame:
        """What the round published: the mass (as update 0), or an answer."""
        value = self._drawn if self._drawn is not None else opened(self._held, present(self._record), level)[1]
        return pl.DataFrame({"update": [metadata.update or 0], "value": [value]})


def session_metadata(declaration: Declaration, request: QueryRequest) -> InteractiveMetadata:
    """Everything about a session that is known before anything is drawn."""
    parameters = weighing(declaration, request)
    watch, answer = parameters.levels
    return InteractiveMetadata(
        **shared(declaration),
        name=request.name,
        level=level_text(present(request.level)),
        std=parameters.noise(1).std(answer),
        grid=1.0,
        threshold=None,
        numerical_slack=0.0,
        queries="predicates over the keys, as they come to mind",
        accuracy=level_text(present(request.accuracy)),
        most_updates=parameters.updates,
        mass=request.mass,
        watch_level=level_text(watch),
        answer_level=level_text(answer),
        start=None if request.start is None else _told(request.start),
    )


def opened(held: Held, record: PathRecord, level: Fraction) -> tuple[int, int]:
    """The noise of the first threshold, which is secret, and the mass; both in counts."""
    threshold_noise, mass = held.state.noise(record.path_id, level, 2).tolist()
    return threshold_noise, mass


def started_from(held: Held, record: PathRecord) -> FloatArray | None:
    """The noisy counts that the hypothesis began from; shape (cells,), or None for none."""
    for file in record.files:
        if file.name.endswith(_START):
            return start_counts(held.declaration, pl.read_parquet(io.BytesIO(verified(held.record.directory, file))))
    return None


def updates_of(held: Held, record: PathRecord, known: set[str]) -> list[tuple[str, Update]]:
    """The updates of a session and the names of their files, in order, without those that are known by name."""
    new = [file for file in record.files if file.name.endswith(_UPDATE) and file.name not in known]
    read = [(file.name, Update.from_bytes(verified(held.record.directory, file))) for file in new]
    read.sort(key=lambda named: named[1].number)
    numbers = [update.number for _, update in read]
    if numbers != list(range(len(known) + 1, len(known) + 1 + len(read))):
        raise StoreDamagedError(f"an update of {record.workload!r} is missing; restore the store from a backup")
    return read


def _as_parquet(declaration: Declaration, start: Release) -> bytes:
    """Of a release what a session begins from, so that it can be read again whatever becomes of the release."""
    sink = io.BytesIO()
    start.frame.select(*declaration.key, "noisy_count").write_parquet(sink)
    return sink.getvalue()


def _told(start: Release) -> str:
    about = start.metadata
    return f"{about.get('series')}.{about.get('name')} (round {about.get('round')})"


_ASKED = "is this cell asked for"
_ANSWERS = {"update": pl.Int64, "value": pl.Int64}


class QuerySession:
    """Predicates over the keys of a series, answered as they come to mind; `Series.interactive` opens it.

    The whole session was charged when it opened. Every answer that is measured, with the hypothesis that comes of it,
    is committed before it is returned: a process that dies loses nothing that left it, and a session that is opened
    again, here or elsewhere, goes on where it was. A predicate that was measured is answered alike ever after, free.

    The counts of all cells are kept in memory; nothing else of the store is held between calls.
    """

    def __init__(self, home: Home, declaration: Declaration, series_id: str, request: QueryRequest) -> None:
        """Use `Series.interactive` instead."""
        self._home, self._declaration, self._series_id, self._name = home, declaration, series_id, request.name
        self._lock = threading.Lock()
        self._seen = -1
        self._updates: dict[bytes, Update] = {}
        self._files: set[str] = set()
        self._unpaid: tuple[bytes, int, bool] | None = None
        domain = declaration.domain
        self._keys = domain.keys(np.arange(domain.size, dtype=np.int64))
        self._keys.columns = list(declaration.key)
        with self._holding() as before:
            self._counts = cell_counts(before.files, domain)
            made = pipeline.release(before, request, self._open_path)
            self._about = of_kind(read_metadata(made.metadata), InteractiveMetadata)
            held = self._again(before)
            own = self._own(held.record)
            self._threshold_noise, self._mass = opened(held, own, as_level(self._about.level))
            self.parameters: Weighing = weighing(declaration, self._about, self._mass)
            self._first = self._hypothesis = first_guess(self.parameters, started_from(held, own))
            self._pulls = np.zeros(self.parameters.cells)
            self._refresh(held)

    @property
    def name(self) -> str:
        """Of the session, unique among the releases of its series."""
        return self._about.name

    @property
    def metadata(self) -> dict[str, object]:
        """Public parameters of the session."""
        return self._about.as_dict()

    @property
    def updates_left(self) -> int:
        """How many more answers can be measured, as of the last call."""
        return self.parameters.updates - len(self._files)

    @property
    def answers(self) -> pl.DataFrame:
        """What was measured so far: update (0 is the mass, where that was measured) and value, in counts."""
        values = {} if self._about.mass is not None else {0: self._mass}
        values |= {update.number: update.value for update in self._updates.values()}
        return pl.DataFrame({"update": list(values), "value": list(values.values())}, schema=_ANSWERS)

    @property
    def hypothesis(self) -> pl.DataFrame:
        """All cells as the answers so far have them: the keys and `estimate`, in counts. Public."""
        return self._keys.with_columns(estimate=self._hypothesis * self._mass)

    def ask(self, predicate: pl.Expr) -> WeightedAnswer:
        """The number of units in the cells where a predicate holds (a unit in several cells counts in each).

        Args:
            predicate: A Polars expression over the key columns that is true, false or null (as false) for each key,
                such as `pl.col("browser").is_in(["a", "b"]) & (pl.col("day") > 3)`. Public.

        Returns:
            Value, error and whether it was measured.

        Raises:
            DeclarationError: If it is not such an expression.
            BudgetExceededError: If all updates are used up.
            NotFoundError: If the series was dropped.
            StoreInUseError: If another process or thread holds the store.
            StoreError: If a measured answer cannot be committed. It is committed by the next call then, before
                anything else is asked.
        """
        packed = self._bits(predicate)
        # The store is held before anything is compared: whether that can be done must not depend on the truth.
        with self._lock, self._holding() as before:
            self._refresh(before)
            held = before if self._unpaid is None else self._measure(before, self._unpaid)
            if packed not in self._updates:
                self._check_left()
                weights = bits(packed, self.parameters.cells)
                guess, truth = self._mass * float(weights @ self._hypothesis), int(weights @ self._counts)
                found = verdict(guess, truth, float(self.parameters.threshold) + self._threshold_noise, self._noise)
                if found is None:
                    return WeightedAnswer(guess, self.parameters.error, fresh=False, updates_left=self.updates_left)
                self._measure(held, (packed, truth, found == "high"))
            value = float(self._updates[packed].value)
            return WeightedAnswer(value, self.parameters.error, fresh=True, updates_left=self.updates_left)

    def __repr__(self) -> str:
        """Public parameters only."""
        return (
            f"QuerySession({self.name!r} of {self._declaration.name!r}, level={self._about.level}, "
            f"error={self.parameters.error:g}, updates_left={self.updates_left})"
        )

    def __reduce__(self) -> NoReturn:
        raise InputError("a QuerySession holds true counts and cannot be copied: open the session again by its name")

    def _check_left(self) -> None:
        if not self.updates_left:
            raise BudgetExceededError(
                f"all {self.parameters.updates} updates of {self.name!r} are used up, and with them its level of "
                f"{self._about.level}; its hypothesis stays readable, and what was measured is answered again"
            )

    def _noise(self) -> float:
        """Of a check, in counts; drawn when it is needed, so that no two processes ever hold the same."""
        drawn = self.parameters.noise(4).sample(1, self.parameters.levels[0], rng=self._home.generator())
        return float(drawn[0])

    def _measure(self, held: Held, unpaid: tuple[bytes, int, bool]) -> Held:
        """Commit the update that a comparison called for.

        Whoever sees that fail knows what the comparison said; so the next call begins with it.
        """
        self._unpaid = unpaid
        if unpaid[0] not in self._updates and self.updates_left:
            pipeline.release(held, next_update(self._about, len(self._files) + 1, unpaid), self._open_path)
            held = self._again(held)
            self._refresh(held)
        self._unpaid = None
        return held

    def _holding(self) -> AbstractContextManager[Held]:
        return pipeline.holding(self._home, self._declaration, self._series_id)

    def _again(self, held: Held) -> Held:
        """The series with what was committed since it was read."""
        return replace(held, record=present(held.state.series(self._declaration.name)))

    def _open_path(self, held: Held, request: QueryRequest, known: PathRecord | None) -> QueryPath:
        if request.measured is None:
            return QueryPath(held, known, request.session, self._counts)
        return QueryPath(held, self._own(held.record), request.session, self._counts, self._about)

    def _own(self, record: SeriesRecord) -> PathRecord:
        return next(path for path in record.paths if (path.kind, path.workload) == (INTERACTIVE, self._name))

    def _refresh(self, held: Held) -> None:
        """Take over what was committed since, here or by another process."""
        if held.state.generation == self._seen:
            return
        added = updates_of(held, self._own(held.record), self._files)
        for file, update in added:
            self._files.add(file)
            self._updates[update.packed] = update
            self._pulls += update.pull(self.parameters.cells)
            self._threshold_noise = update.threshold_noise
        if added:
            self._hypothesis = updated(self._first, self._pulls, 8 * float(self.parameters.alpha))
        self._seen = held.state.generation

    def _bits(self, predicate: pl.Expr) -> bytes:
        """A predicate as one bit per cell."""
        columns = ", ".join(self._declaration.key)
        if not isinstance(predicate, pl.Expr):
            raise DeclarationError(
                f"a predicate is a Polars expression over {columns}, got {type(predicate).__name__}"
            )
        try:
            asked = self._keys.with_columns(predicate.alias(_ASKED)).get_column(_ASKED)
        except pl.exceptions.PolarsError as problem:
            raise_alone(DeclarationError(f"the predicate cannot be asked of {columns}: {problem}"))
        if asked.dtype != pl.Boolean:
            raise DeclarationError(f"a predicate is true or false for each key, but this one gives {asked.dtype}")
        return np.packbits(asked.fill_null(value=False).to_numpy()).tobytes()
