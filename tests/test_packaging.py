"""The wheel, the source archive and an editable install contain all modules, SQL statements and data files."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
# Dict from installed path to source file, for all installed files. It is computed without setup.py.
SHIPPED = {
    str(path.relative_to(CHECKOUT)): path
    for path in (CHECKOUT / "sparsehist").rglob("*")
    if path.suffix in (".py", ".typed", ".css", ".jinja")
} | {
    f"sparsehist/{path.relative_to(CHECKOUT)}": path
    for path in [*(CHECKOUT / "sql").glob("*.sql"), *(CHECKOUT / "data").glob("*.*")]
    if path.suffix != ".py"
}
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
OFFLINE = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")

READ_WHAT_IS_SHIPPED = """
import hashlib, json, site, sys
site.addsitedir(sys.argv[1])
from importlib.resources import files
found = {}
for package in ("sparsehist.sql", "sparsehist.data", "sparsehist.templates"):
    for entry in files(package).iterdir():
        if entry.is_file() and not entry.name.endswith(".py"):
            name = package.replace(".", "/") + "/" + entry.name
            found[name] = hashlib.sha256(entry.read_bytes()).hexdigest()
import sparsehist
from importlib.metadata import entry_points, version
assert version("sparsehist") == sparsehist.__version__
(command,) = [entry for entry in entry_points(group="console_scripts") if entry.name == "sparsehist"]
assert command.value == "sparsehist.cli:main"
print(json.dumps({"home": sparsehist.__file__, "found": found}))
"""


def _run(*command, cwd):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _pip(*words, cwd):
    _run(sys.executable, "-m", "pip", words[0], "-q", *OFFLINE, *words[1:], cwd=cwd)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a source archive that is built from a copy of the checkout, and a wheel built from this archive."""
    place = tmp_path_factory.mktemp("built")
    copy = place / "checkout"
    for folder in ("sparsehist", "sql", "data"):
        shutil.copytree(CHECKOUT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(CHECKOUT / name, copy)
    _run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", place, cwd=copy)
    (sdist,) = place.glob("*.tar.gz")
    _pip("wheel", "--wheel-dir", place, sdist, cwd=place)
    (wheel,) = place.glob("*.whl")
    return {"editable": copy, "sdist": sdist, "wheel": wheel}


def test_archives_contain_every_file_and_no_other(built):
    """The source archive has every source file, and the wheel has only the shipped files and the licence."""
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*BUILT_FROM, *(str(path.relative_to(CHECKOUT)) for path in SHIPPED.values())} <= names
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = archive.namelist()
    modules = {name for name in names if ".dist-info/" not in name}
    assert modules == {*SHIPPED, "sparsehist/sql/__init__.py", "sparsehist/data/__init__.py"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_a_typed_user_is_checked_against_the_installed_package(built, tmp_path):
    """mypy --strict accepts correct use of the installed package, and reports wrong use and a missing py.typed."""
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    # Use the dependencies of this environment, but the sparsehist from the wheel.
    shared = {sysconfig.get_path("purelib"), *(place for place in sys.path if place.endswith("site-packages"))}
    (site / "dependencies.pth").write_text("\n".join(shared))
    _pip("install", "--no-compile", "--target", site, built["wheel"], cwd=tmp_path)
    user = tmp_path / "typed_user.py"
    right = (CHECKOUT / "tests" / "typed_user.py").read_text()
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    command = [str(word) for word in [*command, "--cache-dir", tmp_path / "cache", "--config-file=", user]]

    def checked(text):
        user.write_text(text)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300).stdout

    assert checked(right) == "Success: no issues found in 1 source file\n"
    wrong = right.replace("assert_type(release.level, Fraction)", "assert_type(release.level, str)")
    assert "[assert-type]" in checked(wrong)
    (site / "sparsehist" / "py.typed").unlink()
    assert "module is installed, but missing library stubs or py.typed marker" in checked(right)


@pytest.mark.parametrize("kind", ["wheel", pytest.param("sdist", marks=pytest.mark.slow), "editable"])
def test_an_install_finds_its_statements_and_data(built, tmp_path, kind):
    """After an install of any kind, importlib.resources can read each shipped SQL, data and template file."""
    options = ["--no-compile", "--target", tmp_path, *["--editable"] * (kind == "editable")]
    _pip("install", *options, built[kind], cwd=tmp_path)
    answer = json.loads(_run(sys.executable, "-I", "-S", "-c", READ_WHAT_IS_SHIPPED, tmp_path, cwd=tmp_path))
    assert Path(answer["home"]).is_relative_to(built[kind] if kind == "editable" else tmp_path)
    resources = ("sparsehist/sql/", "sparsehist/data/", "sparsehist/templates/")
    assert answer["found"] == {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in SHIPPED.items()
        if name.startswith(resources) and path.suffix != ".py"
    }
