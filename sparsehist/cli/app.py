"""Register the commands by name. The module of a command is imported only when that command runs."""

from __future__ import annotations

from cyclopts import App, Parameter

from sparsehist import __version__

_ABOUT = """\
Release the histogram of a sensitive log (how many units touched each key)
under differential privacy, over domains too large to list, again and again:
at any level, in any order, for the cost of the finest release. Start with
create, release and ledger; `sparsehist COMMAND --help` has examples."""

_EPILOGUE = """\
--json, anywhere on the line, prints one JSON object instead of text.
Exit codes: 0 done or already done, 2 bad input or a full disk, 3 refused by a
budget or cap, 4 store in use, 5 the series exists but declaration, query or
source differ; 1 internal error, 130 interrupted, 141 the pipe for the output
was closed."""

app = App(
    name="sparsehist",
    help=_ABOUT,
    help_epilogue=_EPILOGUE,
    help_format="plaintext",
    version=__version__,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative=()),
)

_COMMANDS = (
    ("making:create", "Count a log into a new series, or declare a series to which logs will be appended."),
    ("making:append", "Append the log of a step or a period."),
    ("making:finish", "End a running or periodic series, and erase the record of which units were counted."),
    ("releasing:release", "Release a series at a level, or write an existing release to a file."),
    ("making:check", "Show what create would refuse, omit or cut; or check the files of a store."),
    ("making:choose", "Choose max_keys or find keys, privately."),
    ("planning:plan", "Show what releases would publish and cost, without releasing anything."),
    ("accounts:show", "Show the series of a store and their releases."),
    ("accounts:ledger", "Show the costs of all releases, the limits on them, and what remains."),
    ("accounts:limit", "Set a budget, raise a cap, or declare populations disjoint."),
    ("accounts:report", "Write a report for a privacy officer: one HTML page."),
    ("accounts:backup", "Make a consistent copy of a store."),
    ("accounts:adopt", "Use a copied or restored store in place of an original that is gone for good."),
    ("accounts:drop", "Erase a series: its keys, counts and noise."),
    ("scripts:run", "Run an SQL script."),
    ("scripts:sql", "Open a prompt for SQL on a store, or on published files."),
    ("demonstration:demo", "Release a real histogram at three levels, and show the releases side by side."),
)

for number, (path, summary) in enumerate(_COMMANDS):
    name = path.partition(":")[2]
    app.command(f"sparsehist.cli.{path}", name=name, help=summary, sort_key=number)


def load(name: str) -> None:
    """Import the module of a command, so that its --help shows the full docstring instead of a one-line summary."""
    command = app[name]
    if command.default_command is not None:
        command.help = None
