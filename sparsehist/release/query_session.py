"""Sessions that answer interactive queries about keys. A session is charged when it is first opened.

A query is answered from the hypothesis, which is the session's estimate of all counts, if the noisy error of this
answer is below a noisy threshold. Otherwise, the answer is measured: noise is added to the true answer. Each session
is one noise path. The first commit opens the session. Each later commit adds one update: a file with a measured
answer, and with the noise of the threshold for later queries. The hypothesis is computed from these updates.
"""

from __future__ import annotations

import secrets
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.errors import BudgetExceededError, DeclarationError, InputError, of_kind, present, raise_alone
from sparsehist.interactive.multiplicative_weights import (
    MOST_CELLS,
    MultiplicativeWeights,
    Weighing,
    WeightedAnswer,
    first_guess,
    pull,
)
from sparsehist.ledger.spent import INTERACTIVE, PathName
from sparsehist.noise import currency_of
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.composition import PURE, ZCDP
from sparsehist.privacy.levels import at_least_zero
from sparsehist.release import pipeline
from sparsehist.release.home import Home
from sparsehist.release.metadata import InteractiveMetadata, Request, read_metadata
from sparsehist.release.pipeline import ANSWER, LockedSeries, NoisePath
from sparsehist.release.releases import Release
from sparsehist.store import NewRound, RegisteredFile
from sparsehist.store.private_files import verified
from sparsehist.typing import BoolArray, FloatArray

_START = "0.start"
_PREDICATE = "result of the predicate"
_ANSWERS = {"update": pl.Int64, "value": pl.Int64}


@dataclass(frozen=True, repr=False)
class Update:
    """A measured answer, and noise for the threshold of later queries. Only `threshold_noise` is secret."""

    high: bool  # whether the hypothesis gave an answer that was too high
    value: int  # in counts
    threshold_noise: int  # noise of the error threshold for later queries, in counts
    packed: bytes  # the predicate: one bit per cell

    def as_bytes(self) -> bytes:
        """Return the update as bytes: three numbers, followed by the compressed predicate."""
        head = np.array([self.high, self.value, self.threshold_noise], "<i8")
        return head.tobytes() + zlib.compress(self.packed, 1)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read an update from the result of `as_bytes`."""
        high, value, threshold_noise = np.frombuffer(content, "<i8", 3).tolist()
        return cls(bool(high), value, threshold_noise, zlib.decompress(content[24:]))


@dataclass(frozen=True, repr=False)
class QueryRequest(Request):
    """The requested parameters of a session. Parameters that are None are not compared with an existing session."""

    kind: ClassVar[str] = INTERACTIVE

    accuracy: str | None = None
    mass: int | None = None
    most_updates: int | None = None
    start: Release | None = None

    @property
    def missing(self) -> list[str]:
        return [*super().missing, *(["accuracy="] if self.accuracy is None else [])]

    def as_json(self) -> dict[str, Any]:
        limits = {"mass": self.mass, "most_updates": self.most_updates}
        return super().as_json() | {"accuracy": self.accuracy, **limits, "start": self.started_from}

    @property
    def started_from(self) -> str | None:
        """Name and random id of the release whose counts are the session's first estimates; None if there is none."""
        if self.start is None:
            return None
        series, name, number = (self.start.metadata.get(key) for key in ("series", "name", "round"))
        return f"{series}.{name} (round {number})"


def queries_requested(
    declaration: Declaration,
    name: str,
    *,
    level: Level | None = None,
    accuracy: Level | None = None,
    start: Release | None = None,
    **limits: Any,
) -> QueryRequest:
    """Check the parameters of a session, without opening a store, and return them as a request."""
    domain = declaration.domain
    if domain.is_open or not 2 <= domain.size <= MOST_CELLS:
        raise DeclarationError(
            f"interactive queries need a domain of 2 to {MOST_CELLS:,} cells, got {domain.describe()}"
        )
    if declaration.shares is not None or currency_of(declaration.noise) not in (PURE, ZCDP):
        raise DeclarationError(
            "interactive queries need bounding='keep' and noise='gaussian', 'laplace' or 'discrete_laplace'"
        )
    checked_name("session of queries", name)
    exact = None if accuracy is None else level_text(at_least_zero(accuracy, "accuracy"))
    request = QueryRequest(name, None if level is None else as_level(level), accuracy=exact, start=start, **limits)
    if not request.missing:
        parameters = _weighing(declaration, request)
        if start is not None:
            first_guess(parameters, _start_counts(declaration, start))
    return request


