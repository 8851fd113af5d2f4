"""Randomised before it leaves the person: answers out of k categories, and RAPPOR with its histories of reports.

Core: numpy and scipy only, no I/O, generators are passed in. `RapporClient`, which draws and keeps a private file, is
part of the shell and is found here under its public name when it is first used.
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


def __getattr__(name: str) -> Any:
    """Find the class that draws and keeps a file where it stands, in the shell."""
    if name != "RapporClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return __import__("sparsehist.sessions.rappor_client", fromlist=[name]).RapporClient
