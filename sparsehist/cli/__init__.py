"""The command line: parse, call, print."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; `sparsehist --help` lists the codes."""
    try:
        from sparsehist.cli.entry import run

        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # during imports or printing; `run` handles it while a command runs
        sys.stderr.write("error: interrupted; what was committed stays\n")
        sys.exit(130)
