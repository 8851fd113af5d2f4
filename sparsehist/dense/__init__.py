"""Release of a vector that fits in memory: any order, sealing, tightening, updates, the Laplace path."""

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.dense.laplace_path import LaplacePath, sample_laplace_path
from sparsehist.dense.lazy_updates import DenseUpdate, apply_update, changed
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.dense.post_processing import PostProcessing, clip_negative, round_to, scale, threshold
from sparsehist.dense.resale import joint_level
from sparsehist.dense.tightening import tighten

__all__ = [
    "DenseRelease",
    "DenseUpdate",
    "LaplacePath",
    "MultipleRelease",
    "PostProcessing",
    "apply_update",
    "changed",
    "clip_negative",
    "joint_level",
    "round_to",
    "sample_laplace_path",
    "scale",
    "threshold",
    "tighten",
]
