"""Tests that invalid workloads, invalid strategies, and strategies that do not fit their workload are refused."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Total,
    Union,
    Workload,
    choose,
    strategy_named,
)

WORKLOADS = [
    (lambda: Matrix([[1.0, np.nan]]), "NaN"),
    (lambda: Matrix(np.zeros((0, 4))), "at least one query"),
    (lambda: Matrix("3; 0:1 3:1"), "cell:weight"),
    (lambda: Prefix().shape, "no size yet"),
    (lambda: Prefix().for_domain((10**69,)), "use a smaller domain"),
    (lambda: Ranges([(0, 7)]).for_domain((7,)), "high < 7"),
    (lambda: Ranges(10**6).apply(np.zeros(10**6)), "up to 4096 cells"),
    (Union, "at least one workload"),
    (lambda: Union(Prefix(4), Prefix(5)), "columns of the same sizes"),
    (Marginals, "k, up_to"),
    (lambda: Marginals((2, 3), 3), "3 of 2"),
    (lambda: Marginals((2, 3), [[0, 1], [1, 0]]), "twice"),
    (lambda: Marginals([["a"]]).for_domain((2,), {"b": None}), r"no column 'a'; its columns are \['b'\]"),
    (lambda: Marginals((2,) * 30, 15), "fewer marginals"),
    (lambda: Workload.parse("marginals(k=)"), "cannot read"),
    (lambda: Workload.parse("prefix(__import__('os'))"), "no workload"),
]
STRATEGIES = [
    *((lambda keys=keys: choose(Matrix([[0, 0, 0]]), keys), r"no strategy answers|matrix is 0") for keys in (1, 3)),
    *(
        (lambda text=text: strategy_named(text, Prefix(8)), message)
        for text, message in (
            ("spectra", "no strategy 'spectra'"),
            ("spectral(blend=", "cannot read"),
            ("spectral(blend=[2])", "not a value for"),
            ("spectral(blend=-1)", "blend"),
            ("optimised(share=101)", "percentage"),
            ("kronecker(identity)", "of the form kronecker"),
            ("residual", "marginals"),
        )
    ),
    (lambda: strategy_named("optimised", Prefix(513)), "too many cells for optimised"),
    (lambda: strategy_named("union(identity, direct)", Union(Identity(3), Matrix([[0, 0, 0]]))), "matrix is 0"),
    (lambda: strategy_named("kronecker(identity)", Kronecker(Prefix(3), Total(2))), "one strategy"),
    (lambda: strategy_named("direct", Ranges(4)), "column norms"),
    (lambda: strategy_named("spectral", Marginals((2, 3), 1)), "one column"),
]


@pytest.mark.parametrize(("make", "message"), [*WORKLOADS, *STRATEGIES])
def test_what_cannot_be_served_is_refused(make, message):
    """An invalid workload or strategy is refused, and the error says what is allowed."""
    with pytest.raises(DeclarationError, match=message):
        make()
