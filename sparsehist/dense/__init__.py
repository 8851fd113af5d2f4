"""Multiple release of a vector that fits in memory: any order, sealing, tightening, updates, the Laplace path.

Core: numpy and scipy only, no I/O, generators are passed in. `sparsehist.MultipleRelease` is the class over it.
"""

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.dense.laplace_path import LaplacePath, sample_laplace_path
from sparsehist.dense.lazy_updates import DenseUpdate, apply_update, changed
from sparsehist.dense.post_processing import PostProcessing, clip_negative, round_to, scale, threshold
from sparsehist.dense.resale import Coarsening, check_coarsening, joint_level
from sparsehist.dense.tightening import tighten

__all__ = [
    "Coarsening",
    "DenseRelease",
    "DenseUpdate",
    "LaplacePath",
    "PostProcessing",
    "apply_update",
    "changed",
    "check_coarsening",
    "clip_negative",
    "joint_level",
    "round_to",
    "sample_laplace_path",
    "scale",
    "threshold",
    "tighten",
]
