"""The command line: parse, call, print. Nothing heavy is imported before a command runs."""

from sparsehist.cli.running import main

__all__ = ["main"]
