"""Tests that the core is pure, imports run in one direction, and the public interface is loaded lazily."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import sparsehist

CHECKOUT = Path(__file__).parent.parent
CORE = ("noise", "dense", "histogram", "workload", "privacy", "local", "audiences", "interactive")
# The folders outside the core, in layers from bottom to top: each imports only the core and the folders before it.
SHELL = tuple("store domain declaration guarantee counting ledger release report sqlfront series cli".split())
# These modules of the standard library do no input, output, logging or waiting, and draw no random numbers.
PURE_STANDARD_LIBRARY = set(
    "__future__ abc ast bisect collections dataclasses decimal enum fractions functools hashlib heapq itertools json "
    "math numbers operator types typing".split()
)
# In the core, only `MultipleRelease` has state: it creates a generator, holds a lock and detects forked processes.
OWNS_A_STATE = {
    "sparsehist.dense.multiple_release": {"os", "threading", "sparsehist.entropy", "sparsehist.entropy.generator"}
}


def _modules():
    """Return the source code of every module of the package, by the module's dotted name."""
    paths = (CHECKOUT / "sparsehist").rglob("*.py")
    names = {path: ".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path.read_text() for path, name in names.items()}


def _imports(source, *, types=True):
    """Return all modules and names that source code imports; `types=False` skips those under `if TYPE_CHECKING`."""
    tree = ast.parse(source)
    typing_only = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = set() if types else {inner for node in typing_only for inner in ast.walk(node)}
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


def test_the_core_only_computes():
    """Modules of the core import only numpy, scipy, mpmath, each other and standard modules without side effects."""
    for name, source in _modules().items():
        if name.split(".")[1:2] and name.split(".")[1] in CORE:
            assert {one for one in _imports(source) if not _is_core(one)} <= OWNS_A_STATE.get(name, set()), name


@pytest.mark.parametrize(
    "statement",
    [
        "import sparsehist",
        "from sparsehist.entropy import generator",
        "def f():\n    import duckdb",
    ],
)
def test_a_forbidden_import_is_noticed(statement):
    """Negative control: a forbidden import in the core is detected, in whatever form it is written."""
    assert not any(map(_is_core, _imports(statement)))


def test_slow_libraries_and_generators_are_imported_in_one_place():
    """No module imports scipy.stats, which is slow to load, and only `entropy` imports random generators."""
    for name, source in _modules().items():
        imported = _imports(source)
        assert not any(one.startswith("scipy.stats") for one in imported), name
        if name != "sparsehist.typing":
            assert not any(one.startswith(("numpy.typing", "numpy.random")) for one in imported), name
        if name != "sparsehist.entropy":
            assert not {"random", "randomgen"} & {one.split(".")[0] for one in imported}, name
            assert "np.random." not in source.replace("np.random.Generator", ""), name


def _import_graph(sources, homes):
    """Return the modules that each module imports; `homes` maps public names to the modules that define them."""
    graph = {}
    for module, source in sources.items():
        names = {homes.get(name, name) for name in _imports(source, types=False)}
        graph[module] = {name if name in sources else name.rpartition(".")[0] for name in names} & set(sources)
    return graph


def test_imports_run_one_way():
    """No imports are circular, not even lazy imports, and a folder imports only the core and lower layers."""
    homes = {f"sparsehist.{name}": f"{home}.{name}" for name, home in sparsehist._HOME.items()}
    graph = _import_graph(_modules(), homes)
    graphlib.TopologicalSorter(graph).prepare()
    height = {name: i for i, name in enumerate(SHELL)}
    folder = {module: [*module.split("."), ""][1] for module in graph}
    arrows = {(folder[one], folder[other]) for one, imported in graph.items() for other in imported}
    assert {(one, other) for one, other in arrows if height.get(one, 99) < height.get(other, -1)} == set()
    assert {(one, other) for one, other in arrows if one in CORE and other in SHELL} == set()


def test_a_circle_is_noticed():
    """Negative control: circular imports are detected, unless an import is only for type checking."""
    lazy = {"a.b": "def f():\n    from a.c import x", "a.c": "from a import d", "a.d": "import a.b"}
    public = {"top": "", "low": "def f():\n    from top import g", "high": "import low"}
    for sources, homes in ((lazy, {}), (public, {"top.g": "high.g"})):
        with pytest.raises(graphlib.CycleError):
            graphlib.TopologicalSorter(_import_graph(sources, homes)).prepare()
    typed = {"b": "if TYPE_CHECKING:\n    import c", "c": "import b"}
    graphlib.TopologicalSorter(_import_graph(typed, {})).prepare()


def test_importing_the_package_loads_no_library():
    """`import sparsehist` loads no third-party library."""
    program = "import sys; before = set(sys.modules); import sparsehist; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) == {"sparsehist"}
