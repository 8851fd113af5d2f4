"""Options that several commands share. The options that declare a series are derived from `Declaration`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameters
from sparsehist.errors import DeclarationError
from sparsehist.release.home import MEMORY, Home

StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Workload = Annotated[
    str | None,
    Parameter(
        help="Release sums over keys: prefix(), ranges(), \"ranges(keys=[('2024-01-01', '2024-01-31')])\", "
        "identity(), total(), marginals(k=2), \"marginals([['country'], ['country', 'day']])\", kronecker(…, …), "
        "union(…, …)."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Options for access to a store.

    Args:
        who: Name to record with events in the ledger; by default, your user name on this computer.
        wait: Seconds to wait for a store in use before giving up.
    """

    who: str | None = None
    wait: float = 0.0

    def home(self, path: Path) -> Home:
        """Return the `Home` of a store at a path. Refuse a store in memory: it would vanish after the command."""
        if str(path) == MEMORY:
            raise DeclarationError("a store in memory would vanish after this command: pass a directory")
        return Home(path, wait=self.wait, who=self.who)

    def store(self, path: Path) -> sh.Store:
        """Return a `Store` object for a path, which need not exist yet."""
        return sh.Store(self.home(path).path, wait=self.wait, who=self.who)


Using = Annotated[StoreOptions, Parameter(name="*")]
DEFAULT = StoreOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """A privacy level, given directly or as epsilon and delta.

    Args:
        level: Privacy level, such as 0.01 or 1/3: rho of zCDP, or epsilon for Laplace noise; larger is less noisy.
        epsilon: Instead of --level: choose the largest level that satisfies (--epsilon, --delta).
        delta: Delta of the guarantee (epsilon, delta), such as 1e-6; needed with --epsilon.
    """

    level: str | None = None
    epsilon: str | None = None
    delta: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PublishedOptions:
    """Options that determine what a release publishes.

    Args:
        threshold: Publish cells whose noisy count is above this many units.
        false_keys: Instead of --threshold: expected number of published empty keys; 0.01 by default.
        open_delta: Delta to spend in an open domain, given instead of --threshold. By default, half of the remaining
            delta is spent.
        measures: Also publish sums of measures. Give one level for all, or one for each, as price=0.5,events=1/3.
        step: For a running series: count units up to this step.
    """

    threshold: float | None = None
    false_keys: float | None = None
    open_delta: float | None = None
    measures: str | None = None
    step: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options that name the files of a log, and settings for reading and counting their rows.

    Args:
        input: File or quoted glob of Parquet, CSV or JSON lines; may be repeated.
        delimiter: Separator of the fields of CSV files; by default a comma, or a tab in .tsv files.
        hive: Column in the names of folders, as in day=2024-01-31/a.parquet; may be repeated.
        memory_limit: Memory for counting, such as 4GB; rows that do not fit are written to disk.
        threads: Largest number of threads; by default the number of cores.
    """

    input: list[str] | None = None
    delimiter: str | None = None
    hive: list[str] | None = None
    key_type: Annotated[list[str] | None, Parameter(help=parameters(Declaration)["key_types"].help)] = None
    memory_limit: str | None = None
    threads: int | None = None

    def files(self, first: Sequence[str] = ()) -> sh.Files:
        """Return the files of the log: the given paths, followed by the paths of --input."""
        paths = [*first, *(self.input or ())]
        if not paths:
            raise DeclarationError("name the files of the log: give --input, such as --input 'log/*.parquet'")
        return sh.Files(paths, delimiter=self.delimiter, hive=self.hive or (), types=self.types())

    def types(self) -> dict[str, str]:
        """Parse options such as --key-type column=date, and return a dict from column to type."""
        return {column: kind for column, _, kind in (text.rpartition("=") for text in self.key_type or ())}

    def counting(self) -> sh.Counting:
        """Return the settings for counting a log."""
        return sh.Counting(memory_limit=self.memory_limit, threads=self.threads)


READ = ReadingOptions()


def options_of(name: str, only: str = "", needed: str | None = None, record: type = Declaration) -> type:
    """Make a dataclass of options that declare a series; cyclopts adds its fields to the options of a command.

    `only` lists the names of the options, and `needed` the names of the required options. By default, all parameters
    of `record` except key_types are options, and the parameters without a default value are required.
    """
    options: list[tuple[str, Any, Any]] = []
    for word, parameter in parameters(record).items():
        if parameter.option is not None and (word in only.split() if only else word != "key_types"):
            required = parameter.default is MISSING if needed is None else word in needed.split()
            default = parameter.default if isinstance(parameter.default, str) else None
            option = Parameter(name="--measure" if word == "measures" else None, help=parameter.help)
            hint: Any = parameter.option if required or default is not None else parameter.option | None
            options.append((word, Annotated[hint, option], field() if required else field(default=default)))
    return make_dataclass(name, options, frozen=True, kw_only=True, namespace={"__module__": __name__})


def arguments(*records: Any, **others: Any) -> dict[str, Any]:
    """Return the options that the user passed, as keyword arguments for the Python interface."""
    options = {name: value for record in records if record is not None for name, value in vars(record).items()}
    passed = {name: value for name, value in (options | others).items() if value is not None}
    if isinstance(passed.get("unit"), list):  # several columns: --unit a --unit b, or --unit a,b
        passed["unit"] = tuple(name for word in passed["unit"] for name in word.split(","))
    if str(passed.get("step", "")).isdecimal():
        passed["step"] = int(passed["step"])
    return passed
