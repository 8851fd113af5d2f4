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
    *("heapq", "itertools", "json", "math", "numbers", "operator", "types", "typing"),
}
# From below upwards: a folder of the shell imports those before it, and the core.
SHELL = (
    *(
        "store",
        "domain",
        "declaration",
        "guarantee",
        "counting",
        "ledger",
        "release",
        "report",
        "sqlfront",
        "series",
    ),
    "cli",
)
# These find modules by name; no other module may.
BY_NAME = {"__import__", "import_module", "reload", "runpy", "pkgutil", "exec", "eval", "modules"}


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


# The one object of the core that owns a state: it makes generators, and lets one thread of one process draw.
OWNS_A_STATE = {
    "sparsehist/dense/multiple_release.py": {"os", "threading", "sparsehist.entropy", "sparsehist.entropy.generator"}
}


def _is_core(imported):
    top, *rest = imported.split(".")
    if top == "sparsehist":
        return bool(rest) and rest[0] in (*CORE, "errors", "text_form", "typing")
    if top == "scipy":
        return rest[:1] != ["stats"]
    return top in {"numpy", "mpmath"} or top in PURE_STANDARD_LIBRARY


def _offending(paths, offence):
    """What is wrong in each module that has something wrong."""
    found = {_name(path): offence(path) for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_the_core_computes_and_does_nothing_else():
    """Core modules import numpy, scipy, the core, its types and errors, and what computes in the standard library."""
    present = [folder for folder in CORE if (PACKAGE / folder).is_dir()]
    assert not _offending(
        _modules(*present),
        lambda path: (
            {name for name in _imports(path.read_text(), path) if not _is_core(name)}
            - OWNS_A_STATE.get(_name(path), set())
        ),
    )


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
        "from sparsehist.series.store import Store",
        "from ..store import paths",
        "def f():\n    import duckdb",
    ],
)
def test_what_the_core_may_not_import_is_seen(statement):
    """The check above sees forbidden imports in each form they can be written in."""
    imported = _imports(statement, PACKAGE / "noise" / "gaussian.py")
    assert imported
    assert not any(map(_is_core, imported))


def test_the_slow_part_of_scipy_is_not_imported():
    """scipy.stats costs more than half a second to import, so no module touches it."""
    assert not _offending(
        _modules(),
        lambda path: [name for name in _imports(path.read_text(), path) if name.startswith("scipy.stats")],
    )


def _foreign_generators(path):
    names = _imports(path.read_text(), path)
    attributes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
    taken = {node.attr for node in attributes if ast.unparse(node.value) in {"np.random", "numpy.random"}}
    taken |= {name.split(".")[2] for name in names if name.startswith("numpy.random.")}
    return (taken - {"Generator"}) | ({"random", "randomgen"} & {name.split(".")[0] for name in names})


def test_generators_are_made_in_one_place():
    """Outside sparsehist.entropy numpy.random lends the name of its Generator and nothing else."""
    assert not _offending([path for path in _modules() if path.name != "entropy.py"], _foreign_generators)


class _Imported(ast.NodeVisitor):
    """What a module imports, within functions too; what only a type checker sees is left out."""

    def __init__(self):
        self.names = set()

    def visit_If(self, node):
        for child in node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else ast.iter_child_nodes(node):
            self.visit(child)

    def visit_Import(self, node):
        self.names |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node):
        self.names |= {f"{node.module}.{alias.name}" for alias in node.names}


def _import_graph(sources, homes=None):
    """For each module those it imports: of `from a import b` that is a.b where it is a module, else a.

    Args:
        sources: The text of each module.
        homes: Where public names are made which the top of the package imports when they are first used.
    """
    graph = {}
    for module, source in sources.items():
        seen = _Imported()
        seen.visit(ast.parse(source))
        names = {(homes or {}).get(name, name) for name in seen.names}
        graph[module] = {name if name in sources else name.rpartition(".")[0] for name in names} & set(sources)
    return graph


