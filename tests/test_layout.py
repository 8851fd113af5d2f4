"""The layering of the package: a core that only computes, imports that run one way, a public face that loads late."""

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
# From below upwards: a folder of the shell imports those before it, and the core.
SHELL = tuple("store domain declaration guarantee counting ledger release report sqlfront series cli".split())
# What computes in the standard library. Nothing that reads, writes, logs, waits or draws.
PURE_STANDARD_LIBRARY = set(
    "__future__ abc ast bisect collections dataclasses decimal enum fractions functools hashlib heapq itertools json "
    "math numbers operator types typing".split()
)
# The one object of the core that owns a state: it makes generators, and lets one thread of one process draw.
OWNS_A_STATE = {
    "sparsehist.dense.multiple_release": {"os", "threading", "sparsehist.entropy", "sparsehist.entropy.generator"}
}


def _modules():
    """Source of every module of the package, by its dotted name."""
    names = {path: ".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path.read_text() for path, name in names.items()}


def _imports(source, *, types=True):
    """Modules and names that a source text imports, in functions too; without `types`, not for type checkers only."""
    tree = ast.parse(source)
    skipped = {
        inner
        for node in ast.walk(tree)
        if not types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in node.body
        for inner in ast.walk(child)
    }
    found = set()
    for node in ast.walk(tree):
        if node not in skipped and isinstance(node, ast.Import | ast.ImportFrom):
            above = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            found |= {f"{above}{alias.name}" for alias in node.names}
    return found


def _is_core(imported):
    top, *rest = imported.split(".")
    if top == "sparsehist":
        return bool(rest) and rest[0] in (*CORE, "errors", "text_form", "typing")
    if top == "scipy":
        return rest[:1] != ["stats"]
    return top in {"numpy", "mpmath"} or top in PURE_STANDARD_LIBRARY


def test_the_core_computes_and_does_nothing_else():
    """Core modules import numpy, scipy, the core, its types and errors, and what computes in the standard library."""
    for name, source in _modules().items():
        if name.split(".")[1:2] and name.split(".")[1] in CORE:
            assert {one for one in _imports(source) if not _is_core(one)} <= OWNS_A_STATE.get(name, set()), name


@pytest.mark.parametrize(
    "statement",
    [
        "import logging",
        "from pathlib import Path",
        "import polars as pl",
        "from scipy import stats",
        "import sparsehist",
        "from sparsehist.entropy import generator",
        "from ..store import paths",
        "def f():\n    import duckdb",
    ],
)
def test_a_forbidden_import_is_noticed(statement):
    """The check above sees forbidden imports in each form they can be written in."""
    assert not any(map(_is_core, _imports(statement)))


def test_slow_libraries_and_generators_are_imported_in_one_place_or_none():
    """scipy.stats takes half a second; numpy's types and generators load numpy for commands that compute nothing."""
    for name, source in _modules().items():
        imported = _imports(source)
        assert not any(one.startswith("scipy.stats") for one in imported), name
        if name != "sparsehist.typing":
            assert not any(one.startswith(("numpy.typing", "numpy.random")) for one in imported), name
        if name != "sparsehist.entropy":
            assert not {"random", "randomgen"} & {one.split(".")[0] for one in imported}, name
            assert "np.random." not in source.replace("np.random.Generator", ""), name


def _import_graph(sources, homes):
    """For each module those it imports; `homes` says where the public names of the package are made."""
    graph = {}
    for module, source in sources.items():
        names = {homes.get(name, name) for name in _imports(source, types=False)}
        graph[module] = {name if name in sources else name.rpartition(".")[0] for name in names} & set(sources)
    return graph


def _circles(graph):
    """Modules that import themselves, through others."""
    reached = {}
    for start in graph:
        seen, left = set(), [start]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        reached[start] = seen
    return {start for start in graph if start in reached[start]}


def test_imports_run_one_way():
    """No module imports one that imports it, lazily or not, and within the shell arrows run downwards."""
    homes = {f"sparsehist.{name}": f"{home}.{name}" for name, home in sparsehist._HOME.items()}
    graph = _import_graph(_modules(), homes)
    assert _circles(graph) == set()
    height = {name: i for i, name in enumerate(SHELL)}
    folder = {module: [*module.split("."), ""][1] for module in graph}
    arrows = {(folder[one], folder[other]) for one, imported in graph.items() for other in imported}
    assert {(one, other) for one, other in arrows if height.get(one, 99) < height.get(other, -1)} == set()
    assert {(one, other) for one, other in arrows if one in CORE and other in SHELL} == set()


def test_a_circle_is_noticed():
    """The check above sees circles through functions and public names, not those of type checkers."""
    lazy = {"a": "", "a.b": "def f():\n    from a.c import x", "a.c": "from a import d", "a.d": "import a.b"}
    assert _circles(_import_graph(lazy, {})) == {"a.b", "a.c", "a.d"}
    assert _circles(_import_graph({"b": "if TYPE_CHECKING:\n    import c", "c": "import b"}, {})) == set()
    public = {"top": "", "low": "def f():\n    from top import g", "high": "import low"}
    assert _circles(_import_graph(public, {"top.g": "high.g"})) == {"low", "high"}


def test_importing_the_package_loads_no_library():
    """`import sparsehist` loads neither engines nor numpy: they come with the first name that is used."""
    program = "import sys; before = set(sys.modules); import sparsehist; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) == {"sparsehist"}


def test_a_name_that_is_not_public_is_refused():
    """As any module would refuse it."""
    with pytest.raises(AttributeError, match="no attribute 'Catalog'"):
        sparsehist.Catalog  # noqa: B018 - the access is the test
