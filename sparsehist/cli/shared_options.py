"""What several commands take, with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Wait = Annotated[float, Parameter(help="Seconds to wait for a store in use before giving up.")]
Who = Annotated[str | None, Parameter(help="Who asks, for the ledger; the user of the operating system by default.")]
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