def _circles(graph):
    """Sets of modules that import each other, directly or through others."""
    reached = {}
    for start in graph:
        seen, left = set(), [start]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        reached[start] = seen
    return {
        frozenset(other for other in reached[start] if start in reached[other])
        for start in graph
        if start in reached[start]
    }


def _names_made_elsewhere():
    """Public names of the package, with the module each is made in."""
    return {f"sparsehist.{name}": f"{home}.{name}" for name, home in sparsehist._HOME.items()}


def test_imports_run_one_way():
    """No module imports one that imports it, lazily or not, and within the shell arrows run downwards."""
    parts = {path: path.relative_to(CHECKOUT).with_suffix("").parts for path in _modules()}
    named = {".".join(part[:-1] if part[-1] == "__init__" else part): path for path, part in parts.items()}
    graph = _import_graph({module: path.read_text() for module, path in named.items()}, _names_made_elsewhere())
    assert _circles(graph) == set()
    folder = {module: [*module.split("."), ""][1] for module in graph}
    height = {name: i for i, name in enumerate(SHELL)}
    arrows = {(folder[one], folder[other]) for one, imported in graph.items() for other in imported}
    assert {(one, other) for one, other in arrows if height.get(one, 99) < height.get(other, -1)} == set()
    assert {(one, other) for one, other in arrows if one in CORE and other in SHELL} == set()


def _found_by_name(path):
    """What a module uses to find others by a name that is made at run time, which no graph can show."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"}
    imported = {part for name in _imports(path.read_text(), path) for part in name.split(".")}
    return (used | imported) & BY_NAME


def test_only_the_top_of_the_package_imports_by_name():
    """Lazy imports are statements, which the graph of imports holds; by name imports the public face alone."""
    top = {"import_module"}
    assert _offending(_modules(), _found_by_name) == {"sparsehist/__init__.py": top}


def _read_by_key(path):
    """Metadata of a release read by a key: its record is asked instead."""
    reads = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Subscript))
    of = [node for node in reads if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)]
    return [ast.unparse(node) for node in of if ast.unparse(node.value).endswith("metadata")]


def test_metadata_is_read_from_its_record():
    """No key of the metadata of a release is written twice: outside the module of the records they are fields."""
    shell = [folder for folder in SHELL if (PACKAGE / folder).is_dir()]
    elsewhere = [path for path in _modules(*shell) if path.stem not in ("metadata", "releases", "multiple_release")]
    assert not _offending(elsewhere, _read_by_key)


def test_a_circle_is_seen():
    """The check above sees circles through functions, and not those of type checkers."""
    lazy = {"a": "", "a.b": "def f():\n    from a.c import x", "a.c": "from a import d", "a.d": "import a.b"}
    assert _circles(_import_graph(lazy)) == {frozenset({"a.b", "a.c", "a.d"})}
    typed = {"a.b": "if TYPE_CHECKING:\n    import a.c", "a.c": "import a.b"}
    assert _circles(_import_graph(typed)) == set()
    public = {"top": "", "low": "def f():\n    from top import g", "high": "import low"}
    assert _circles(_import_graph(public, {"top.g": "high.g"})) == {frozenset({"low", "high"})}


def test_every_folder_of_modules_is_a_package():
    """A folder without __init__.py would be left out of the wheel."""
    assert [_name(path.parent) for path in _modules() if not (path.parent / "__init__.py").exists()] == []


def test_public_names_are_listed():
    """`dir` shows the public names and nothing else."""
    assert dir(sparsehist) == sorted(sparsehist.__all__)


def test_every_public_name_can_be_imported():
    """Every promised name is there, and is the same object each time."""
    for name in sparsehist.__all__:
        assert getattr(sparsehist, name) is getattr(sparsehist, name), name


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


def test_types_of_arrays_come_from_one_module():
    """A module that imports numpy.typing or numpy.random loads numpy, also for commands that compute nothing."""
    found = _offending(
        _modules(),
        lambda path: [n for n in _imports(path.read_text(), path) if n.startswith(("numpy.typing", "numpy.random"))],
    )
    assert list(found) == ["sparsehist/typing.py"]
