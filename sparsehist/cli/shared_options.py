"""What several commands take, with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

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
ChosenByLooking = Annotated[
    str | None,
    Parameter(
        help="Which choices were made by looking at the log itself, such as 'max_keys, domain'; no guarantee covers "
        "them, and ledger, releases and report say so."
    ),
]
Anchor = Annotated[
    Path | None,
    Parameter(
        help="Directory on another machine or disk that is to know how far the store has come: no snapshot or copy "
        "of the store can then be used beside it."
    ),
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
KeyTypes = Annotated[
    list[str] | None,
    Parameter(
        name="--key-type",
        help="column=date, column=integer or column=text: what a key column is turned into before it is counted "
        "(timestamps into days, booleans and decimals into whole numbers or text); may be repeated.",
    ),
]
Delimiter = Annotated[str | None, Parameter(help="Between the fields of CSV files; a comma, or a tab in .tsv files.")]
Hive = Annotated[
    list[str] | None,
    Parameter(help="Column that stands in names of folders, as in day=2024-01-31/a.parquet; may be repeated."),
]
Handling = Literal["error", "drop"]
OnNull = Annotated[Handling, Parameter(help="Rows without unit or key (null, NaN, empty): refuse or leave out.")]
OnOutside = Annotated[Handling, Parameter(help="Rows whose key is outside the domain: refuse or leave out.")]
MemoryLimit = Annotated[str | None, Parameter(help="Such as 4GB; rows then go to disk.")]
Threads = Annotated[int | None, Parameter(help="At most this many; all cores by default.")]
Input = Annotated[list[str], Parameter(help="Parquet, CSV or JSON lines: file or quoted glob; may be repeated.")]
Population = Annotated[str, Parameter(help="The people behind the units; costs add within it.")]
IfExists = Annotated[
    Literal["error", "reuse"],
    Parameter(
        help="What has that name already: refuse, or keep it if it was declared alike, of a log that is counted now "
        "from the same log; exits with 5 if not."
    ),
]
SignBy = Annotated[
    Path | None,
    Parameter("--sign", help="Private key to sign the file and its entry in the public ledger with; see keygen."),
]
