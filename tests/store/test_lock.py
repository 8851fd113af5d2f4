from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack

import pytest

from sparsehist.errors import StoreInUseError
from sparsehist.store import open_state
from sparsehist.store.layout import spill_directory
from tests.store.example import Model, make_store


def test_a_store_is_opened_once_at_a_time(tmp_path):
    """A store cannot be opened while it is already open, and the error recommends `wait=`."""
    path = make_store(tmp_path / "s")
    with open_state(path), pytest.raises(StoreInUseError, match="wait=") as caught, open_state(path, wait=0.05):
        pass
    assert caught.value.exit_code == 4
    with open_state(path):
        pass


def test_rounds_of_many_threads_do_not_mix(tmp_path):
    """Threads that make releases at the same time wait for each other, and each release builds on the one before."""
    path = make_store(tmp_path / "s", durable=False)
    model = Model(1)
    errors = []

    def release_one():
        try:
            with open_state(path, wait=60, durable=False) as state:
                state.commit_round(model.make_round("0.5", 3))
        except Exception as error:  # noqa: BLE001  the test checks for any error
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


def in_child(work):
    """Run a function in a forked child and return the exit code; kill a child that hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            code = work()
        except StoreInUseError:
            code = 3
        except BaseException:  # noqa: BLE001  a child must never return into the test run
            code = 99
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_inside_the_block_cannot_use_or_release_the_store(tmp_path):
    """A forked child can neither commit to its parent's open store, nor release its lock or remove its files."""
    path = make_store(tmp_path / "s")
    model = Model(1)
    with open_state(path) as state:
        state.tracked(model.path_id)
        new = model.make_round("1", 3)
        assert in_child(lambda: state.commit_round(new)) == 3
        assert in_child(lambda: state._database.close() or 4) == 4
        with pytest.raises(StoreInUseError), open_state(path):
            pass
        state.commit_round(new)
        with ExitStack() as block:
            spill = block.enter_context(spill_directory(state.spill))
            assert in_child(lambda: block.close() or 4) == 4
            assert spill.is_dir()
        assert not spill.exists()
    with open_state(path) as state:
        model.check(state)
