"""A copied, restored or moved store never draws noise twice for a level, except in cases listed in docs/store.md.

A scenario is a list of steps. A step is a method of `World`, such as `make`, `open`, `use` (release at a new level)
or `adopt` (adopt, then use), or else a shell command. The steps run in a directory with a store at `home/store`,
which is created first unless the scenario contains `make`.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import NotFoundError, StoreDamagedError, StoreRolledBackError
from sparsehist.store import lifecycle, opening, state
from sparsehist.store.database import Database

PAGE = Path(__file__).parents[2] / "docs" / "store.md"
COUNTS = pl.DataFrame({"word": [f"key{i}" for i in range(50)], "count": range(1, 101, 2)})
DECLARED = {"key": "word", "max_keys": 2, "domain": "strings(max_bytes=6)"}
SHELL = """
container() {
    mkdir -p disk/base "disk/$1" "disk/$1.work"
    mount -t overlay overlay -o "lowerdir=$2,upperdir=disk/$1,workdir=disk/$1.work" c
}
"""


class World:
    """A directory with a store and its releases; each step of a scenario is a method or a shell command."""

    def __init__(self, root, patch):
        self.root, self.patch, self.seen, self.refusals = root, patch, [], 0

    def run(self, way):
        """Run all steps of a scenario in order."""
        for name in ("home", "public", "elsewhere", "kept", "c"):
            (self.root / name).mkdir(parents=True)
        for step in (way if "make" in way else f"make home/store; {way}").split(";"):
            verb, *words = step.split()
            if hasattr(self, f"_{verb}"):
                getattr(self, f"_{verb}")(*(self.root / word for word in words))
            else:
                subprocess.run(["sh", "-ec", SHELL + step], check=True, timeout=60, cwd=self.root)

    def _make(self, store):
        series = sh.create(store, sh.Counts(COUNTS, largest=1), name="words", **DECLARED)
        for name in ("before", "also_before"):
            series.release(name, level="1/2")

    def _open(self, store):
        sh.open(store).ledger()

    def _use(self, store, *, adopt=False, publish=False):
        """Open the store and make a release at a new level, as a user would."""
        try:
            if adopt:
                sh.adopt(store, home_is_gone=True)
            release = sh.open(store).series("words").release("first", level=1)
            if publish:
                release.write_parquet(self.root / "public" / f"{len(self.seen)}.parquet")
        except (StoreRolledBackError, StoreDamagedError, NotFoundError):
            self.refusals += 1
        else:
            self.seen.append(release.frame)

    def _adopt(self, store):
        self._use(store, adopt=True)

    def _publish(self, store):
        self._use(store, publish=True)

    def _list(self, store):
        """Write an earlier release to a file, so that the public ledger lists it."""
        sh.open(store).series("words").release("before").write_parquet(self.root / "public" / "before.parquet")

    def _backup(self, store, copy):
        sh.open(store).backup(copy)

    def _blind(self):
        """Make all copies of a store appear to have the same file identity as the original."""
        for module in (opening, lifecycle):
            self.patch.setattr(module, "identity_of", lambda _: "1:1")

    def _dying(self, store, owner, name, before=lambda: None):
        """Start a release, and interrupt it with a KeyboardInterrupt when it calls the function `name`."""

        def dies(*_, **__):
            before()
            raise KeyboardInterrupt

        with self.patch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(owner, name, dies)
            self._use(store)

    def _torn(self, store, copy):
        """Copy a store and its journal during a transaction, and then roll the transaction back in the original."""
        self._dying(store, Database, "insert_event", lambda: subprocess.run(["cp", "-a", store, copy], check=True))

    def _unmarked(self, store):
        """Interrupt a release after its commit, but before the generation file is updated."""
        self._dying(store, state, "raise_mark")

    @property
    def noises(self):
        """Return how many different draws of noise occur in the releases at level 1."""
        return len({frame.hash_rows(seed=1).sum() for frame in self.seen})


PUT_BACK = {
    "over the newer files": "cp -a {source}/. {target}",
    "into the emptied directory": "find {target} -mindepth 1 -delete; cp -a {source}/. {target}",
    "after the newer one was deleted": "rm -r {target}; cp -a {source} {target}",
    "from a tar archive": "tar -C {source} -cf kept/a.tar .; tar -C {target} -xf kept/a.tar",
    "by renaming": "mv {target} kept/newer; mv {source} {target}",
}


def older(how, what, then="use", first="use"):
    """Return a scenario that makes a release, restores an older copy of the store, and makes a release again."""
    source, target = {"store": ("kept/all/store", "home/store"), "home": ("kept/all", "home")}[what]
    restored = PUT_BACK[how].format(source=source, target=target)
    return f"cp -a home kept/all; {first} home/store; {restored}; {then} home/store"


def moved(at, first, *, opened):
    """Return a scenario that moves a store, puts a copy at the old path or elsewhere, and uses both stores."""
    copy = "home/store" if at == "home" else "copy"
    uses = [f"adopt {copy}", "use elsewhere/store"]
    begun = "cp -a home/store kept; mv home/store elsewhere;" + " open elsewhere/store;" * opened
    return f"{begun} cp -a kept/store {copy}; {'; '.join(uses if first == 'copy' else uses[::-1])}"


def containers(layers, begin, first, then):
    """Return a scenario in which two containers each have a store at the same path."""
    return f"{begin}; container one {layers}; {first}; umount c; container two {layers}; {then}; umount c"


RESTORED = {f"older {what} restored {how}": older(how, what) for what in ("store", "home") for how in PUT_BACK}
SNAPSHOT = (
    "blind; make home/store; list home/store; cp -a home kept/all; {use} home/store; {gone}; cp -a kept/all home; "
    "{use} home/store"
)
IMAGE = "container build disk/base; make c/store; umount c"
COPIED = "cp -a home/store c/store; use c/store"
BESIDE = {
    "cp -a": "cp -a home/store copy; use home/store; use copy",
    "cp -r": "cp -r home/store copy; use home/store; use copy",
    "a copy by cp -a is adopted beside the original": "cp -a home/store copy; use home/store; adopt copy",
    "cp -al": "cp -al home/store copy; use copy; adopt home/store",
    "tar": "tar -C home -cf kept/a.tar store store.generation; use home/store; tar -C elsewhere -xf kept/a.tar; "
    "use elsewhere/store",
    "backup": "backup home/store copy; use copy; use home/store",
    "a backup is adopted beside the original": "backup home/store copy; adopt copy; use home/store",
    "two copies are adopted": "cp -a home/store a; cp -a home/store b; rm -r home/store; adopt a; adopt b",
    "two backups are adopted": "backup home/store a; backup home/store b; rm -r home/store; adopt a; adopt b",
    "two backups are adopted, one of them in the home": "backup home/store home/copy; "
    "backup home/store elsewhere/copy; rm -r home/store; adopt home/copy; adopt elsewhere/copy",
    **{
        f"moved{' and opened' * opened}, the copy is {where}{used}": moved(at, first, opened=opened)
        for opened in (False, True)
        for at, where in (("home", "at the old path"), ("elsewhere", "elsewhere"))
        for first, used in (("copy", " and used first"), ("original", ", and the moved store is used first"))
    },
    **RESTORED,
    "an older state.sqlite is restored over the newer one": "cp -a home kept/all; use home/store; "
    "cp -a kept/all/store/state.sqlite home/store/state.sqlite; use home/store",
    "an older store is restored into the emptied directory and adopted": older(
        "into the emptied directory", "store", then="adopt"
    ),
    "an older home is restored and adopted, but a public ledger is newer": "list home/store; "
    + older("after the newer one was deleted", "home", then="adopt", first="publish"),
    "an older store is restored, and the generation file is deleted": "cp -a home/store kept; use home/store; "
    "find home/store -mindepth 1 -delete; cp -a kept/store/. home/store; rm home/store.generation; use home/store",
    "the original is restored from the trash after a copy was adopted": "cp -a home/store copy; "
    "mv home/store kept/trash; adopt copy; mv kept/trash home/store; use home/store",
    "a machine snapshot is restored, but a public ledger is newer": SNAPSHOT.format(use="publish", gone="rm -r home"),
    "used through a symbolic link": "ln -s home/store link; use link; use home/store",
    "state.sqlite of another store copied into it": "make home/store; make elsewhere/store; use home/store; "
    "cp home/store/state.sqlite elsewhere/store; use elsewhere/store",
    "a copy of only state.sqlite and format is adopted": "mkdir copy; "
    "cp home/store/state.sqlite home/store/format copy; use home/store; adopt copy",
    "a copy that was made during a transaction is restored": "torn home/store kept/store; use home/store; "
    "find home/store -mindepth 1 -delete; cp -a kept/store/. home/store; use home/store",
    "one store mounted at two paths": "mount --bind home c; use c/store; use home/store; use c/store",
    "two containers with copies of one store": containers("disk/base", "make home/store; true", COPIED, COPIED),
}
"""Scenarios that draw at most one noise at a level."""
NAMED = {
    "older home restored and adopted": (
        older("after the newer one was deleted", "home", then="adopt"), "together with its generation file",
    ),
    "a dead disk works again after a copy was adopted": (
        "cp -a home/store copy; mv home dead; adopt copy; mv dead home; use home/store",
        "disk that works again",
    ),
    "snapshot of a machine restored": (SNAPSHOT.format(use="use", gone="rm -r home"), "snapshot of a whole machine"),
    "two clones of one machine": (SNAPSHOT.format(use="use", gone="mv home running"), "snapshot of a whole machine"),
    "two containers of one image that contains a store": (
        containers("disk/build:disk/base", IMAGE, "use c/store", "use c/store"), "in the image of a container",
    ),
    "two containers of one image that contains a store, adopted in both": (
        containers("disk/build:disk/base", IMAGE, "adopt c/store", "adopt c/store"), "in the image of a container",
    ),
}  # fmt: skip
"""Scenarios whose second noise is not noticed, with words of docs/store.md about them."""
VOLUME = "mkdir -p c/volume; mount --bind home c/volume; use c/volume/store; umount c/volume"
HONEST = {
    "moved": "mv home/store elsewhere; use elsewhere/store",
    "moved with its mark": "mv home/store home/store.generation elsewhere; use elsewhere/store",
    "moved with its parent": "mv home renamed; use renamed/store",
    "moved there and back": "mv home/store elsewhere; use elsewhere/store; mv elsewhere/store home; use home/store; "
    "mv home/store elsewhere; use elsewhere/store",
    "moved without being opened": "mv home/store elsewhere; mv elsewhere/store home; use home/store",
    "from its backup": "backup home/store kept/store; rm -r home/store; cp -a kept/store home/store; "
    "adopt home/store; use home/store",
    "newest put back": "use home/store; cp -a home/store kept; find home/store -mindepth 1 -delete; "
    "cp -a kept/store/. home/store; adopt home/store",
    "after a crash before the mark": "unmarked home/store; use home/store; use home/store",
    "clock put back": "touch -d @0 home/store; use home/store",
    "on another disk": "mount -t tmpfs tmpfs c; cp -a home/store c/store; rm -r home; adopt c/store; use c/store",
    "remounted": "truncate -s 64M disk.img; mkfs.ext4 -q disk.img; mount -o loop disk.img c; make c/store; "
    "use c/store; umount c; mount -o loop disk.img c; use c/store; umount c; mount -o loop disk.img elsewhere; "
    "use elsewhere/store",
    "in new containers": containers("disk/base", "make home/store; true", VOLUME, VOLUME),
    "of a container that is restarted": "container one disk/base; make c/store; use c/store; umount c; "
    "container one disk/base; use c/store; umount c; container one disk/base; use c/store",
}
"""Legitimate scenarios in which no step may be refused."""
QUICK = (
    "a copy by cp -a is adopted beside the original", "two copies are adopted",
    "a backup is adopted beside the original", "moved and opened, the copy is at the old path and used first",
    "older store restored into the emptied directory",
    "an older home is restored and adopted, but a public ledger is newer",
)  # fmt: skip


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Return a function that runs a scenario, on a tmpfs if the scenario mounts anything, and unmounts afterwards."""

    def take(way):
        root, mount = tmp_path / "root", ["mount", "-t", "tmpfs", "tmpfs", tmp_path / "root"]
        root.mkdir()
        if ("mount" in way or "container" in way) and subprocess.run(mount, check=False).returncode:
            pytest.skip("this process may not mount file systems")
        world = World(root, monkeypatch)
        try:
            world.run(way)
        finally:
            mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
            for place in reversed([place for place in mounts if Path(place).is_relative_to(root)]):
                subprocess.run(["umount", place], check=True)
        return world

    return take


