"""Release an in-memory vector at several levels, draw coarser releases from a release, and sample Laplace paths."""

from sparsehist.dense.dense_release import DenseRelease, PostProcessing, clip_negative, scale, threshold
from sparsehist.dense.laplace_path import LaplacePath, sample_laplace_path
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.dense.resale import joint_level, tighten

__all__ = [
    "DenseRelease",
    "LaplacePath",
    "MultipleRelease",
    "PostProcessing",
    "clip_negative",
    "joint_level",
    "sample_laplace_path",
    "scale",
    "threshold",
    "tighten",
]
