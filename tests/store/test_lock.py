from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from sparsehist.errors import StoreInUseError
from sparsehist.store import open_state
from sparsehist.store.layout import exclusive_lock
from tests.store.example import Model, make_store

HOLD = """
import sys
from pathlib import Path
from sparsehist.store.layout import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_two_threads_exclude_each_other(tmp_path):
    """A thread is refused while another holds the store, and served when it waits long enough."""
    path = make_store(tmp_path / "s")
    held, release = threading.Event(), threading.Event()

    def hold():
        with open_state(path):
            held.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    with pytest.raises(StoreInUseError, match="wait=") as caught, open_state(path, wait=0.05):
        pass
    assert caught.value.exit_code == 4
    threading.Timer(0.2, release.set).start()
    with open_state(path, wait=30) as state:
        assert state.generation == 1
    holder.join()


def test_rounds_of_many_threads_do_not_mix(tmp_path):
    """Threads that release at once make rounds one after the other, each on what the one before left."""
    path = make_store(tmp_path / "s", durable=False)
    model = Model(1)
    errors = []

    def release_one():
        try:
            with open_state(path, wait=60, durable=False) as state:
                state.commit_round(model.make_round("0.5", 3))
        except Exception as error:  # noqa: BLE001  whatever it is, the test is to see it
            errors.append(error)

    threads = [threading.Thread(target=release_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_state(path, durable=False) as state:
        model.check(state)
        assert state.generation == 7


def test_two_processes_exclude_each_other(tmp_path):
    """A store held by another process is in use until that process ends, however it ends."""
    path = make_store(tmp_path / "s")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StoreInUseError), open_state(path):
        pass
    holder.kill()
    holder.communicate()
    with open_state(path):
        pass


def test_a_lock_file_that_was_replaced_is_not_the_lock(tmp_path):
    """Whoever waited for a store that was replaced meanwhile takes the lock of the new one."""
    lock = tmp_path / "lock"
    taken = []

    def wait():
        with exclusive_lock(lock, wait=30):
            taken.append(lock.stat().st_ino)

    with exclusive_lock(lock):
        waiter = threading.Thread(target=wait)
        waiter.start()
        lock.rename(tmp_path / "old")
        lock.touch()
        new = lock.stat().st_ino
    waiter.join()
    assert taken == [new]


def in_child(work):
    """Run something in a forked child and return its exit code; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            code = work()
        except BaseException:  # noqa: BLE001  a child must never return into the test run
            code = 99
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_inside_the_block_cannot_use_or_release_the_store(tmp_path):
    """A child may neither commit on its parent's connection, nor give the lock away, nor write when it ends."""
    path = make_store(tmp_path / "s")
    model = Model(1)
    with open_state(path) as state:
        state.releases(model.path_id)
        new = model.make_round("1", 3)

        def use():
            try:
                state.commit_round(new)
            except StoreInUseError:
                return 3
            return 0

        def leave():
            state._database.close()
            return 4

        assert in_child(use) == 3
        assert in_child(leave) == 4
        with pytest.raises(StoreInUseError), open_state(path):
            pass
        state.commit_round(new)
    with open_state(path) as state:
        model.check(state)


def test_directories_of_living_runs_are_never_taken_for_dead(tmp_path):
    """Processes that make and clear spill at once never lose a directory that somebody is in."""
    script = (
        "import sys, pathlib; from sparsehist.store.layout import remove_dead, spill_directory\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "for i in range(400):\n"
        "    with spill_directory(place) as directory:\n"
        "        (directory / 'secret').write_text('x')\n"
        "        remove_dead(place, '*')\n"
        "        assert (directory / 'secret').read_text() == 'x'"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script, tmp_path], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(run.communicate(timeout=120)[1], run.returncode) for run in runs] == [(b"", 0)] * 4
    assert list(tmp_path.iterdir()) == []
