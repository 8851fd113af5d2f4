"""Wheel, sdist and editable install: each holds the modules, the statements and the data."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest

CHECKOUT = Path(__file__).parent.parent
# What is installed, by name in the package and place in the checkout; found here apart from setup.py.
SHIPPED = {
    **{
        str(path.relative_to(CHECKOUT)): path
        for path in [*(CHECKOUT / "sparsehist").rglob("*.py"), CHECKOUT / "sparsehist" / "py.typed"]
    },
    **{
        f"sparsehist/templates/{path.name}": path
        for path in (CHECKOUT / "sparsehist" / "templates").glob("*.*")
        if path.suffix != ".py"
    },
    **{f"sparsehist/sql/{path.name}": path for path in (CHECKOUT / "sql").glob("*.sql")},
    **{f"sparsehist/data/{path.name}": path for path in (CHECKOUT / "data").glob("*.*") if path.suffix != ".py"},
}
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")

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


def _pip_install(target, *what, cwd):
    offline = (
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--no-compile",
    )
    _run(sys.executable, "-m", "pip", "install", "-q", *offline, "--target", target, *what, cwd=cwd)


def _assert_statements_and_data_are_readable(installed, home):
    """Read all through importlib.resources, in a process that sees this install and no other."""
    answer = json.loads(_run(sys.executable, "-I", "-S", "-c", READ_WHAT_IS_SHIPPED, installed, cwd=installed))
    assert Path(answer["home"]).is_relative_to(home)
    wanted = {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in SHIPPED.items()
        if name.startswith(("sparsehist/sql/", "sparsehist/data/", "sparsehist/templates/")) and path.suffix != ".py"
    }
    assert answer["found"] == wanted


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The part of the checkout that is built from, so that building leaves nothing behind in it."""
    place = tmp_path_factory.mktemp("checkout")
    for name in BUILT_FROM:
        shutil.copy(CHECKOUT / name, place)
    for folder in ("sparsehist", "sql", "data"):
        shutil.copytree(CHECKOUT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.fixture(scope="module")
def sdist(copy, tmp_path_factory):
    """The source archive."""
    place = tmp_path_factory.mktemp("sdist")
    _run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", place, cwd=copy)
    (archive,) = place.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The wheel, built from the source archive: what that lacks, the wheel lacks too."""
    place = tmp_path_factory.mktemp("wheel")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "wheel", "-q", *offline, "--wheel-dir", place, sdist, cwd=place)
    (archive,) = place.glob("*.whl")
    return archive


def test_the_sdist_holds_what_is_built_from(sdist):
    """The source archive holds every module, statement, table, the licence and the change log."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {str(path.relative_to(CHECKOUT)) for path in SHIPPED.values()} <= names
    assert set(BUILT_FROM) <= names


def test_the_wheel_holds_what_is_shipped_and_nothing_else(wheel):
    """The wheel holds every module, statement and table, the mark of typed packages, and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert names == {*SHIPPED, "sparsehist/sql/__init__.py", "sparsehist/data/__init__.py"}
    assert licences


def test_the_metadata_name_every_python_that_is_supported(wheel):
    """3.11 to 3.14, as the Makefile tries them."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        told = archive.read(name).decode()
    assert "Requires-Python: >=3.11" in told
    named = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", told, flags=re.MULTILINE)
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    assert f"PYTHONS := {' '.join(named)}" in (CHECKOUT / "Makefile").read_text()


def test_a_typed_user_is_checked_against_the_installed_package(wheel, tmp_path):
    """By mypy in strict mode, as a package with types; without its mark, or used wrongly, there are errors."""
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    # What it depends on is taken from here, but for the package itself.
    (site / "dependencies.pth").write_text("\n".join({sysconfig.get_path("purelib"), *_shared()}))
    _pip_install(site, wheel, cwd=tmp_path)
    user = tmp_path / "typed_user.py"
    right = (CHECKOUT / "tests" / "typed_user.py").read_text()
    user.write_text(right)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    command = [str(word) for word in [*command, "--cache-dir", tmp_path / "cache", "--config-file=", user]]

    def checked():
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300).stdout

    assert checked() == "Success: no issues found in 1 source file\n"
    user.write_text(right.replace("assert_type(release.level, Fraction)", "assert_type(release.level, str)"))
    assert "[assert-type]" in checked()
    user.write_text(right)
    (site / "sparsehist" / "py.typed").unlink()
    assert "module is installed, but missing library stubs or py.typed marker" in checked()


def _shared():
    """Places where libraries are installed besides."""
    return [place for place in sys.path if place.endswith("site-packages")]


def test_an_installed_wheel_finds_its_statements_and_data(wheel, tmp_path):
    """From an installed wheel the statements and the data are read byte for byte."""
    _pip_install(tmp_path, wheel, cwd=tmp_path)
    _assert_statements_and_data_are_readable(tmp_path, home=tmp_path)


def test_an_installed_sdist_finds_its_statements_and_data(sdist, tmp_path):
    """From an installed source archive the statements and the data are read byte for byte."""
    _pip_install(tmp_path, sdist, cwd=tmp_path)
    _assert_statements_and_data_are_readable(tmp_path, home=tmp_path)


def test_an_editable_install_finds_its_statements_and_data(copy, tmp_path):
    """From an editable install the statements and the data are read in place, new ones at once."""
    _pip_install(tmp_path, "--editable", copy, cwd=tmp_path)
    _assert_statements_and_data_are_readable(tmp_path, home=copy)
    added = copy / "sql" / "added_later.sql"
    added.write_text("select 1")
    read = "import site, sys; site.addsitedir(sys.argv[1]); from importlib.resources import files; "
    read += "print(files('sparsehist.sql').joinpath('added_later.sql').read_text())"
    try:
        assert _run(sys.executable, "-I", "-S", "-c", read, tmp_path, cwd=tmp_path).strip() == "select 1"
    finally:
        added.unlink()


def test_source_in_a_checkout_finds_its_statements_and_data():
    """Where Python runs in a checkout that is not installed, or installed as a copy, the folders beside are read."""
    read = "import sys; sys.path.insert(0, sys.argv[1]); from sparsehist.store.statements import shipped, statement; "
    read += "print('erased' in statement('read_files') and (shipped('data') / 'msweb_1998.csv').is_file())"
    assert _run(sys.executable, "-I", "-c", read, CHECKOUT, cwd=CHECKOUT).strip() == "True"


def test_the_shipped_log_is_what_its_page_says():
    """Rows, visitors, areas and the absence of repeated pairs are as data/README.md has them."""
    log = pl.read_csv(CHECKOUT / "data" / "msweb_1998.csv")
    catalogue = pl.read_csv(CHECKOUT / "data" / "msweb_catalogue.csv")
    page = (CHECKOUT / "data" / "README.md").read_text()
    for stated in (log.height, log["user_id"].n_unique(), catalogue.height):
        assert f"{stated:,}" in page
    assert log.columns == ["user_id", "url"]
    assert not log.is_duplicated().any()
    assert log["url"].is_in(catalogue["url"].implode()).all()
    assert catalogue["url"].is_unique().all()
    assert "10.24432/C5VS3Q" in page
    assert "Attribution 4.0" in page