def _weighing(
    declaration: Declaration, session: QueryRequest | InteractiveMetadata, mass: int | None = None
) -> Weighing:
    """Return the parameters of a session's algorithm. `mass` is the sum of all counts (default: the declared sum)."""
    return Weighing(
        cells=declaration.domain.size,
        mass=session.mass if mass is None else mass,
        level=str(present(session.level)),
        accuracy=present(session.accuracy),
        sensitivity=declaration.most_touched,
        most_updates=session.most_updates,
        started=session.start is not None,
        currency=currency_of(declaration.noise),
        measured=session.mass is None,
    )


def _start_counts(declaration: Declaration, start: object) -> FloatArray:
    """Return the noisy counts of a release for all cells, with 0 for cells not published; shape (cells,)."""
    frame = getattr(start, "frame", None)
    domain, columns = declaration.domain, list(declaration.key)
    if not isinstance(frame, pl.DataFrame) or not {*columns, "noisy_count"} <= set(frame.columns):
        raise DeclarationError(f"start must be a release with the columns {', '.join(columns)} and noisy_count")
    keys = frame.select(pl.col(name).alias(f"key_{i}") for i, name in enumerate(columns))
    if tuple(keys.dtypes) != tuple(domain.dtypes) or not domain.contains(keys).all():
        raise DeclarationError(f"start must be a release with keys from {domain.describe()}")
    counts = np.zeros(domain.size)
    counts[domain.index(keys)] = frame["noisy_count"].to_numpy()
    return counts


@dataclass(frozen=True, repr=False)
class QueryPath(NoisePath):
    """The noise path of a session of queries."""

    session: str

    @property
    def name(self) -> PathName:
        return (INTERACTIVE, self.session, "multiplicative_weights")

    @property
    def contents(self) -> Callable[[str], bytes | None]:
        """A function that returns the content of a file, such as "1.update", or None if there is no such file."""
        files = {file.name.rpartition("-")[2]: file for file in present(self.record).files}
        return lambda name: verified(self.locked.record.directory, files[name]) if name in files else None

    def attach(self, name: str, content: bytes) -> list[RegisteredFile]:
        """Write a file that will be committed with the next round of the session."""
        return [self.locked.state.write_attachment(self.locked.record, f"-{name}", content)]

    def metadata(self, request: QueryRequest) -> InteractiveMetadata:
        parameters = _weighing(self.locked.declaration, request)
        return InteractiveMetadata(
            declaration=self.locked.declaration,
            name=request.name,
            level=level_text(present(request.level)),
            std=parameters.noise(1).std(parameters.levels[1]),
            grid=1.0,
            threshold=None,
            numerical_slack=0.0,
            accuracy=present(request.accuracy),
            most_updates=parameters.updates,
            mass=request.mass,
            start=request.started_from,
        )

    def statement(self, _request: QueryRequest, metadata: InteractiveMetadata) -> str:
        parameters = _weighing(self.locked.declaration, metadata)
        pure = f"{float(parameters.epsilon):.6g}-DP" if parameters.currency == ZCDP else f"{metadata.level}-DP (pure)"
        rho = f"{metadata.level}-zCDP" if parameters.currency == ZCDP else f"{parameters.rho:.6g}-zCDP"
        return f"{rho} and {pure} for the whole session, whatever is asked"

    def draw(self, request: QueryRequest, metadata: InteractiveMetadata, *, rng: np.random.Generator) -> NewRound:
        """Draw the noise of the first error threshold. Also measure the sum of all counts, unless it is declared."""
        locked, mass = self.locked, metadata.mass
        parameters, attached = _weighing(locked.declaration, metadata), list[RegisteredFile]()
        threshold_noise = parameters.noise(2).sample(1, parameters.levels[0], rng=rng)[0]
        if mass is None:
            noise = parameters.noise(1).sample(1, parameters.levels[0], rng=rng)[0]
            mass = max(1, int(locked.files.all_counted()["count"].sum() + noise))
        if request.start is not None:  # copy the release's counts, because the release may be deleted later
            counts = _start_counts(locked.declaration, request.start)
            attached = self.attach(_START, zlib.compress(counts.tobytes(), 1))
        drawn = np.array([threshold_noise, mass], np.int64)
        return self.new_round(request, metadata, level_noise=drawn, attachments=attached)

    def rows(self, _level: Fraction, _metadata: InteractiveMetadata) -> pl.DataFrame:
        """Return an empty frame, because `QuerySession` itself reads the answers of a session."""
        return pl.DataFrame(schema=_ANSWERS)


