"""Options that several commands share. Those of a series come from its declaration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.errors import DeclarationError
from sparsehist.ledger.ledger import Ledger
from sparsehist.series.series import CountedSeries

if TYPE_CHECKING:
    from sparsehist.series.store import Store

SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Inputs = Annotated[
    list[str] | None, Parameter(help="Parquet, CSV or JSON lines: file or quoted glob; may be repeated.")
]
Out = Annotated[Path | None, Parameter(help="File to write: .parquet, .json or .arrow with metadata, or .csv.")]
ShownDelta = Annotated[float, Parameter(help="At which epsilon is shown.")]
Reason = Annotated[str | None, Parameter(help="Why; one line, kept in the ledger for good.")]
Yes = Annotated[bool, Parameter(help="Do not ask; needed where there is no terminal to ask on.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How a store is used."""

    who: Annotated[
        str | None, Parameter(help="Who asks, for the ledger; the user of the operating system by default.")
    ] = None
    wait: Annotated[float, Parameter(help="Seconds to wait for a store in use before giving up.")] = 0.0

    @contextmanager
    def open(self, path: Path) -> Iterator[Store]:
        """Open a store on disk."""
        with sh.open(on_disk(path), wait=self.wait, who=self.who) as store:
            yield store

    def new(self, path: Path) -> Store:
        """A store on disk, which need not exist yet."""
        return sh.Store(on_disk(path), wait=self.wait, who=self.who)


StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
Using = Annotated[StoreOptions, Parameter(name="*")]
DEFAULT = StoreOptions()


def on_disk(path: Path) -> Path:
    """Refuse a store in memory, which would be gone after the command."""
    if str(path) == ":memory:":
        raise DeclarationError("a store in memory ends with the command: name a directory")
    return path


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """A privacy level, in either of two forms."""

    level: Annotated[
        str | None,
        Parameter(
            help="Privacy level, exact (0.01, 1/3); larger is finer. With Gaussian noise it is rho of zCDP, with "
            "Laplace noise epsilon."
        ),
    ] = None
    epsilon: Annotated[
        str | None, Parameter(help="Instead of --level: the largest level that keeps to --epsilon at --delta.")
    ] = None
    delta: Annotated[str | None, Parameter(help="Beside --epsilon; such as 1e-6.")] = None

    def given(self) -> dict[str, Any]:
        """What was given, by parameter of the Python interface."""
        return {name: value for name, value in vars(self).items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the files of a log are read, and the resources of counting them."""

    delimiter: Annotated[
        str | None, Parameter(help="Between the fields of CSV files; a comma, or a tab in .tsv files.")
    ] = None
    hive: Annotated[
        list[str] | None,
        Parameter(help="Column that stands in names of folders, as in day=2024-01-31/a.parquet; may be repeated."),
    ] = None
    key_type: Annotated[
        list[str] | None,
        Parameter(
            help="column=date, column=integer or column=text: what a key column is turned into before it is counted "
            "(timestamps into days, booleans and decimals into whole numbers or text); may be repeated."
        ),
    ] = None
    memory_limit: Annotated[str | None, Parameter(help="Such as 4GB; rows then go to disk.")] = None
    threads: Annotated[int | None, Parameter(help="At most this many; all cores by default.")] = None

    def files(self, paths: list[str] | None) -> sh.Files:
        """The files of a log."""
        if not paths:
            raise DeclarationError("name the files of the log: give --input, such as --input 'log/*.parquet'")
        return sh.Files(paths, delimiter=self.delimiter, hive=self.hive or (), types=self.types())

    def types(self) -> dict[str, str]:
        """Read --key-type."""
        pairs = [text.rpartition("=") for text in self.key_type or ()]
        for column, _, kind in pairs:
            if not column:
                raise DeclarationError(f"--key-type is column=date, column=integer or column=text, got {kind!r}")
        return {column: kind for column, _, kind in pairs}

    def counting(self) -> sh.Counting:
        """The resources."""
        return sh.Counting(memory_limit=self.memory_limit, threads=self.threads)


READ = ReadingOptions()
IfExists = Annotated[
    Literal["error", "reuse"],
    Parameter(
        help="If the series exists: refuse, or keep it if declaration and log are the same; exits with 5 if not."
    ),
]


def periodic_names(store: Store) -> list[str]:
    """The names of the periodic series of a store."""
    with store.home.hold() as state:
        return [*Ledger.of(state).limits.periods]


def one_series(store: Store, name: str) -> CountedSeries:
    """A series with releases of its own: any but a periodic one."""
    found = store.series(name)
    if not isinstance(found, CountedSeries):
        raise DeclarationError(
            f"{name} is a periodic series: name one of its periods, as `sparsehist show` lists them"
        )
    return found