def slow(names):
    """Return scenario names as test parameters, most of which are marked as slow."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("what", slow(BESIDE))
def test_no_way_to_copy_a_store_draws_two_noises_for_a_level(what, taken):
    """In every scenario of copying or restoring a store, noise is drawn at most once for a level."""
    world = taken(BESIDE[what])
    assert world.noises <= 1, f"{world.refusals} refusals of {world.refusals + len(world.seen)}"
    assert world.seen or "container" in what


@pytest.mark.slow
@pytest.mark.parametrize("what", NAMED)
def test_copies_listed_as_not_noticed_are_not_noticed(what, taken):
    """In each scenario that docs/store.md marks "not noticed", two copies of a store draw different noise."""
    assert taken(NAMED[what][0]).noises == 2


@pytest.mark.parametrize("what", slow(HONEST))
def test_whoever_uses_a_store_honestly_is_not_refused(what, taken):
    """A store is not refused after it is moved or remounted, a container restarts, or its newest copy is restored."""
    world = taken(HONEST[what])
    assert (world.noises, world.refusals) == (1, 0)


def test_the_page_lists_all_ways_to_copy_a_store():
    """docs/store.md lists every scenario of these tests, and gives advice for those marked "not noticed"."""
    page = " ".join(PAGE.read_text().split())
    drawn_once, unnoticed = (
        {what for ways in re.findall(rf"\| {outcome} \| [^|]+ \| ([^|]+) \|", page) for what in ways.split("; ")}
        for outcome in ("no noise is drawn twice", r"\*\*not noticed\*\*")
    )
    # Scenarios share one entry of docs/store.md if they differ only in whether a moved store was opened.
    # Scenarios also share an entry if they differ only in whether an older store was restored with its directory.
    joined = {re.sub(r"^moved( and opened)?, ", "", what) for what in BESIDE}
    joined = {what.split(" restored ")[1] if what in RESTORED else what for what in joined}
    missing = [*(joined ^ drawn_once), *(set(NAMED) ^ unnoticed)]
    missing += [what for what, (_, words) in NAMED.items() if words not in page]
    assert not missing
    assert len(BESIDE) + len(NAMED) >= 40
