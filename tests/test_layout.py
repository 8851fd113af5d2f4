"""What belongs where: the public face, the core that does no I/O, the statements in files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sparsehist

CHECKOUT = Path(__file__).parent.parent
PACKAGE = CHECKOUT / "sparsehist"
CORE = ("noise", "dense", "histogram", "workload", "privacy", "local", "audiences", "interactive")
# Of the standard library: what computes. Nothing that reads, writes, logs, waits or draws.
PURE_STANDARD_LIBRARY = {
    *(
        "__future__",
        "abc",
        "ast",
        "bisect",
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "hashlib",
    ),
    *("heapq", "itertools", "math", "numbers", "operator", "types", "typing"),
}
NO_LONGER_THAN = 800


def _modules(*folders):
    roots = [PACKAGE / folder for folder in folders] or [PACKAGE]
    return sorted(path for root in roots for path in root.rglob("*.py"))


def _name(path):
    return str(path.relative_to(CHECKOUT))


def _imports(source, path=PACKAGE / "module.py"):
    """Find every module a source text imports, wherever it does so, and the names it takes from them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(CHECKOUT).parent.parts
            base = [*above[: len(above) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def _is_core(imported):
    top, *rest = imported.split(".")
    if top == "sparsehist":
        return bool(rest) and rest[0] in (*CORE, "errors")
    if top == "scipy":
        return rest[:1] != ["stats"]
    return top == "numpy" or top in PURE_STANDARD_LIBRARY


@pytest.mark.parametrize("path", _modules(*CORE), ids=_name)
def test_the_core_computes_and_does_nothing_else(path):
    """Core modules import numpy, scipy, what computes in the standard library, the core and the errors."""
    assert {name for name in _imports(path.read_text(), path) if not _is_core(name)} == set()


@pytest.mark.parametrize(
    "statement",
    [
        "import os",
        "import logging",
        "import random",
        "from pathlib import Path",
        "import polars as pl",
        "import scipy.stats",
        "from scipy import stats",
        "from scipy.stats import norm",
        "import sparsehist",
        "from sparsehist import store",
        "from sparsehist.entropy import generator",
        "from sparsehist.series.store_handle import Store",
        "from ..store import paths",
        "def f():\n    import duckdb",
    ],
)
def test_what_the_core_may_not_import_is_seen(statement):
    """The check above sees forbidden imports in each form they can be written in."""
    imported = _imports(statement, PACKAGE / "noise" / "gaussian.py")
    assert imported
    assert not any(map(_is_core, imported))


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_the_slow_part_of_scipy_is_not_imported(path):
    """scipy.stats costs more than half a second to import, so no module touches it."""
    assert not [name for name in _imports(path.read_text(), path) if name.startswith("scipy.stats")]


@pytest.mark.parametrize("path", [p for p in _modules() if p.name != "entropy.py"], ids=_name)
def test_generators_are_made_in_one_place(path):
    """Outside sparsehist.entropy numpy.random lends the name of its Generator and nothing else."""
    tree = ast.parse(path.read_text())
    taken = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}
    }
    taken |= {name.split(".")[2] for name in _imports(path.read_text(), path) if name.startswith("numpy.random.")}
    assert taken <= {"Generator"}
    assert not {"random", "randomgen"} & {name.split(".")[0] for name in _imports(path.read_text(), path)}


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_a_module_is_read_in_one_sitting(path):
    """No module is longer than can be read at once."""
    assert len(path.read_text().splitlines()) <= NO_LONGER_THAN


def test_every_folder_of_modules_is_a_package():
    """A folder without __init__.py would be left out of the wheel."""
    assert [_name(path.parent) for path in _modules() if not (path.parent / "__init__.py").exists()] == []


def test_the_public_names_are_these():
    """The public face changes by decision: this list and `__all__` change together."""
    assert sorted(sparsehist.__all__) == [
        *("Catalogue", "Counts", "Dates", "Domain", "EpsilonDelta", "Hash64", "Identity", "Integers", "Kronecker"),
        *("Marginals", "MultipleRelease", "Open"),
        *("Plan", "Prefix", "Product", "Query", "Ranges", "Release", "Series", "Store", "Strings", "Total", "Union"),
        *("Workload", "__version__", "adopt", "check_log", "create", "dense"),
        *("errors", "histogram", "noise", "open", "plan", "privacy", "read", "sql", "workload"),
    ]
    assert dir(sparsehist) == sorted(sparsehist.__all__)


@pytest.mark.parametrize("name", sparsehist.__all__)
def test_every_public_name_can_be_imported(name):
    """Every promised name is there, and is the same object each time."""
    assert getattr(sparsehist, name) is getattr(sparsehist, name)


def test_a_misspelt_name_is_an_attribute_error():
    """What is not public is refused as any module would refuse it."""
    with pytest.raises(AttributeError, match="no attribute 'Catalog'"):
        sparsehist.Catalog  # noqa: B018 - the access is the test
    with pytest.raises(ImportError):
        from sparsehist import Catalog  # noqa: F401


def test_importing_the_package_loads_no_library():
    """`import sparsehist` loads neither engines nor numpy: they come with the first name that is used."""
    program = "import sys; before = set(sys.modules); import sparsehist; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) == {"sparsehist"}
