"""Tests that README and docs/ are correct: examples and commands run, and files and links exist."""

import os
import re
import runpy
import shlex
from pathlib import Path

import pytest

import sparsehist
from sparsehist.cli.entry import run

CHECKOUT = Path(__file__).parent.parent
README = CHECKOUT / "README.md"
PAGES = sorted((CHECKOUT / "docs").glob("*.md"))
OTHERS = [CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "CHANGELOG.md", CHECKOUT / "data" / "README.md"]


def _text(page):
    return page.read_text(encoding="utf-8")


def _blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", _text(page), flags=re.DOTALL | re.MULTILINE)


def _commands(page):
    lines = [line for block in _blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("sparsehist ")]


def _run_python(page, names):
    for number, block in enumerate(_blocks(page, "python")):
        exec(compile(block, f"{page.name}, Python block {number + 1}", "exec"), names)


@pytest.mark.parametrize(
    "page", [page for page in (README, *PAGES) if _blocks(page, "python") or _commands(page)], ids=str
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """The SQL, Python and commands on a page run without error after the Python examples of the README have run."""
    monkeypatch.chdir(tmp_path)
    names = {}
    _run_python(README, names)
    for script in _blocks(page, "sql")[:1]:
        Path("queries.sql").write_text(script, encoding="utf-8")
    if page != README:
        _run_python(page, names)
    for words in _commands(page):
        assert run(words) == 0, f"{page.name}, {words}: {capsys.readouterr().err}"
    if page == README:
        assert names["public"].frame["query"][0] == "weather" and len(sparsehist.read("shell.parquet")) > 0


def test_readme_is_short_and_links_every_page():
    """The README has at most 130 lines and links every page and notebook."""
    assert len(_text(README).splitlines()) <= 130
    linked = set(re.findall(r"\]\(([^)#]+)", _text(README)))
    notebooks = (CHECKOUT / "docs" / "notebooks").glob("*.ipynb")
    assert {str(page.relative_to(CHECKOUT)) for page in [*PAGES, *notebooks]} <= linked


def test_links_and_paths_exist():
    """Relative links on the pages lead to existing files and headings, and paths in code spans exist."""
    missing = []
    for page in (README, *PAGES, *OTHERS):
        text = re.sub(r"^```.*?^```$", "", _text(page), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in _anchors(_text(target))):
                missing.append(f"{page.name}: {link}")
        named = re.findall(r"`((?:sparsehist|benchmarks|data|docs|tests|sql)/[\w/.-]*)`", text)
        missing += [f"{page.name}: {path}" for path in named if not (CHECKOUT / path).exists()]
    assert missing == []


def _anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_names_and_make_targets_on_the_pages_exist():
    """The pages use only public `sh.` names and existing make targets, and do not contain the checkout's path."""
    text = "".join(_text(page) for page in (README, *PAGES, *OTHERS))
    assert set(re.findall(r"\bsh\.(\w+)", text)) <= set(sparsehist.__all__)
    named = re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", text, flags=re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", _text(CHECKOUT / "Makefile"), flags=re.MULTILINE)
    assert {"demo", "test", "bench"} <= {one or other for one, other in named} <= set(targets)
    assert os.fspath(CHECKOUT) not in text


def test_the_references_are_those_of_the_code():
    """The reference pages in docs/ equal what `python docs/references.py` would write now."""
    made = runpy.run_path(str(CHECKOUT / "docs" / "references.py"))["PAGES"]
    assert made
    for page, text in made.items():
        assert _text(page) == text(), "the code has changed: run `python docs/references.py`"


CITATION = re.compile(r"\[(ARNP|KHP poster|KHP|Interactive) ([^\]]+)\]")
PAPERS = CHECKOUT / "docs" / "papers.md"


def _cited(code):
    """Return the items of papers, such as theorems, that a file cites, as pairs (paper, item)."""
    groups = CITATION.findall(re.sub(r"\s+", " ", code))
    return {(paper, item.strip()) for paper, items in groups for item in items.split(",")}


def _items():
    """Return the rows of docs/papers.md; each row links an item of a paper to a function and a test."""
    paper, found = "", []
    for line in _text(PAPERS).splitlines():
        if line.startswith("## "):
            paper = line[3:]
        row = re.fullmatch(r"\| (.+?) \| .+ \| `(.+?)` (\w+) \| `(.+?)` (\w+) \|", line)
        if row:
            found.append((paper, *row.groups()))
    return found


def test_every_item_of_the_papers_is_cited_and_tested():
    """For each item in docs/papers.md, the file of the linked function cites the item, and the linked test exists."""
    items, wrong = _items(), []
    assert {paper for paper, *_ in items} == {"ARNP", "KHP", "KHP poster", "Interactive"}
    for paper, item, file, name, test_file, test in items:
        code = _text(CHECKOUT / file)
        if (paper, item) not in _cited(code):
            wrong.append(f"{file} does not cite [{paper} {item}]")
        if not re.search(rf"^ *(?:def|class) {name}\b", code, flags=re.MULTILINE):
            wrong.append(f"{file} has no {name}")
        if f"def {test}(" not in _text(CHECKOUT / test_file):
            wrong.append(f"{test_file} has no {test}")
    assert wrong == []
