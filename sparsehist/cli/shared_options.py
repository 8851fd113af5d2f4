"""What several commands take, with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

StorePath = Annotated[Path, Parameter(help="Directory of the store.")]
SeriesName = Annotated[str, Parameter(help="Name of the series.")]
Wait = Annotated[float, Parameter(help="Seconds to wait for a store in use before giving up.")]
Who = Annotated[str | None, Parameter(help="Who asks, for the ledger; the user of the operating system by default.")]
