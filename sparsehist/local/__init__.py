"""Randomised before it leaves the person: answers out of k categories, and RAPPOR with its histories of reports.

Core: numpy and scipy only, no I/O, generators are passed in. `RapporClient`, which draws and keeps a private file, is
part of the shell, which lends it under its public name.
"""

from typing import Any

from sparsehist.local.decoding import decode
from sparsehist.local.estimates import Decoded, Frequencies
from sparsehist.local.frequencies import frequencies, frequency_std
from sparsehist.local.histories import Degradation, coarser_history, draw_memo, draw_report, finer_history
from sparsehist.local.rappor import Rappor

__all__ = [
    "Decoded",
    "Degradation",
    "Frequencies",
    "Rappor",
    "RapporClient",
    "coarser_history",
    "decode",
    "draw_memo",
    "draw_report",
    "finer_history",
    "frequencies",
    "frequency_std",
]

RapporClient: type[Any]
"""Lent by the top of the package."""
