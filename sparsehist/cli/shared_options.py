"""What several commands take, with the same words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sparsehist.errors import DeclarationError

if TYPE_CHECKING:
    from sparsehist.counting.contract import Files

StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Wait = Annotated[float, Parameter(help="Seconds to wait for a store in use before giving up.")]
Who = Annotated[str | None, Parameter(help="Who asks, for the ledger; the user of the operating system by default.")]
Out = Annotated[Path | None, Parameter(help="File to write: .parquet, .json or .arrow with metadata, or .csv.")]
Delta = Annotated[float, Parameter(help="At which epsilon is shown.")]
Bounding = Annotated[
    Literal["keep", "share"],
    Parameter(
        help="A unit with more than --max-keys keys counts towards that many of them, or shares its weight over all, "
        "at the same noise: far less bias where many units have more."
    ),
]
MostKeys = Annotated[
    int | None, Parameter(help="With --bounding share: keys to which a unit is cut; 64 times --max-keys by default.")
]
Key = Annotated[list[str], Parameter(help="Key column; repeat it, in the domain's order, for a product domain.")]
Unit = Annotated[
    list[str],
    Parameter(
        help="Column of the privacy unit: who is protected, such as user_id; or several that name it together: "
        "date,ip_id."
    ),
]
Domain = Annotated[
    str,
    Parameter(
        help="All keys that could occur, declared by you and never read off the log: strings(max_bytes=32), "
        "strings(max_chars=20, alphabet='digits'), integers(1000), dates('2014-05-01', '2014-05-12'), hash64(), "
        "catalogue('DE', 'US'), catalogue(file='areas.csv', column='url'), product(country=…, day=…); or, where "
        "nobody can list them, open(delta='1e-6')."
    ),
]
MaxKeys = Annotated[int, Parameter(help="Distinct keys one unit counts towards at most; noise grows with its root.")]
Yes = Annotated[bool, Parameter(help="Do not ask; needed where there is no terminal to ask on.")]
KeyTypes = Annotated[
    list[str] | None,
    Parameter(
        name="--key-type",
        help="column=date, column=integer or column=text: what a key column is turned into before it is counted "
        "(timestamps into days, booleans and decimals into whole numbers or text); may be repeated.",
    ),
]
Handling = Literal["error", "drop"]
OnNull = Annotated[Handling, Parameter(help="Rows without unit or key (null, NaN, empty): refuse or leave out.")]
OnOutside = Annotated[Handling, Parameter(help="Rows whose key is outside the domain: refuse or leave out.")]
Input = Annotated[list[str], Parameter(help="Parquet, CSV or JSON lines: file or quoted glob; may be repeated.")]
Population = Annotated[str, Parameter(help="The people behind the units; costs add within it.")]
SignBy = Annotated[
    Path | None,
    Parameter("--sign", help="Private key to sign the file and its entry in the public ledger with; see keygen."),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the files of a log are read."""

    delimiter: Annotated[
        str | None, Parameter(help="Between the fields of CSV files; a comma, or a tab in .tsv files.")
    ] = None
    hive: Annotated[
        list[str] | None,
        Parameter(help="Column that stands in names of folders, as in day=2024-01-31/a.parquet; may be repeated."),
    ] = None
    memory_limit: Annotated[str | None, Parameter(help="Such as 4GB; rows then go to disk.")] = None
    threads: Annotated[int | None, Parameter(help="At most this many; all cores by default.")] = None

    def files(self, paths: list[str]) -> Files:
        """The files of a log, as they are to be read."""
        from sparsehist.counting.contract import Files

        return Files(paths, delimiter=self.delimiter, hive=self.hive or ())

    @property
    def limits(self) -> dict[str, Any]:
        """What counting may take, as the Python interface has it."""
        return {"memory_limit": self.memory_limit, "threads": self.threads}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DeclaringOptions:
    """What is declared alike of series of all kinds, and how it is asked for."""

    on_null: OnNull = "error"
    on_outside: OnOutside = "error"
    key_types: KeyTypes = None
    if_exists: Annotated[
        Literal["error", "reuse"],
        Parameter(
            help="What has that name already: refuse, or keep it if it was declared alike, of a log that is counted "
            "now from the same log; exits with 5 if not."
        ),
    ] = "error"
    who: Who = None
    wait: Wait = 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """As the Python interface has them."""
        return vars(self) | {"key_types": key_types(self.key_types)}


READ, DECLARED = ReadingOptions(), DeclaringOptions()
"""Where none of these options is given."""


def key_types(told: list[str] | None) -> dict[str, str]:
    """What --key-type says: column=type."""
    pairs = [text.rpartition("=") for text in told or ()]
    wrong = [text for text, (column, _, _) in zip(told or (), pairs, strict=True) if not column]
    if wrong:
        raise DeclarationError(f"--key-type is column=date, column=integer or column=text, got {wrong[0]!r}")
    return {column: kind for column, _, kind in pairs}
