"""The command line of sparsehist."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, and exit with its exit code; `sparsehist --help` lists all exit codes."""
    from sparsehist.cli.entry import run

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
