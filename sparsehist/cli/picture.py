"""What a command prints, as an SVG picture that needs no fonts from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from sparsehist.cli.answer import PIPED_WIDTH, print_shown
from sparsehist.errors import StoreError

if TYPE_CHECKING:
    from rich.console import RenderableType

_LIGHT = TerminalTheme(
    (253, 253, 253), (36, 41, 47),
    [(36, 41, 47), (207, 34, 46), (17, 99, 41), (154, 103, 0), (9, 105, 218), (130, 80, 223), (27, 124, 131),
     (110, 119, 129)],
)  # fmt: skip

_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#fdfdfd" stroke="#d0d7de"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def save_picture(shown: Sequence[RenderableType], path: Path) -> None:
    """Write what would be printed on a terminal of 100 columns.

    Raises:
        StoreError: If the file cannot be written.
    """
    console = Console(
        width=PIPED_WIDTH, record=True, force_terminal=True, file=StringIO(), highlight=False, emoji=False
    )
    print_shown(console, shown)
    text = console.export_svg(title="", theme=_LIGHT, code_format=_SVG, unique_id="sparsehist")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}") from None
