"""Files a session wrote, so that a query over them is checked by what was written."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from sqlglot import TokenType

from sparsehist.sqlfront.guarantee_relations import Behind
from sparsehist.sqlfront.script import Piece
from sparsehist.sqlfront.written_names import brackets


@dataclass(frozen=True)
class Written:
    """Files and directories that were written.

    Attributes:
        queries: The queries behind each path, as it was given.
    """

    queries: dict[str, tuple[Behind, ...]] = field(default_factory=dict)

    def behind(self, path: str) -> dict[str, Behind]:
        """The queries behind the files that a path or pattern means, by the paths they were written to."""
        found: dict[str, Behind] = {}
        for file, written in self.queries.items():
            if _may_mean(path, file):
                for number, behind in enumerate(written):
                    found[file if not number else f"{file} ({number + 1})"] = behind
        return found

    def with_file(self, path: str, behind: Behind) -> Written:
        """What was written, once a file is written, perhaps beside what is there already."""
        return replace(self, queries={**self.queries, path: (*self.queries.get(path, ()), behind)})


def _may_mean(path: str, file: str) -> bool:
    """Whether a path means a written file, one in a written directory, or is a pattern that does."""
    read, made = _absolute(path), _absolute(file)
    if read == made or read.startswith(made.rstrip(os.sep) + os.sep) or made.startswith(read.rstrip(os.sep) + os.sep):
        return True
    return bool(re.search(r"[*?\[]", path)) and fnmatchcase(made, read)  # a star means more here than in DuckDB


def _absolute(path: str) -> str:
    plain = re.sub(r"^file:(//localhost|//)?(?=/)", "", path)
    return plain if "://" in plain else str(Path(plain).expanduser().resolve())


def target(piece: Piece, words: Sequence[str]) -> tuple[str, str] | None:
    """The path that COPY … TO or EXPORT DATABASE writes, and the query if it is one; None if rows are read."""
    depth = brackets(words)
    outside = [i for i, word in enumerate(words) if not depth[i] and i]
    texts = {i: str(token.text) for i, token in enumerate(piece.tokens) if token.token_type == TokenType.STRING}
    if words[0].upper() == "EXPORT":
        return next((texts[i] for i in outside if i in texts), ""), ""
    ways = [i for i in outside if words[i].upper() in ("TO", "FROM") and i not in texts]
    if not ways or words[ways[-1]].upper() == "FROM":
        return None
    source = piece.script[piece.tokens[1].start : piece.tokens[ways[-1] - 1].end + 1]
    return texts.get(ways[-1] + 1, ""), f"select * from {source}"  # noqa: S608  checked, never run
