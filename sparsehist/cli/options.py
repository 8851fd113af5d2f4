"""Options that several commands share. Those of a series come from its declaration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameters
from sparsehist.errors import DeclarationError
from sparsehist.release.home import Home

StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Inputs = Annotated[
    list[str] | None, Parameter(help="Parquet, CSV or JSON lines: file or quoted glob; may be repeated.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How a store is used."""

    who: Annotated[
        str | None, Parameter(help="Who asks, for the ledger; the user of the operating system by default.")
    ] = None
    wait: Annotated[float, Parameter(help="Seconds to wait for a store in use before giving up.")] = 0.0

    def home(self, path: Path) -> Home:
        """Where the store stands; one in memory would be gone after the command."""
        if str(path) == ":memory:":
            raise DeclarationError("a store in memory ends with the command: name a directory")
        return Home(path, wait=self.wait, who=self.who)

    def store(self, path: Path, *, new: bool = False) -> sh.Store:
        """A store on disk, which need not exist yet if it is new."""
        store = sh.Store(self.home(path).path, wait=self.wait, who=self.who)
        if not new:
            with store.home.hold():
                return store
        return store


Using = Annotated[StoreOptions, Parameter(name="*")]
DEFAULT = StoreOptions()


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
    key_type: Annotated[list[str] | None, Parameter(help=parameters(Declaration)["key_types"].help)] = None
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
        if not all(column for column, _, _ in pairs):
            raise DeclarationError("--key-type is column=date, column=integer or column=text")
        return {column: kind for column, _, kind in pairs}

    def counting(self) -> sh.Counting:
        """The resources."""
        return sh.Counting(memory_limit=self.memory_limit, threads=self.threads)


READ = ReadingOptions()


def options_of(
    name: str,
    only: Collection[str] = (),
    *,
    optional: bool = False,
    also_needed: Collection[str] = (),
    record: type = Declaration,
) -> type:
    """Make a dataclass whose fields are options of a series; cyclopts flattens it into those of a command.

    Args:
        name: Of the dataclass.
        only: The parameters to take; all but those of reading files by default.
        optional: Whether even those without a default may be left out.
        also_needed: Those that a series may leave out and the command may not.
        record: The declaration.
    """
    made: list[tuple[str, Any, Any]] = []
    for word, about in parameters(record).items():
        if about.option is not None and (word in only if only else word != "key_types"):
            needed = (about.default is MISSING and not optional) or word in also_needed
            text = isinstance(about.default, str)
            hint: Any = about.option if needed or text else about.option | None
            option = Parameter(name="--measure" if word == "measures" else None, help=about.help)
            default = field() if needed else field(default=about.default if text else None)
            made.append((word, Annotated[hint, option], default))
    return make_dataclass(name, made, frozen=True, kw_only=True, namespace={"__module__": __name__})


def given(*records: Any, **asked: Any) -> dict[str, Any]:
    """The options that were given, as functions of the Python interface take them."""
    found = {name: value for record in records if record is not None for name, value in vars(record).items()}
    found = {name: value for name, value in (found | asked).items() if value is not None}
    if isinstance(found.get("unit"), list):  # several columns, given one by one or joined by commas
        found["unit"] = tuple(name for word in found["unit"] for name in word.split(","))
    if str(found.get("step", "")).isdecimal():
        found["step"] = int(found["step"])
    return found
