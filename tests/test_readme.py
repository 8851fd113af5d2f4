"""The README is true: its Python runs, its commands run, its files and links exist."""

import os
import re
import shlex
from pathlib import Path

import pytest

import sparsehist
from sparsehist.cli.running import run

CHECKOUT = Path(__file__).parent.parent
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def _commands():
    lines = [line for block in _blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("sparsehist ")]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run the first blocks in an empty directory, all in one namespace."""
    monkeypatch.chdir(tmp_path)
    Path("queries.sql").write_text(_blocks("sql")[0], encoding="utf-8")

    def blocks(n=None):
        names = {}
        for number, block in enumerate(_blocks("python")[:n]):
            exec(compile(block, f"README.md, Python block {number + 1}", "exec"), names)
        return names

    return blocks


def test_the_python_of_the_readme_runs(ran):
    """All blocks, one after the other, assertions and all."""
    names = ran()
    assert names["public"].frame["query"].to_list()[0] == "weather"
    assert len(names["internal"]) > len(names["public"])


def test_the_commands_of_the_readme_run(ran, capsys):
    """Every sparsehist line succeeds after the quick start, in the same directory."""
    ran()
    commands = _commands()
    assert len(commands) >= 8
    for words in commands:
        assert run(words) == 0, f"{words}: {capsys.readouterr().err}"
    assert len(sparsehist.read("shell.parquet")) > 0


def test_what_the_readme_points_at_exists():
    """Paths in code spans and links are in the checkout."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    named = re.findall(r"`((?:sparsehist|benchmarks|data|docs)/[\w/.-]*)`", README)
    named += [link for link in links if not link.startswith("#")]
    assert len(named) > 5
    assert [path for path in named if not (CHECKOUT / path).exists()] == []


def test_every_section_is_in_the_contents():
    """Links within the page lead to its headings, and no section but the last is left out."""
    linked = set(re.findall(r"\]\(#([^)]+)\)", README))
    text = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    headings = [
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    ]
    assert linked == set(headings) - {"references"}


def test_the_make_targets_of_the_readme_exist():
    """`make demo` and the rest are in the Makefile."""
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    targets = set(
        re.findall(r"\bmake ([a-z-]+)", "".join(_blocks("sh")) + "".join(re.findall(r"`(make [^`]+)`", README)))
    )
    assert targets >= {"demo", "test", "bench"}
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_the_public_names_of_the_readme_exist():
    """Every sh.name is public."""
    assert set(re.findall(r"\bsh\.(\w+)", README)) <= set(sparsehist.__all__)


def test_the_readme_holds_no_machine_path():
    """Nothing in it is of one machine."""
    assert os.fspath(CHECKOUT) not in README
