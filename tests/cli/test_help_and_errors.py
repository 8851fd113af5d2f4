"""The command line explains its options, and reports each error in one line that shows no data."""

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from sparsehist import __version__
from sparsehist.cli.answer import in_options
from sparsehist.cli.app import app
from sparsehist.cli.options import StoreOptions, arguments, options_of
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameter

COMMANDS = (
    "create", "append", "finish", "release", "check", "choose", "plan", "show", "ledger", "limit", "report", "backup",
    "adopt", "drop", "run", "sql", "demo",
)  # fmt: skip
ENGINES = ("polars", "duckdb", "pyarrow", "pandas", "altair")
WATCHED = """
import sys
from sparsehist.cli.entry import run
code = run(sys.argv[1:])
loaded = [name for name in {heavy} if name in sys.modules]
sys.exit(100 if loaded else code)
"""


def _python(script, *words):
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_loads_no_library(words):
    """`--help` and `--version` load neither a counting engine nor numpy."""
    ran = _python(WATCHED.format(heavy=(*ENGINES, "numpy", "scipy")), words)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("command", ["show", "ledger"])
def test_tables_of_a_store_load_no_engine(sparsehist, store, command):
    """`show` and `ledger` read only the SQLite file of a store, and load no counting engine."""
    assert sparsehist("release s --series visits --name a --level 0.1").code == 0
    ran = _python(WATCHED.format(heavy=ENGINES), command, store)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(sparsehist, command):
    """The help of every command has examples that the parser accepts."""
    words = {"choose": "choose max-keys"}.get(command, command).split()
    shown = sparsehist(*words, "--help")
    assert shown.code == 0
    example = shown.out.split("For example:")[1].split("\n\n")[0].replace("\\\n", " ")
    lines = example.replace("\n  sparsehist ", "\0sparsehist ").split("\0")
    for line in filter(str.strip, lines):
        given_words = shlex.split(line)
        assert given_words[: 1 + len(words)] == ["sparsehist", *words]
        parsed, _, ignored = app.parse_args(given_words[1:], print_error=False, exit_on_error=False)
        assert (parsed.__name__.replace("_", "-"), ignored) == (words[-1], {})


def test_the_overview_names_every_command(sparsehist):
    """The top-level help lists all commands, the option --json and the exit codes."""
    shown = sparsehist("--help").out
    assert all(f"│ {command} " in shown for command in COMMANDS)
    assert "--json" in shown and "Exit codes" in shown
    ran = subprocess.run(
        [sys.executable, "-m", "sparsehist", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == __version__


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("ledger s t.parquet", "Quote a glob"),
        ("releas s", 'Did you mean "release"'),
        ("drop s --sries a", "Did you mean --series instead of --sries?"),
        ("ledger", "STORE is missing, or has no value"),
        ("release s --series a --name b --threshold high", "--threshold"),
        ("create s --on-null keep", "error"),
    ],
)
def test_a_wrong_line_exits_with_2_and_says_what_is_wrong(sparsehist, words, hint):
    """A wrong command line is refused with exit code 2 and a one-line error, or with JSON if `--json` is given."""
    wrong = sparsehist(words)
    assert (wrong.code, wrong.out) == (2, "")
    assert hint in wrong.err and wrong.err.count("\n") == 1
    as_json = sparsehist(f"--json {words}")
    assert (as_json.code, as_json.err, as_json.json["error"]["type"]) == (2, "", "UsageError")


def _shell(line):
    command = f"{shlex.quote(sys.executable)} -m sparsehist {line}"
    return subprocess.run(command, shell=True, capture_output=True, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_does_not_change_the_exit_code(tmp_path, closed):
    """A command that is started with a closed stdout or stderr writes nothing there; its exit code is as usual."""
    assert _shell(f"show {tmp_path}/missing {closed}").returncode == 2


def test_output_that_cannot_be_written_is_one_line(here, store):
    """If the disk is too full to write stdout, the command prints a one-line error and exits with code 1."""
    if Path("/dev/full").exists():
        full = _shell(f"show {store} --json >/dev/full")
        assert full.returncode == 1
        assert full.stderr.startswith(b"error: the output cannot be written") and full.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [["--json", "ledger", "nowhere"], ["--help"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(here, words):
    """If the reader of stdout exits early, as in `sparsehist … | head`, the command exits silently with code 141."""
    script = f"import sys; from sparsehist.cli import main; sys.stdin.read(); main({words})"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.close()
        child.stdin.close()
        complaint = child.stderr.read()
    assert (child.returncode, complaint) == (141, b"")


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (RuntimeError("secret"), 1, "RuntimeError"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "theirs/store"), 2, "error: theirs/store: permission is denied\n"),
    ],
)
def test_an_error_of_a_command_is_one_line_without_its_text(sparsehist, monkeypatch, problem, code, message):
    """An unexpected error is printed as one line with the error's type and location, without message or traceback."""

    def fail(*_, **__):
        raise problem

    monkeypatch.setattr(StoreOptions, "home", fail)
    failed = sparsehist("ledger s")
    assert (failed.code, failed.out) == (code, "")
    assert message in failed.err and "secret" not in failed.err and failed.err.count("\n") == 1
    assert message.split(": ")[-1].strip() in sparsehist("ledger s --json").json["error"]["message"]


