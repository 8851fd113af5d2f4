"""The commands `run` and `sql`, as they are parsed and explained; each imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.parameters import Wait, Who

Rows = Annotated[int, Parameter(help="Print at most this many rows of a result.")]
Parameters = Annotated[
    list[str] | None,
    Parameter(
        help="name=value for $name in the script; may be repeated. Written like a SQL number, true, false, null or "
        "'text', the value is that; everything else is text.",
    ),
]


def run(
    script: Annotated[Path, Parameter(help="File of statements; - reads standard input.", allow_leading_hyphen=True)],
    /,
    *,
    store: Annotated[
        Path | None, Parameter(help="Directory of the store; the first CREATE SERIES makes it if there is none.")
    ] = None,
    param: Parameters = None,
    keep_going: Annotated[
        bool, Parameter(help="Leave out statements that are wrong or fail; run the others.")
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Run nothing: show each statement and what it would spend.")] = False,
    rows: Rows = 40,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    """Run a script of SQL.

    CREATE SERIES, RELEASE, PLAN, SHOW SERIES | RELEASES | LEDGER and DROP SERIES
    work on the store, all else goes to DuckDB; a release is the table
    series.release. The whole script is checked first: if anything is wrong,
    nothing runs. It stops at the first error; what was committed before stays.

    For example:
      sparsehist run script.sql --store logs.sparsehist --param level=0.01
    """
    from sparsehist.cli.sql_work import run_file

    return run_file(
        script, store, param or [], keep_going=keep_going, dry_run=dry_run, rows=rows, who=who, wait=wait
    )  # fmt: skip


def sql(
    store: Annotated[Path | None, Parameter(help="Directory of the store.")] = None,
    /,
    *,
    analyst: Annotated[
        Path | None,
        Parameter(
            ("--analyst", "--read-only"),
            help="Instead of a store: a directory of published Parquet files and their public ledger, read-only.",
        ),
    ] = None,
    rows: Rows = 40,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    """Open a prompt for SQL on a store, or on published files.

    Statements end with a semicolon and may take several lines; .help explains.
    The prompt needs the extra sparsehist[sql]; a script on standard input does not.

    For example:
      sparsehist sql logs.sparsehist
    """
    from sparsehist.cli.sql_work import open_prompt

    return open_prompt(store, analyst, rows=rows, who=who, wait=wait)
