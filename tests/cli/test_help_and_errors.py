"""What the command line explains, and how it fails: at once, in one line, without secrets."""

import fcntl
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import sparsehist as sh
from sparsehist import __version__
from sparsehist.cli.answer import in_options
from sparsehist.cli.app import app
from sparsehist.cli.options import StoreOptions, given, options_of
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameter
from tests.cli.conftest import SECRET_KEY

COMMANDS = (
    "create", "append", "finish", "release", "check", "choose", "plan", "show", "ledger", "limit", "report", "backup",
    "adopt", "drop", "run", "sql", "demo",
)  # fmt: skip
HEAVY = ("polars", "duckdb", "pyarrow", "numpy", "scipy", "pandas", "altair")
WATCHED = """
import sys
from sparsehist.cli.entry import run
code = run(sys.argv[1:])
loaded = [name for name in {heavy} if name in sys.modules]
sys.exit(100 if loaded else code)
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["creat"], 2),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_nothing_heavy_is_imported_to_explain_or_to_refuse_a_line(words, code):
    """Help, version and parse errors come without engines and arrays."""
    _assert_not_loaded(HEAVY, words, code)


@pytest.mark.parametrize("command", ["show", "ledger"])
def test_tables_of_a_store_need_no_engine(sparsehist, store, command):
    """Its series, releases and costs come from SQLite alone."""
    assert sparsehist("release", store, "--series", "visits", "--name", "a", "--level", "0.1").code == 0
    _assert_not_loaded(("polars", "duckdb", "pyarrow", "pandas", "altair"), [command, store], 0)


def _assert_not_loaded(heavy, words, code):
    script = WATCHED.format(heavy=heavy)
    ran = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(sparsehist, command):
    """The help of a command has examples that parse."""
    command = {"choose": "choose max-keys"}.get(command, command)
    shown = sparsehist(*command.split(), "--help")
    assert shown.code == 0
    example = shown.out.split("For example:")[1].split("\n\n")[0].replace("\\\n", " ")
    lines = [line.strip() for line in example.replace("\n  sparsehist ", "\0sparsehist ").split("\0") if line.strip()]
    assert lines
    for words in map(shlex.split, lines):
        assert words[: 1 + len(command.split())] == ["sparsehist", *command.split()]
        parsed, _, ignored = app.parse_args(words[1:], print_error=False, exit_on_error=False)
        assert (parsed.__name__.replace("_", "-"), ignored) == (command.split()[-1], {})


def test_the_overview_names_every_command(sparsehist):
    """All commands, the JSON switch and the exit codes stand in the overview."""
    shown = sparsehist("--help").out
    assert all(f"│ {command} " in shown for command in COMMANDS)
    assert "--json" in shown and "Exit codes" in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["ledger", "s", "t.parquet"], "Quote a glob"),
        (["releas", "s"], "Did you mean 'release'"),
        (["drop", "s", "--sries", "a"], "Did you mean --series instead of --sries?"),
        (["nothing"], "drop, run"),
        (["ledger"], "STORE is missing, or has no value"),
        (["release", "s", "--series", "a", "--name", "b", "--threshold", "high"], "--threshold"),
        (["create", "s", "--on-null", "keep"], "error"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_line_exits_with_2_and_says_what_is_wrong(sparsehist, words, hint):
    """Parse errors are one line on stderr, or JSON on stdout."""
    wrong = sparsehist(*words)
    assert (wrong.code, wrong.out) == (2, "")
    assert hint in wrong.err and wrong.err.count("\n") == 1
    as_json = sparsehist("--json", *words)
    assert (as_json.code, as_json.err, as_json.json["error"]["type"]) == (2, "", "UsageError")


@pytest.mark.parametrize("words", [(), ("--help",), ("show", "--help")])
def test_help_is_json_too_where_it_is_asked_for(sparsehist, words):
    """--json prints one object whatever the rest of the line is."""
    plain, as_json = sparsehist(*words), sparsehist(*words, "--json")
    assert (plain.code, as_json.code) == (0, 0)
    assert as_json.json == {"help": plain.out}
    assert "Usage: sparsehist" in plain.out


def test_the_version_is_told(sparsehist):
    """As text and as JSON; `python -m sparsehist` is `sparsehist`."""
    ran = subprocess.run(
        [sys.executable, "-m", "sparsehist", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == __version__
    assert sparsehist("--version", "--json").json == {"version": __version__}


def _shell(line, **environment):
    command = f"{shlex.quote(sys.executable)} -m sparsehist {line}"
    env = {**os.environ, "PYTHONPATH": os.fspath(Path(sh.__file__).parents[1]), **environment}
    return subprocess.run(command, shell=True, capture_output=True, env=env, check=False)


def test_output_that_cannot_be_written_is_one_line(here, store):
    """A full disk behind stdout is named, as text and as JSON; a closed stdout is nobody's."""
    if Path("/dev/full").exists():
        for line in (f"show {store}", f"show {store} --json"):
            full = _shell(f"{line} >/dev/full")
            assert full.returncode == 1
            assert full.stderr.startswith(b"error: the output cannot be written") and full.stderr.count(b"\n") == 1
    closed = _shell(f"show {store} >&-")
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_store_in_use_exits_with_4(sparsehist, here, store):
    """Somebody else's lock is told apart from bad input."""
    with (here / store / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        busy = sparsehist("ledger", store, "--json")
    assert (busy.code, busy.json["error"]["type"]) == (4, "StoreInUseError")
    assert "--wait" in busy.json["error"]["message"]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_unforeseen_error_is_named_without_its_text(sparsehist, monkeypatch, as_json):
    """Its type and place are told, what it says is withheld, and there is no traceback."""

    def fail(*_, **__):
        raise RuntimeError(SECRET_KEY)

    monkeypatch.setattr(StoreOptions, "home", fail)
    failed = sparsehist("ledger", "s", *as_json)
    assert failed.code == 1
    told = failed.json["error"]["message"] if as_json else failed.err
    assert "RuntimeError" in told
    assert SECRET_KEY not in told and "Traceback" not in failed.err


def test_an_interrupt_exits_with_130(sparsehist, monkeypatch):
    """Ctrl-C is told in one line."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(StoreOptions, "home", interrupted)
    stopped = sparsehist("ledger", "s")
    assert stopped.code == 130
    assert "interrupted" in stopped.err and "Traceback" not in stopped.err


def test_an_interrupt_that_an_engine_reports_as_its_failure_is_one(here):
    """Ctrl-C while DuckDB works comes back as an error of DuckDB, and still exits with 130."""
    script = """
import os, signal
from sparsehist.cli import main
from sparsehist.cli.options import StoreOptions
from sparsehist.errors import DataError

def stopped(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise DataError("file 'log.parquet' cannot be read") from None

StoreOptions.home = stopped
main(["ledger", "s"])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr.startswith("error: interrupted")


@pytest.mark.parametrize("words", [["--json", "ledger", "nowhere"], ["--help"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(here, words):
    """`sparsehist … | head` ends quietly, with a code of its own."""
    script = f"import sys; from sparsehist.cli import main; sys.stdin.read(); main({words})"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.close()
        child.stdin.close()
        complaint = child.stderr.read()
    assert (child.returncode, complaint) == (141, b"")


def test_messages_speak_of_options():
    """Parameters of Python that are given a value are written as options; those of domains and addresses are left."""
    told = {
        "wait with wait=SECONDS": "wait with --wait SECONDS",
        'pass on_outside="drop" to': "pass --on-outside drop to",
        "it was made with steps='steps(7)'; use": "it was made with --steps 'steps(7)'; use",
        "give level= or false_keys=, not both": "give --level or --false-keys, not both",
        "domain strings(max_bytes=5), level 3": "domain strings(max_bytes=5), level 3",
        "open(delta='1e-6'), or delta=1e-7": "open(delta='1e-6'), or --delta 1e-7",
        "s3://bucket?region=a, home_is_gone=True": "s3://bucket?region=a, --home-is-gone",
        "sh.Files(…, types={'k': 'date'}), --key-type k=date": "sh.Files(…, types={'k': 'date'}), --key-type k=date",
    }
    assert {message: in_options(message) for message in told} == told


def test_a_new_parameter_of_a_series_is_an_option():
    """A field of a declaration is all it takes."""

    @dataclass(frozen=True, kw_only=True)
    class More(Declaration):
        flavour: str = parameter("Which flavour.", "plain", choices=("plain", "sweet"), option=str)

    made = options_of("Asked", record=More)(name="a", key=["k"], max_keys=1, domain="hash64()", flavour="sweet")
    assert given(made)["flavour"] == "sweet"


def test_what_may_not_be_read_is_told_by_its_name(sparsehist, here, monkeypatch):
    """A store in a directory of somebody else's: no error of ours to report."""

    def denied(_, path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(StoreOptions, "home", denied)
    refused = sparsehist("show", "theirs/store")
    assert (refused.code, refused.err) == (2, "error: theirs/store: permission is denied\n")