def test_messages_name_options():
    """Messages name options such as --level instead of Python's level=, except in domains, URLs and Python calls."""
    messages = {
        "wait with wait=SECONDS": "wait with --wait SECONDS",
        'pass on_outside="drop" to': "pass --on-outside drop to",
        "it was made with steps='steps(7)'; use": "it was made with --steps 'steps(7)'; use",
        "give level= or false_keys=, not both": "give --level or --false-keys, not both",
        "domain strings(max_bytes=5), level 3": "domain strings(max_bytes=5), level 3",
        "open(delta='1e-6'), or delta=1e-7": "open(delta='1e-6'), or --delta 1e-7",
        "s3://bucket?region=a, home_is_gone=True": "s3://bucket?region=a, --home-is-gone",
        "sh.Files(…, types={'k': 'date'}), --key-type k=date": "sh.Files(…, types={'k': 'date'}), --key-type k=date",
        "--param n=20, --table log=s3://lake": "--param n=20, --table log=s3://lake",
        "product(n=catalogue(file='a'), c=hash64())": "product(n=catalogue(file='a'), c=hash64())",
        "open('date', delta=…), as text price:clip=1,step=2": "open('date', delta=…), as text price:clip=1,step=2",
    }
    assert {message: in_options(message) for message in messages} == messages


def test_a_new_parameter_of_a_series_is_an_option():
    """A field that is added to `Declaration` becomes a command-line option without any further code."""

    @dataclass(frozen=True, kw_only=True)
    class More(Declaration):
        flavour: str = parameter("Which flavour.", "plain", choices=("plain", "sweet"))

    made = options_of("Asked", record=More)(name="a", key=["k"], max_keys=1, domain="hash64()", flavour="sweet")
    assert arguments(made)["flavour"] == "sweet"


def test_a_log_of_steps_shows_no_data(sparsehist, caplog):
    """The messages of the logger "sparsehist" say what a command does, but name no key, unit, file or row count."""
    rows = {"user": [*(f"user{i}" for i in range(900)), "SECRETunit"], "url": [*["/home"] * 900, "SECRET-key"]}
    pl.DataFrame(rows).write_parquet("SECRETfile.parquet")
    domain = "--domain strings(max_bytes=20) --max-keys 1 --cap 1 --name visits"
    release = "release s --series visits --name public --level 0.5 --json"
    with caplog.at_level("INFO", "sparsehist"):
        assert sparsehist(f"create s --input SECRETfile.parquet --unit user --key url {domain}").code == 0
        first = sparsehist(release)
        assert sparsehist("release s --series visits --name finer --level 2").code == 3
    for step in ("counting with polars", "create series done", "release done", "release finer refused"):
        assert step in caplog.text
    assert (first.code, first.err) == (0, "")
    assert first.out.replace('"released"', '"repeated"') == sparsehist(release).out
    assert "SECRET" not in caplog.text and "90" not in "".join(caplog.messages)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_code(sparsehist, store):
    """The command line prints a warning once, on one line of stderr that names no source file."""
    Path.cwd().chmod(0o777)
    ran = sparsehist("show s")
    assert ran.code == 0 and ran.err.count("\n") == 1 and ".py" not in ran.err
    assert ran.err.startswith("warning: any user can replace the store")


@pytest.mark.parametrize("options", ["", "--max-keys 5"])
def test_a_plan_without_a_series_names_the_options_it_needs(sparsehist, options):
    """If a new series is planned without a domain, the command fails, and the error names the options to add."""
    ran = sparsehist(f"plan {options}")
    assert ran.code == 2 and "--domain and --max-keys" in ran.err
