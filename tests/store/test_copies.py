"""Ways to copy, restore and move a store: two noises for one level are prevented, detected, or named on the page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import NotFoundError, StoreDamagedError, StoreRolledBackError
from sparsehist.store import lifecycle, opening, state
from sparsehist.store.database import Database

PAGE = Path(__file__).parents[2] / "docs" / "store.md"
COUNTS = pl.DataFrame({"word": [f"key{i}" for i in range(50)], "count": range(1, 101, 2)})
PLACES = ("home", "public", "elsewhere", "kept", "c")
REFUSED = (StoreRolledBackError, StoreDamagedError, NotFoundError)


def shell(*words: object) -> None:
    """Run a command of the system."""
    subprocess.run([str(word) for word in words], check=True, timeout=60, capture_output=True)


@dataclass
class World:
    """A place with a store, and the numbers that left it."""

    root: Path
    patch: pytest.MonkeyPatch
    seen: list[pl.DataFrame] = field(default_factory=list)
    refusals: int = 0

    def __post_init__(self) -> None:
        for name in PLACES:
            (self.root / name).mkdir(parents=True)
        self.store = self.root / "home" / "store"

    def make(self, store: Path | None = None) -> Path:
        """Make the store, with a series and two releases."""
        series = sh.create(
            store or self.store, sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2,
            domain=sh.Strings(max_bytes=6),
        )  # fmt: skip
        for name in ("before", "also_before"):
            series.release(name, level="1/2")
        return store or self.store

    def use(self, store: Path | None = None, *, adopt: bool = False, publish: bool = False) -> bool:
        """Release at a level nobody released at before, as whoever finds a store would; whether it went through."""
        store = store or self.store
        try:
            if adopt:
                sh.adopt(store, home_is_gone=True)
            release = sh.open(store).series("words").release("first", level=1)
            if publish:
                release.write_parquet(self.root / "public" / f"{len(self.seen)}.parquet")
        except REFUSED:
            self.refusals += 1
            return False
        self.seen.append(release.frame)
        return True

    def again(self, store: Path | None = None, *, adopt: bool = False) -> None:
        """Release what must go through."""
        assert self.use(store, adopt=adopt), "refused"

    def copy(self, to: str, *, what: Path | None = None) -> Path:
        """`cp -a`, by default of the store."""
        shell("cp", "-a", what or self.store, self.root / to)
        return self.root / to

    def restore(self, kept: Path, to: Path) -> None:
        """Empty a directory and put the content of another one there; it stays the same directory."""
        for place in list(to.iterdir()):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        shell("cp", "-a", f"{kept}/.", to)

    @property
    def noises(self) -> int:
        """How many different answers there are for one level."""
        return len({frame.hash_rows(seed=1).sum() for frame in self.seen})


def beside(world: World, how: tuple[str, ...], *, adopt: bool = False) -> None:
    """A copy is made and both are used."""
    world.make()
    shell(*how, world.store, world.root / "copy")
    world.use()
    world.use(world.root / "copy", adopt=adopt)


def through_tar(world: World) -> None:
    """Packed, unpacked elsewhere, both are used."""
    world.make()
    shell("tar", "-C", world.root / "home", "-cf", world.root / "kept" / "a.tar", "store", "store.generation")
    world.use()
    shell("tar", "-C", world.root / "elsewhere", "-xf", world.root / "kept" / "a.tar")
    world.use(world.root / "elsewhere" / "store")


def backed_up(world: World, *, adopt: bool) -> None:
    """A backup is used beside the original."""
    sh.open(world.make()).backup(world.root / "copy")
    world.use(world.root / "copy", adopt=adopt)
    world.use()


def two_copies(world: World, *, of: str, names: tuple[str, str] = ("copy", "other")) -> None:
    """The original is gone, and two copies are adopted one after the other."""
    world.make()
    for name in names:
        if of == "backup":
            sh.open(world.store).backup(world.root / name)
        else:
            world.copy(name)
    shutil.rmtree(world.store)
    for name in names:
        world.use(world.root / name, adopt=True)


def moved_away(world: World, *, opened: bool, copy_at: str, first: str) -> None:
    """The original is moved, a copy made before stands where it was or elsewhere; both are used, one first."""
    world.make()
    kept = world.copy("kept/store")
    moved = world.store.rename(world.root / "elsewhere" / "store")
    if opened:
        sh.open(moved)
    copy = world.store if copy_at == "home" else world.root / "copy"
    shell("cp", "-a", kept, copy)
    uses = [lambda: world.use(copy, adopt=True), lambda: world.use(moved)]
    for use in uses if first == "copy" else uses[::-1]:
        use()


def restored(world: World, *, how: str, what: str, adopt: bool = False, published: bool = False) -> None:
    """The level goes out, then an older copy is put back: by which command, and of what."""
    world.make()
    if published:
        sh.open(world.store).series("words").release("before").write_parquet(world.root / "public" / "before.parquet")
    world.copy("kept/all", what=world.root / "home")
    world.use(publish=published)
    home, kept = world.root / "home", world.root / "kept" / "all"
    source, target = {
        "store": (kept / "store", world.store),
        "home": (kept, home),
        "state": (kept / "store" / "state.sqlite", world.store / "state.sqlite"),
    }[what]
    if how == "over it":
        shell("cp", "-a", source if source.is_file() else f"{source}/.", target)
    elif how == "in place":
        world.restore(source, target)
        if what == "store":
            assert (home / "store.generation").exists()
    elif how == "anew":
        shutil.rmtree(target)
        shell("cp", "-a", source, target)
    elif how == "tar":
        shell("tar", "-C", source, "-cf", world.root / "kept" / "a.tar", ".")
        shell("tar", "-C", target, "-xf", world.root / "kept" / "a.tar")
    elif how == "by name":
        target.rename(world.root / "kept" / "newer")
        source.rename(target)
    world.use(adopt=adopt, publish=published)


def without_mark(world: World) -> None:
    """An older copy is put back in place and the mark beside it is deleted."""
    world.make()
    kept = world.copy("kept/store")
    world.use()
    world.restore(kept, world.store)
    (world.root / "home" / "store.generation").unlink()
    world.use()


def revived(world: World) -> None:
    """A disk is taken for dead, a copy adopted on another machine, and then the disk comes back."""
    world.make()
    copy = world.copy("copy")
    dead = (world.root / "home").rename(world.root / "dead")
    world.use(copy, adopt=True)
    dead.rename(world.root / "home")
    world.use()


def back_from_the_trash(world: World) -> None:
    """The original is thrown away, a copy adopted, and the original taken back out."""
    world.make()
    copy = world.copy("copy")
    trash = world.store.rename(world.root / "kept" / "trash")
    world.use(copy, adopt=True)
    trash.rename(world.store)
    world.use()


def blind(world: World) -> None:
    """Nothing on this machine tells a copy: no number of a directory, no time."""
    for module in (opening, lifecycle):
        world.patch.setattr(module, "identity_of", lambda _: "1:1")


def snapshot(world: World, *, side_by_side: bool = False, published: bool = False) -> None:
    """A whole machine is put back, or runs twice: nothing on it, no time and no number, tells."""
    blind(world)
    world.make()
    if published:
        sh.open(world.store).series("words").release("before").write_parquet(world.root / "public" / "before.parquet")
    world.copy("kept/all", what=world.root / "home")
    world.use(publish=published)
    shutil.rmtree(world.root / "home") if not side_by_side else (world.root / "home").rename(world.root / "running")
    shell("cp", "-a", world.root / "kept" / "all", world.root / "home")
    world.use(publish=published)


def by_link(world: World) -> None:
    """By its name and by a symbolic link: one store."""
    world.make()
    (world.root / "link").symlink_to(world.store)
    world.use(world.root / "link")
    world.use()


def hard_linked(world: World) -> None:
    """`cp -al`: all files are shared, the directory is not."""
    world.make()
    shell("cp", "-al", world.store, world.root / "copy")
    world.use(world.root / "copy")
    world.use(adopt=True)


def mixed(world: World) -> None:
    """The state of one store in the directory of another."""
    world.make()
    other = world.make(world.root / "elsewhere" / "store")
    world.use()
    shutil.copy(world.store / "state.sqlite", other / "state.sqlite")
    world.use(other)


def in_part(world: World) -> None:
    """Only the state, without the series."""
    world.make()
    (world.root / "copy").mkdir()
    for name in ("state.sqlite", "format"):
        shutil.copy(world.store / name, world.root / "copy" / name)
    world.use()
    world.use(world.root / "copy", adopt=True)


def killed_while_committing(world: World) -> None:
    """A copy is made while a transaction stands open, journal and all, and put back in place later."""
    world.make()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012

        def dies(*_: object, **__: object) -> None:
            world.copy("kept/store")
            raise KeyboardInterrupt

        with world.patch.context() as patch:
            patch.setattr("sparsehist.store.state.insert_event", dies)
            world.use()
    world.use()
    world.restore(world.root / "kept" / "store", world.store)
    world.use()


def bound(world: World) -> None:
    """One directory, mounted at a second place: one store."""
    world.make()
    with mounted("--bind", world.root / "home", world.root / "c"):
        world.use(world.root / "c" / "store")
        world.use()
        world.use(world.root / "c" / "store")


@contextmanager
def mounted(*what: object) -> Iterator[None]:
    """Mount something for the length of a block."""
    shell("mount", *what)
    try:
        yield
    finally:
        shell("umount", what[-1])


@contextmanager
def container(world: World, name: str, *lower: Path) -> Iterator[Path]:
    """A container: its own changes over the layers of an image, always at the same path."""
    upper, work = world.root / "disk" / name, world.root / "disk" / f"{name}.work"
    for place in (upper, work):
        place.mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    with mounted("-t", "overlay", "overlay", "-o", layers, world.root / "c"):
        yield world.root / "c"


def containers(world: World, *, store_in: str, adopt: bool = False) -> None:
    """Two containers with a store at one path: of the image, or copied into each by itself."""
    (world.root / "disk" / "base").mkdir(parents=True)
    base = world.root / "disk" / "base"
    numbers = set()
    if store_in == "image":
        with container(world, "build", base) as root:
            world.make(root / "store")
        image = [world.root / "disk" / "build", base]
    else:
        world.make()
        image = [base]
    for name in ("one", "two"):
        with container(world, name, *image) as root:
            if store_in == "each":
                shell("cp", "-a", world.store, root / "store")
            numbers.add((root / "store").stat().st_ino if store_in == "image" else 0)
            world.use(root / "store", adopt=adopt)
    assert len(numbers) == 1, "this machine numbers the directories of overlays"


DETECTED, NAMED = "detected", "named"
WAYS: dict[str, tuple[Callable[[World], None], str, str]] = {
    "cp -a": (lambda w: beside(w, ("cp", "-a")), DETECTED, ""),
    "cp -r": (lambda w: beside(w, ("cp", "-r")), DETECTED, ""),
    "cp -a, adopted beside the original": (lambda w: beside(w, ("cp", "-a"), adopt=True), DETECTED, ""),
    "cp -al": (hard_linked, DETECTED, ""),
    "tar": (through_tar, DETECTED, ""),
    "backup": (lambda w: backed_up(w, adopt=False), DETECTED, ""),
    "backup, adopted beside the original": (lambda w: backed_up(w, adopt=True), DETECTED, ""),
    "two copies adopted": (lambda w: two_copies(w, of="copy"), DETECTED, ""),
    "two backups adopted": (lambda w: two_copies(w, of="backup"), DETECTED, ""),
    "two backups adopted, one of them at home": (
        lambda w: two_copies(w, of="backup", names=("home/copy", "elsewhere/copy")), DETECTED, "",
    ),
    **{
        f"moved{' and opened' * opened}, a copy {at}, {first} first": (
            lambda w, opened=opened, at=at, first=first: moved_away(w, opened=opened, copy_at=at, first=first),
            DETECTED,
            "",
        )
        for opened in (False, True)
        for at in ("home", "elsewhere")
        for first in ("copy", "original")
    },
    **{
        f"older {what} put back {how}": (lambda w, how=how, what=what: restored(w, how=how, what=what), DETECTED, "")
        for how, what in (
            ("over it", "store"), ("in place", "store"), ("anew", "store"), ("tar", "store"), ("by name", "store"),
            ("over it", "state"), ("over it", "home"), ("in place", "home"), ("anew", "home"), ("tar", "home"),
            ("by name", "home"),
        )
    },
    "older store put back in place and adopted": (
        lambda w: restored(w, how="in place", what="store", adopt=True), DETECTED, "",
    ),
    "older home put back and adopted, a ledger knows": (
        lambda w: restored(w, how="anew", what="home", adopt=True, published=True), DETECTED, "",
    ),
    "older home put back and adopted": (
        lambda w: restored(w, how="anew", what="home", adopt=True), NAMED, "put back together with its mark",
    ),
    "older store put back, its mark deleted": (without_mark, DETECTED, ""),
    "a dead disk comes back": (revived, NAMED, "A disk that was taken for dead"),
    "back from the trash": (back_from_the_trash, DETECTED, ""),
    "snapshot of a machine put back": (snapshot, NAMED, "snapshot of a whole machine"),
    "snapshot of a machine put back, a ledger knows": (lambda w: snapshot(w, published=True), DETECTED, ""),
    "clones of a machine": (lambda w: snapshot(w, side_by_side=True), NAMED, "snapshot of a whole machine"),
    "by a link": (by_link, DETECTED, ""),
    "the state of another store": (mixed, DETECTED, ""),
    "the state alone": (in_part, DETECTED, ""),
    "a copy of an open transaction": (killed_while_committing, DETECTED, ""),
    "mounted twice": (bound, DETECTED, "mount"),
    "containers with copies of a store": (lambda w: containers(w, store_in="each"), DETECTED, "mount"),
    "containers of an image with a store": (
        lambda w: containers(w, store_in="image"), NAMED, "in the image of a container",
    ),
    "containers of an image with a store, adopted": (
        lambda w: containers(w, store_in="image", adopt=True), NAMED, "in the image of a container",
    ),
}  # fmt: skip


def can_mount(place: Path) -> bool:
    """Whether this process may mount file systems."""
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False, capture_output=True)
    return done.returncode == 0 and subprocess.run(["umount", place], check=False).returncode == 0


def tried(what: str, root: Path) -> tuple[str, World]:
    """Try a way to copy a store: whether two noises for one level came out."""
    way, _, _ = WAYS[what]
    with pytest.MonkeyPatch.context() as patch:
        world = World(root, patch)
        with mounted("-t", "tmpfs", "tmpfs", world.root) if "container" in what else nullcontext():
            for name in PLACES:
                (world.root / name).mkdir(exist_ok=True)
            way(world)
    return (DETECTED if world.noises <= 1 else NAMED), world


def row(what: str) -> str:
    """The line of a way in the table of the page."""
    return f"| {what} | {'no noise is drawn twice' if WAYS[what][1] == DETECTED else '**not noticed**'} |"


@pytest.mark.slow
def test_no_way_to_copy_a_store_draws_two_noises_for_a_level(tmp_path):
    """At most one noise, or the page names the way and what to do; its table lists all of them."""
    mounts = can_mount(tmp_path / "probe")
    page = " ".join(PAGE.read_text().split())
    wrong = {}
    for number, (what, (_, expected, how)) in enumerate(WAYS.items()):
        if row(what) not in page or (expected == NAMED and how not in page):
            wrong[what] = "the page does not name it"
        elif mounts or not (how == "mount" or "container" in what):
            found, world = tried(what, tmp_path / str(number))
            if found != expected or (found == DETECTED and not world.seen and "container" not in what):
                wrong[what] = f"{found}, {world.refusals} refusals of {world.refusals + len(world.seen)}"
    assert not wrong
    assert len(WAYS) >= 40


def interrupt() -> None:
    """Die, as far as the code that runs can tell."""
    raise KeyboardInterrupt


def in_another_process(world: World) -> None:
    """In another process."""
    program = "import sys, sparsehist as sh; sh.open(sys.argv[1]).series('words').release('other', level='1/3')"
    subprocess.run([sys.executable, "-c", program, world.store], check=True, timeout=60)
    world.again()


def moved(world: World) -> None:
    """Moved."""
    world.again(world.store.rename(world.root / "elsewhere" / "store"))


def moved_with_its_mark(world: World) -> None:
    """Moved with its mark."""
    for name in ("store", "store.generation"):
        shell("mv", world.root / "home" / name, world.root / "elsewhere")
    world.again(world.root / "elsewhere" / "store")


def moved_with_its_parent(world: World) -> None:
    """Moved with its parent."""
    world.again((world.root / "home").rename(world.root / "renamed") / "store")


def moved_there_and_back(world: World) -> None:
    """Moved there and back."""
    away = world.root / "elsewhere" / "store"
    for one, other in ((world.store, away), (away, world.store), (world.store, away)):
        world.again(one.rename(other))


def moved_without_being_opened(world: World) -> None:
    """Moved without being opened."""
    away = world.root / "elsewhere" / "store"
    for name in ("a", "b"):
        (world.store if name == "a" else away).rename(away if name == "a" else world.store)
    world.again()


def on_another_disk(world: World) -> None:
    """On another disk."""
    with mounted("-t", "tmpfs", "tmpfs", world.root / "c"):
        shell("cp", "-a", world.store, world.root / "c" / "store")
        shutil.rmtree(world.root / "home")
        world.again(world.root / "c" / "store", adopt=True)
        world.again(world.root / "c" / "store")


def from_its_backup(world: World) -> None:
    """From its backup."""
    sh.open(world.store).backup(world.root / "kept" / "store")
    shutil.rmtree(world.store)
    shell("cp", "-a", world.root / "kept" / "store", world.store)
    world.again(adopt=True)
    world.again()


def remounted(world: World) -> None:
    """Remounted."""
    image = world.root / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    shell("mkfs.ext4", "-q", image)
    for attempt in range(3):
        with mounted("-o", "loop", image, world.root / "c"):
            if not attempt:
                world.make(world.root / "c" / "store")
            world.again(world.root / "c" / "store")
    (world.root / "d").mkdir()
    with mounted("-o", "loop", image, world.root / "d"):
        world.again(world.root / "d" / "store")


def in_new_containers(world: World) -> None:
    """In new containers."""
    base = world.root / "disk" / "base"
    base.mkdir(parents=True)
    for name in ("one", "two", "three"):
        with container(world, name, base) as root:
            (root / "volume").mkdir()
            with mounted("--bind", world.root / "home", root / "volume"):
                world.again(root / "volume" / "store")


def of_a_container_that_is_restarted(world: World) -> None:
    """Of a container that is restarted."""
    base = world.root / "disk" / "base"
    base.mkdir(parents=True)
    for attempt in range(3):
        with container(world, "one", base) as root:
            if not attempt:
                world.make(root / "store")
            world.again(root / "store")


def after_a_crash_before_the_mark(world: World) -> None:
    """After a crash before the mark."""
    with world.patch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(state, "raise_mark", lambda *_: interrupt())
        world.use()
    world.again()
    world.again()


def after_a_crash_in_a_transaction(world: World) -> None:
    """After a crash in a transaction."""
    killed = (
        "import os, sys, sparsehist as sh; from sparsehist.store import state\n"
        "state.insert_event = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "sh.open(sys.argv[1]).set_budget(rho=5)"
    )
    subprocess.run([sys.executable, "-c", killed, world.store], check=False, timeout=60)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), world.patch.context() as patch:  # noqa: PT012  after rolling back
            patch.setattr(Database, "rows", lambda *_: interrupt())
            sh.open(world.store)
    world.again()
    world.again()


def after_a_refusal_and_a_publication(world: World) -> None:
    """After a refusal and a publication."""
    with sh.open(world.store) as opened:
        opened.set_budget(rho=2)
        with pytest.raises(sh.errors.BudgetExceededError):
            opened.series("words").release("too_much", level=3)
        world.again()
        opened.series("words").release("first").write_parquet(world.root / "public" / "first.parquet")
    world.again()


def after_a_drop(world: World) -> None:
    """After a drop."""
    sh.create(
        world.store, sh.Counts(COUNTS, largest=1), name="more", key="word", max_keys=2, domain="strings(max_bytes=6)"
    )
    sh.open(world.store).drop("more")
    world.again()


def clock_put_back(world: World) -> None:
    """Clock put back."""
    os.utime(world.store, (0, 0))
    world.again()


NEED_MOUNTS = (on_another_disk, remounted, in_new_containers, of_a_container_that_is_restarted)
HONEST = (
    in_another_process, moved, moved_with_its_mark, moved_with_its_parent, moved_there_and_back,
    moved_without_being_opened, from_its_backup, after_a_crash_before_the_mark, after_a_crash_in_a_transaction,
    after_a_refusal_and_a_publication, after_a_drop, clock_put_back,
)  # fmt: skip


@pytest.mark.slow
def test_whoever_uses_a_store_honestly_is_not_refused(tmp_path, monkeypatch):
    """Reboot, remount, a new container on the same volume, mv, another disk with the old one gone, and more."""
    ways = HONEST + NEED_MOUNTS if can_mount(tmp_path / "probe") else HONEST
    assert len(HONEST) >= 10
    for number, way in enumerate(ways):
        with monkeypatch.context() as patch:
            world = World(tmp_path / str(number), patch)
            if way not in (remounted, of_a_container_that_is_restarted):
                world.make()
            try:
                way(world)
            except Exception as problem:
                raise AssertionError(f"{way.__name__}: {problem!r}") from problem
            assert world.noises == 1, way.__name__
