"""Invalid workloads, invalid strategies and pairs that do not fit are refused before anything is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Cells,
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
    (lambda: Matrix([[1, 2], [3]]), "rows of one length"),
    (lambda: Matrix("3; 0:1 3:1"), "cell:weight"),
    (lambda: Matrix(np.ones((1001, 1000))), "at most 1000000 entries"),
    (lambda: Prefix(0), "number of cells"),
    (lambda: Prefix(4).apply(np.zeros(5)), "does not fit"),
    (lambda: Prefix().shape, "takes its size"),
    (lambda: Prefix(8).for_domain((7,)), "asks about columns"),
    (lambda: Prefix().for_domain((10**69,)), "declare a series over integers"),
    (lambda: Ranges(4, []), "at least one query"),
    (lambda: Ranges([(0, 7)]).for_domain((7,)), "not a range"),
    (lambda: Ranges(10**6).apply(np.zeros(10**6)), "not listed"),
    (Union, "at least one query"),
    (lambda: Union(Prefix(4), Prefix(5)), "one domain"),
    (lambda: Kronecker(Prefix(3), 4), "made of workloads"),
    (lambda: Kronecker(Prefix(3), Total(2)).for_domain((3, 3)), "not of these"),
    (Marginals, "k or up_to"),
    (lambda: Marginals(2), "are a list"),
    (lambda: Marginals((2, 3), 3), "no marginal of 3"),
    (lambda: Marginals((2, 3), [[0, 1], [1, 0]]), "twice"),
    (lambda: Marginals((2, 3), [0, 1]), "each marginal is a list"),
    (lambda: Marginals((2, 3), [[0.5]]), "name or a number"),
    (lambda: Marginals([["a"]]).for_domain((2,), {"b": None}), r"no column 'a'; the domain has columns \['b'\]"),
    (lambda: Marginals((2, 3), 1).for_domain((2, 4)), "sizes"),
    (lambda: Marginals((2,) * 30, 15), "too many"),
    (lambda: Marginals(k=2).columns, "from a series"),
    (lambda: Marginals((2, 3), 1).answers(Cells((6,), (np.array([0]),), np.array([1]))), "sizes"),
    (lambda: Workload.parse("marginals(k=)"), "cannot read"),
    (lambda: Workload.parse("suffix(4)"), "no workload 'suffix'"),
    (lambda: Workload.parse("prefix(__import__('os'))"), "no workload"),
]
STRATEGIES = [
    *((lambda keys=keys: choose(Matrix([[0, 0, 0]]), keys), r"no strategy answers|asks nothing") for keys in (1, 3)),
    *(
        (lambda text=text: strategy_named(text, Prefix(8)), message)
        for text, message in (
            ("spectra", "no strategy 'spectra'"),
            ("spectral(blend=", "cannot read"),
            ("spectral(4)", "parameters are named"),
            ("spectral(colour=4)", "colour"),
            ("spectral(blend=[2])", "is not a value"),
            ("spectral(blend=-1)", "blend"),
            ("optimised(share=101)", "percentage"),
            ("kronecker(identity)", "product of workloads"),
            ("residual", "marginals"),
            (7, "written as text"),
        )
    ),
    (lambda: strategy_named("optimised", Prefix(513)), "513 cells"),
    (lambda: strategy_named("optimised", Matrix([[0, 0]])), "asks nothing"),
    (lambda: strategy_named("union(identity, direct)", Union(Identity(3), Matrix([[0, 0, 0]]))), "asks nothing"),
    (lambda: strategy_named("kronecker(identity)", Kronecker(Prefix(3), Total(2))), "one strategy"),
    (lambda: strategy_named("direct", Ranges(4)), "not known"),
    (lambda: strategy_named("spectral", Marginals((2, 3), 1)), "one column"),
]


@pytest.mark.parametrize(("make", "message"), [*WORKLOADS, *STRATEGIES])
def test_what_cannot_be_served_is_refused(make, message):
    """The refusal names a valid value."""
    with pytest.raises(DeclarationError, match=message):
        make()
