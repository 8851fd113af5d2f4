"""What may be done to the answers of a workload after they are drawn: declared, random in nothing, free of cost.

Each step is a function of the noisy answers alone, so releases at several levels together still cost what the finest
costs. The stated standard deviations are those before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.workload import Workload
from sparsehist.workload.base import FloatArray

STEPS = ("consistent", "non_negative")
_LARGEST_SOLVED = 2**22


def checked_steps(steps: str | Iterable[str]) -> tuple[str, ...]:
    """Read the declared steps, in the order they are done.

    Raises:
        DeclarationError: If one is unknown.
    """
    given = {steps} if isinstance(steps, str) else set(steps)
    unknown = sorted(map(repr, given - set(STEPS)))
    if unknown:
        raise DeclarationError(f"post_processing takes {' and '.join(map(repr, STEPS))}, got {', '.join(unknown)}")
    return tuple(step for step in STEPS if step in given)


def check_possible(workload: Workload, steps: tuple[str, ...]) -> None:
    """Refuse steps that this workload has no use for, before anything is spent.

    Raises:
        DeclarationError: If answers may rightly be negative, or there are too many cells to solve for.
    """
    if "non_negative" in steps and not workload.non_negative:
        raise DeclarationError(f"answers of {workload.describe()} may be negative: its matrix has negative entries")
    if "consistent" in steps and workload.explicit and workload.n_cells > _LARGEST_SOLVED:
        raise DeclarationError(
            f"consistent answers are found by solving for the cells, and {workload.n_cells} are too many; "
            f"at most {_LARGEST_SOLVED}"
        )


def post_process(workload: Workload, answers: FloatArray, std: FloatArray, steps: tuple[str, ...]) -> FloatArray:
    """Make listed answers consistent, non-negative or both.

    Args:
        workload: What was asked.
        answers: Noisy answers; shape (queries,).
        std: Their standard deviations; shape (queries,).
        steps: "consistent": the answers that some histogram gives, nearest in least squares weighted by the
            deviations; "non_negative": none below 0; both: those that a histogram without negative counts gives.

    Returns:
        Shape (queries,).
    """
    if "consistent" in steps:
        return _nearest_histogram(workload, answers, std, non_negative="non_negative" in steps)
    return np.maximum(answers, 0.0) if "non_negative" in steps else answers


def post_process_cells(counts: FloatArray, steps: tuple[str, ...]) -> FloatArray:
    """The same for the vector of cells of a workload that is not listed: what it answers is consistent already.

    Without negative counts its prefix sums rise: the nearest rising ones are taken.

    Args:
        counts: One noisy count a cell; shape (cells,).
        steps: As for `post_process`.

    Returns:
        Shape (cells,).

    Example:
        >>> post_process_cells(np.array([3.0, -1.0, 2.0]), ("non_negative",)).tolist()
        [2.5, 0.0, 1.5]
    """
    if "non_negative" not in steps:
        return counts
    from scipy.optimize import isotonic_regression

    rising = np.maximum(isotonic_regression(np.cumsum(counts)).x, 0.0)
    return np.diff(rising, prepend=0.0)


def _nearest_histogram(workload: Workload, answers: FloatArray, std: FloatArray, *, non_negative: bool) -> FloatArray:
    from scipy.optimize import lsq_linear
    from scipy.sparse.linalg import LinearOperator, lsmr

    weights = 1.0 / np.where(std > 0, std, 1.0)
    operator = LinearOperator(
        workload.shape,
        matvec=lambda x: weights * workload.apply(x.reshape(-1)),
        rmatvec=lambda y: workload.apply_transposed(weights * y.reshape(-1)),
        dtype=np.float64,
    )
    target = weights * answers
    if non_negative:
        solved = lsq_linear(operator, target, bounds=(0.0, np.inf), lsq_solver="lsmr", tol=1e-9).x
        solved = np.maximum(solved, 0.0)
    else:
        solved = lsmr(operator, target, atol=1e-13, btol=1e-13, maxiter=10 * sum(workload.shape))[0]
    return workload.apply(solved)
