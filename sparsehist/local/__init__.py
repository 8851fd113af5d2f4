"""Local privacy: randomised response, and RAPPOR with its histories of reports.

Numpy and scipy only, no files; functions take their generator.
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
