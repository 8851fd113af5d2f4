"""Local privacy: randomised response, and RAPPOR with histories of reports.

This package needs only numpy and scipy, and uses no files. Functions take a random generator as an argument.
"""

from sparsehist.local.client import RapporClient
from sparsehist.local.estimates import Decoded, Frequencies, decode, frequencies
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
]
