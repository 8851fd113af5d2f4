"""README and the pages under docs/ are true: their Python runs, their commands run, their files and links exist."""

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
    return names


def _run_commands(page, capsys):
    for words in _commands(page):
        assert run(words) == 0, f"{page.name}, {words}: {capsys.readouterr().err}"


@pytest.fixture
def quick_start(tmp_path, monkeypatch):
    """Run the Python of README in an empty directory; every page goes on from there."""
    monkeypatch.chdir(tmp_path)
    return _run_python(README, {})


def test_the_quick_start_runs(quick_start, capsys):
    """Python first, then the commands, in one directory."""
    assert quick_start["public"].frame["query"].to_list()[0] == "weather"
    assert len(quick_start["internal"]) > len(quick_start["public"])
    assert len(_commands(README)) >= 3
    _run_commands(README, capsys)
    assert len(sparsehist.read("shell.parquet")) > 0


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page, "python") or _commands(page)], ids=str)
def test_the_examples_of_a_page_run(page, quick_start, capsys):
    """A page's SQL script, Python and commands run after the quick start, assertions and all."""
    for script in _blocks(page, "sql")[:1]:
        Path("queries.sql").write_text(script, encoding="utf-8")
    _run_python(page, quick_start)
    _run_commands(page, capsys)


def test_readme_stays_short():
    """README is one look: 150 lines."""
    assert len(_text(README).splitlines()) <= 150


def test_every_page_is_linked_from_readme():
    """The table of README leads to every page."""
    linked = set(re.findall(r"\]\(([^)#]+)", _text(README)))
    assert {f"docs/{page.name}" for page in PAGES} <= linked
    assert {str(page.relative_to(CHECKOUT)) for page in (CHECKOUT / "docs" / "notebooks").glob("*.ipynb")} <= linked
    how_to = _text(README).partition("## How to")[2].partition("\n## ")[0]
    assert len(set(re.findall(r"\]\(docs/\w+\.md\)", how_to))) >= 10


def test_links_and_paths_exist():
    """Relative links lead to files, their anchors to headings, and paths in code spans are in the checkout."""
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


def test_the_make_targets_that_are_named_exist():
    """`make demo` and the rest are in the Makefile."""
    makefile = _text(CHECKOUT / "Makefile")
    told = "".join(_text(page) for page in (README, *PAGES, *OTHERS))
    targets = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", told, flags=re.MULTILINE))
    targets = {one or other for one, other in targets}
    assert targets >= {"demo", "test", "bench"}
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_the_public_names_that_are_named_exist():
    """Every sh.name is public."""
    for page in (README, *PAGES):
        assert set(re.findall(r"\bsh\.(\w+)", _text(page))) <= set(sparsehist.__all__), page.name


def test_the_picture_of_the_architecture_shows_every_folder():
    """Those of the package and no others; so does the table below it."""
    shown = re.findall(r">(\w+)/</text>", _text(CHECKOUT / "docs" / "architecture.svg"))
    folders = {path.parent.name for path in (CHECKOUT / "sparsehist").glob("*/__init__.py")}
    assert set(shown) == folders
    assert set(re.findall(r"^\| `(\w+)/` \|", _text(CHECKOUT / "docs" / "architecture.md"), re.MULTILINE)) == folders


def test_the_references_are_those_of_the_code():
    """Commands, SQL statements, clauses and options: `python docs/references.py` writes the pages."""
    made = runpy.run_path(str(CHECKOUT / "docs" / "references.py"))["PAGES"]
    assert len(made) == 3
    for page, text in made.items():
        assert _text(page) == text(), "the code has changed: run `python docs/references.py`"


def test_no_page_holds_a_machine_path():
    """Nothing in them is of one machine."""
    assert not any(os.fspath(CHECKOUT) in _text(page) for page in (README, *PAGES, *OTHERS))


CITATION = re.compile(r"\[(ARNP|KHP poster|KHP|Interactive) ([^\]]+)\]")
PAPERS = CHECKOUT / "docs" / "papers.md"


def _cited(code):
    """Items of the papers that a file cites, as (paper, item)."""
    groups = CITATION.findall(re.sub(r"\s+", " ", code))
    return {(paper, item.strip()) for paper, items in groups for item in items.split(",")}


def _items():
    """Rows of the page of papers: paper, item, file, name, file of the test, test."""
    paper, found = "", []
    for line in _text(PAPERS).splitlines():
        if line.startswith("## "):
            paper = line[3:]
        row = re.fullmatch(r"\| (.+?) \| .+ \| `(.+?)` (\w+) \| `(.+?)` (\w+) \|", line)
        if row:
            found.append((paper, *row.groups()))
    return found


def test_every_item_of_the_papers_is_cited_where_it_stands_and_tested():
    """File and function exist and the file cites the item; the test exists."""
    items, wrong = _items(), []
    assert len(items) > 80
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


def test_citations_have_one_form():
    """Nothing cites a paper by the names of its authors and a number."""
    loose = re.compile(r"(Andersson|Koufogiannis)[^.\n]{0,60}(Algorithm|Lemma|Theorem|Corollary|eq\.)s? ?\(?[A-Z]?\d")
    assert [page for page in (CHECKOUT / "sparsehist").rglob("*.py") if loose.search(_text(page))] == []
