"""Pure functions that compute the thresholds of sparse histograms and draw the noise of each release.

The cells of a histogram are numbered 0, …, d - 1. The functions use only numpy and scipy, and do no I/O.
"""

from sparsehist.histogram.dense import DenseReleases, release_dense
from sparsehist.histogram.grid import count_near, effective_threshold, grid_step, numerical_slack, round_to_grid
from sparsehist.histogram.history import draws_all_empty, largest_tail
from sparsehist.histogram.round import NewlyTracked, Round, draw_exceeding, draw_round
from sparsehist.histogram.thresholds import expected_false_keys, threshold_for_false_keys

__all__ = [
    "DenseReleases",
    "NewlyTracked",
    "Round",
    "count_near",
    "draw_exceeding",
    "draw_round",
    "draws_all_empty",
    "effective_threshold",
    "expected_false_keys",
    "grid_step",
    "largest_tail",
    "numerical_slack",
    "release_dense",
    "round_to_grid",
    "threshold_for_false_keys",
]
