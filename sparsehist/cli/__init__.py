"""The command line: parse, call, print. Nothing heavy is imported before a command runs."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 done or already done, 2 bad input, 3 refused, 4 store in use."""
    try:
        from sparsehist.cli.entry import exit_with

        exit_with(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while this was imported; later on it is an error like others
        sys.stderr.write("error: interrupted; nothing was done\n")
        sys.exit(130)
