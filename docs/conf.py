"""Configure the site of documentation, which `make docs` writes to build/site.

The links under each heading of README are the navigation, in the same order.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pygments.lexers.sql import SqlLexer
from pygments.token import Name

import sparsehist

project = "sparsehist"
author = "The sparsehist authors"
release = sparsehist.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "data/README.md", "benchmarks/RESULTS.md", "docs/**"]
exclude_patterns = [".*", "build", "docs/templates"]
templates_path = ["templates"]

myst_heading_anchors = 4
smartquotes = False  # they turn --option into a dash
default_role = "code"  # docstrings have names in single backticks
autodoc_default_options = {"members": True, "imported-members": True}
autodoc_typehints_format = "short"
_ALIASES = "AnswerArray BoolArray Choice FloatArray IntArray Level NoiseArray NoiseChoice Progress"
autodoc_type_aliases = {name: name for name in _ALIASES.split()}
add_module_names = False
napoleon_use_ivar = True  # attributes stand in the docstring of their class, once

html_theme = "furo"
html_title = f"{project} {release}"
html_additional_pages = {"index": "to_readme.html"}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it fetches pages, which a browser refuses for files
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120


def _add_navigation(_: object, page: str, source: list[str]) -> None:
    """Give each heading of README that links to pages, and the index of the API, a hidden table of contents."""
    if page in (root_doc, "docs/api/index"):
        sections = re.split("^## ", source[0], flags=re.MULTILINE)
        for section in sections[1:] or sections:
            heading = section.partition("\n")[0].lstrip("# ")
            pages = re.findall(r"\]\(([\w/]+)\.(?:md|rst|ipynb)\)", section)
            if pages:
                source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```\n"])


def _make_accessible(_: object, __: str, ___: str, context: dict[str, Any], ____: object) -> None:
    """Add features that the theme lacks: levels of headings in the navigation, and scrolling by keyboard."""
    context["furo_navigation_tree"] = context["furo_navigation_tree"].replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )
    context["body"] = re.sub(
        r'<pre\b|<div(?= class="(?:table-wrapper|output text_html))', r'\g<0> tabindex="0"', context.get("body", "")
    )


class _SqlWithParameters(SqlLexer):  # type: ignore[misc]
    """SQL in which $level stands for a value."""

    tokens: ClassVar = {**SqlLexer.tokens, "root": [(r"\$\w+", Name.Variable), *SqlLexer.tokens["root"]]}


def setup(app: Any) -> None:
    """Register the hooks and the lexer; Sphinx calls this."""
    app.add_lexer("sql", _SqlWithParameters)
    app.connect("source-read", _add_navigation)
    app.connect("html-page-context", _make_accessible, priority=900)