class QuerySession:
    """A session of adaptive queries (predicates over the keys of a series); `Series.interactive` opens it.

    The whole session is charged when it first opens. A measured answer is committed before it is returned, and the
    same predicate always gets the same measured answer. A session that is opened again continues where it stopped.
    The counts of all cells stay in memory.

    Attributes:
        name: Name of the session, unique among the releases of its series.
    """

    def __init__(self, home: Home, declaration: Declaration, series_id: str, request: QueryRequest) -> None:
        """Open a session; `Series.interactive` is the public function for this."""
        self._home, self._declaration, self._series_id, self.name = home, declaration, series_id, request.name
        self._lock = threading.Lock()
        self._updates: dict[bytes, Update] = {}  # dict from packed predicate to update, in the order of measurement
        self._pending: Update | None = None
        domain, counts = declaration.domain, np.zeros(declaration.domain.size)
        self._keys = domain.keys(np.arange(domain.size, dtype=np.int64))
        self._keys.columns = list(declaration.key)
        with self._hold() as path:
            counted = path.locked.files.all_counted()
            counts[domain.index(counted.drop("count"))] = counted["count"].to_numpy()
            release = pipeline.release(path.locked, request, lambda *_: path)
            self._metadata = of_kind(read_metadata(release.metadata), InteractiveMetadata)
            level, start = as_level(self._metadata.level), path.contents(_START)
            threshold_noise, mass = path.locked.state.noise(present(path.path_id), level, 2).tolist()
            parameters = _weighing(declaration, self._metadata, mass)
            guess = first_guess(parameters, None if start is None else np.frombuffer(zlib.decompress(start)))
            zero, left = np.zeros(domain.size), parameters.updates
            self._state = MultiplicativeWeights(parameters, counts, guess, zero, left, threshold_noise)
            self._refresh(path)

    @property
    def metadata(self) -> dict[str, object]:
        """Public parameters of the session."""
        return self._metadata.as_dict()

    @property
    def parameters(self) -> Weighing:
        """Public parameters of the mechanism, including the declared or measured sum of all counts."""
        return self._state.parameters

    @property
    def updates_left(self) -> int:
        """Number of answers that the session could still measure when it was opened or when `ask` was last called."""
        return self._state.updates_left

    @property
    def answers(self) -> pl.DataFrame:
        """One row per measured answer: its number (column update) and value.

        If the session measured the sum of all counts, this sum has the number 0.
        """
        rows = [] if self._metadata.mass is not None else [(0, present(self.parameters.mass))]
        rows += [(number, update.value) for number, update in enumerate(self._updates.values(), 1)]
        return pl.DataFrame(rows, schema=_ANSWERS, orient="row")

    @property
    def hypothesis(self) -> pl.DataFrame:
        """The current public estimate of all counts: the key columns of all cells, and `estimate` in counts."""
        return self._keys.with_columns(estimate=self._state.hypothesis)

    def ask(self, predicate: pl.Expr) -> WeightedAnswer:
        """Estimate the sum of the counts of all cells where a predicate holds. A unit is counted once per cell.

        Args:
            predicate: A Polars expression over the key columns that is true or false for each key (null counts as
                false), such as `pl.col("browser").is_in(["a", "b"]) & (pl.col("day") > 3)`. Predicates are public.

        Returns:
            The answer, its error, and whether it was measured.

        Raises:
            DeclarationError: If `predicate` is not such an expression.
            BudgetExceededError: If all updates are used up.
            StoreError: If the store is in use, or an answer cannot be committed; the next call then commits it first.
        """
        cells = self._cells(predicate)
        packed = np.packbits(cells).tobytes()
        # Lock the store before answering the query, so that a failure to lock does not depend on true counts.
        with self._lock, self._hold() as path:
            # Read the clock before answering the query, because the duration of answering depends on true counts.
            called_at = datetime.now(UTC).isoformat(timespec="seconds")
            self._refresh(path)
            self._commit_pending(path, called_at)
            if packed not in self._updates:
                if not self.updates_left:
                    raise BudgetExceededError(
                        f"all {self.parameters.updates} updates of {self.name!r} are used up and their level is "
                        "spent, but the hypothesis and measured answers can still be read; the level was "
                        f"{self._metadata.level}"
                    )
                after, answer = self._state.ask(cells, rng=self._home.generator())
                if not answer.fresh:
                    return answer
                high = np.array_equal(after.pulls > self._state.pulls, cells)
                self._pending = Update(high, int(answer.value), int(after.threshold_noise), packed)
                self._commit_pending(path, called_at)
            value = float(self._updates[packed].value)
            return WeightedAnswer(value, self.parameters.error, fresh=True, updates_left=self.updates_left)

    def __repr__(self) -> str:
        """Return only public parameters, because true counts are secret."""
        return f"QuerySession({self.name!r} of {self._declaration.name!r}, updates_left={self.updates_left})"

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a QuerySession contains true counts and cannot be copied: open the session again by its name"
        )

    @contextmanager
    def _hold(self) -> Iterator[QueryPath]:
        """Lock the store, and yield the noise path of the session."""
        with self._home.hold() as state:
            self._home.work()
            record = self._home.find(state, self._declaration.name, self._series_id)
            yield QueryPath(LockedSeries(self._home, state, record, self._declaration), self.name)

    def _commit_pending(self, path: QueryPath, called_at: str) -> None:
        """Commit the pending update, if any. This costs nothing, because opening the session paid for all updates.

        If the commit fails, the caller sees the error, which reveals that the answer had to be measured. Therefore
        the update must not be lost: it stays pending, and the next call commits it first.
        """
        update, state = self._pending, path.locked.state
        if update is not None and self.updates_left and update.packed not in self._updates:
            number = len(self._updates) + 1
            metadata = replace(
                self._metadata, name=f"{self.name}{ANSWER}{number}", update=number, store=state.store_id,
                round=secrets.token_hex(8), released_at=called_at, generation=state.generation + 1,
            )  # fmt: skip
            attached = path.attach(f"{number}.update", update.as_bytes())
            request = QueryRequest(metadata.name, as_level(metadata.level))
            state.commit_round(path.new_round(request, metadata, level_noise=None, attachments=attached))
            self._refresh(path)
        self._pending = None

    def _refresh(self, path: QueryPath) -> None:
        """Apply the updates that this or another process committed since the last call."""
        read = path.contents
        while (content := read(f"{len(self._updates) + 1}.update")) is not None:
            update = Update.from_bytes(content)
            query = np.unpackbits(np.frombuffer(update.packed, np.uint8), count=self.parameters.cells)
            self._state = replace(
                self._state,
                pulls=self._state.pulls + pull(query.astype(np.float64), high=update.high),
                updates_left=self.updates_left - 1,
                threshold_noise=float(update.threshold_noise),
            )
            self._updates[update.packed] = update

    def _cells(self, predicate: pl.Expr) -> BoolArray:
        """Return for each cell whether a predicate holds for its key; shape (cells,)."""
        columns = ", ".join(self._declaration.key)
        if not isinstance(predicate, pl.Expr):
            raise DeclarationError(
                f"a predicate must be a Polars expression over {columns}, got {type(predicate).__name__}"
            )
        try:
            cells = self._keys.with_columns(predicate.alias(_PREDICATE)).get_column(_PREDICATE)
        except pl.exceptions.PolarsError as problem:
            raise_alone(DeclarationError(f"the predicate cannot be computed from {columns}: {problem}"))
        if cells.dtype != pl.Boolean:
            raise DeclarationError(f"a predicate must be true or false for each key; its type is {cells.dtype}")
        return cells.fill_null(value=False).to_numpy()
