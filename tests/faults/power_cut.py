"""A model of power cuts: recorded system calls are replayed, and unsynchronised writes may be lost.

`record` runs some work under strace and returns its calls that create, write, rename, remove or synchronise files.
`Disk` replays them one by one and gives the possible contents after a power cut at that moment: of every file the
synchronised contents and any part of later writes; of every directory the synchronised entries and the first few of
the later changes.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

CALLS = (
    "open,openat,creat,close,write,pwrite64,writev,pwritev,ftruncate,fallocate,fsync,fdatasync,sync_file_range,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat"
)
SECTOR = 512
_LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"]+)')


class Call(NamedTuple):
    """A system call that succeeded."""

    name: str
    arguments: tuple[bytes | str, ...]
    result: int


def record(command: Sequence[str], trace: Path, *, cwd: Path) -> list[Call]:
    """Run a command and return its calls, in order."""
    traced = ["strace", "-f", "-qq", "-xx", "-s", str(1 << 24), "-o", str(trace), "-e", f"trace={CALLS}", *command]
    subprocess.run(traced, cwd=cwd, check=True, timeout=300)
    return list(_calls(trace.read_text()))


def _calls(text: str) -> Iterator[Call]:
    begun: dict[str, str] = {}
    for whole in text.splitlines():
        thread = whole.partition(" ")[0]
        line = whole
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        if "resumed>" in line:
            line = begun.pop(thread) + line.partition("resumed>")[2]
        found = _LINE.match(line)
        if found and int(found[3]) >= 0:
            arguments = tuple(
                bytes.fromhex(text.replace("\\x", "")) if text or not bare else bare.strip()
                for text, bare in _ARGUMENT.findall(found[2])
                if text or bare.strip()
            )
            yield Call(found[1], arguments, int(found[3]))


class Write(NamedTuple):
    """Bytes written at a place; None cuts the file there."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """A file: what is on the disk, and what was written since it was synchronised."""

    durable: bytes = b""
    pending: list[Write] = field(default_factory=list)

    def synchronise(self) -> None:
        self.durable, self.pending = written(self.durable, self.pending), []


@dataclass(eq=False)
class Directory:
    """A directory: its entries on the disk, and how they changed since it was synchronised."""

    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)

    def entries(self, changes: int | None = None) -> dict[str, Node]:
        """Its entries after the first `changes` pending changes, or after all of them."""
        found: dict[str, Node | None] = {**self.durable}
        for change in self.pending[:changes]:
            found |= change
        return {name: node for name, node in found.items() if node is not None}

    def synchronise(self) -> None:
        self.durable, self.pending = self.entries(), []


Node = File | Directory


def written(content: bytes, writes: Sequence[Write]) -> bytes:
    """A file after some writes; what lies between them is zero."""
    out = bytearray(content)
    for offset, data in writes:
        if data is None:
            del out[offset:]
        out.extend(bytes(max(offset + len(data or b"") - len(out), 0)))
        if data:
            out[offset : offset + len(data)] = data
    return bytes(out)


class Disk:
    """A directory in a model, which replays calls."""

    def __init__(self, root: Path) -> None:
        """Take what is there as synchronised."""
        self._root = root
        self.top = _read(root)
        self._open: dict[int, tuple[Node, int]] = {}

    def replay(self, call: Call) -> bool:
        """Replay one call; whether it changed or synchronised anything."""
        replayed = _REPLAY.get(call.name)
        if replayed is None:
            raise NotImplementedError(call.name)
        return replayed(self, call)

    def opened(self, call: Call) -> bool:
        """Open a file: it may be new, or cut to nothing."""
        where, flags = (call.arguments[:2], str(call.arguments[2])) if call.name == "openat" else (
            ("AT_FDCWD", call.arguments[0]), str(call.arguments[1])
        )  # fmt: skip
        self._open.pop(call.result, None)
        found = self._find(*where)
        if found is None:
            return False
        if "O_TMPFILE" in flags:  # without a name: gone after a cut
            self._open[call.result] = File(), 0
            return False
        directory, name = found
        node = directory.entries().get(name) if name else directory
        new = node is None
        if node is None:
            assert "O_CREAT" in flags, call
            node = File()
            directory.pending.append({name: node})
        elif "O_TRUNC" in flags and isinstance(node, File):
            node.pending.append(Write(0, None))
        at_end = "O_APPEND" in flags and isinstance(node, File)
        self._open[call.result] = node, len(written(node.durable, node.pending)) if at_end else 0
        return new or "O_TRUNC" in flags

    def closed(self, call: Call) -> bool:
        """Forget a descriptor."""
        self._open.pop(int(str(call.arguments[0])), None)
        return False

    def wrote(self, call: Call) -> bool:
        """Write where the descriptor stands, or at a place."""
        descriptor, data = int(str(call.arguments[0])), call.arguments[1]
        if descriptor not in self._open:
            return False
        node, offset = self._open[descriptor]
        assert isinstance(node, File) and isinstance(data, bytes) and len(data) == call.result, call
        if call.name == "pwrite64":
            node.pending.append(Write(int(str(call.arguments[3])), data))
        else:
            node.pending.append(Write(offset, data))
            self._open[descriptor] = node, offset + len(data)
        return True

    def cut(self, call: Call) -> bool:
        """Change the size of a file."""
        descriptor = int(str(call.arguments[0]))
        if descriptor not in self._open:
            return False
        node, _ = self._open[descriptor]
        assert isinstance(node, File)
        node.pending.append(Write(int(str(call.arguments[1])), None))
        return True

    def synchronised(self, call: Call) -> bool:
        """Put a file or the entries of a directory on the disk."""
        descriptor = int(str(call.arguments[0]))
        if descriptor not in self._open:
            return False
        self._open[descriptor][0].synchronise()
        return True

    def renamed(self, call: Call) -> bool:
        """Rename: in one step within a directory, in two that may be lost apart between directories."""
        old, new = (call.arguments[:2], call.arguments[2:4]) if call.name != "rename" else (
            ("AT_FDCWD", call.arguments[0]), ("AT_FDCWD", call.arguments[1])
        )  # fmt: skip
        before, after = self._find(*old), self._find(*new)
        if before is None and after is None:
            return False
        assert before is not None and after is not None, "renamed into or out of what is watched"
        (source, name), (target, new) = before, after
        node = source.entries()[name]
        if source is target:
            source.pending.append({name: None, new: node})
        else:
            target.pending.append({new: node})
            source.pending.append({name: None})
        return True

    def removed(self, call: Call) -> bool:
        """Remove a file or directory."""
        return self._change(call, None)

    def made(self, call: Call) -> bool:
        """Make a directory."""
        return self._change(call, Directory())

    def _change(self, call: Call, node: Node | None) -> bool:
        found = self._find(*(call.arguments[:2] if call.name.endswith("at") else ("AT_FDCWD", call.arguments[0])))
        if found is not None:
            directory, name = found
            directory.pending.append({name: node})
        return found is not None

    def _find(self, where: bytes | str, name: bytes | str) -> tuple[Directory, str] | None:
        """The directory something stands in and its name there; None outside of what is watched."""
        assert isinstance(name, bytes)
        parts: Sequence[str]
        if where == "AT_FDCWD" or name.startswith(b"/"):
            path = Path(os.fsdecode(name))
            if not path.is_relative_to(self._root):
                return None
            parts, node = path.relative_to(self._root).parts, self.top
        else:
            if int(str(where)) not in self._open:
                return None
            parts, node = Path(os.fsdecode(name)).parts, self._open[int(str(where))][0]
        assert isinstance(node, Directory)
        for part in parts[:-1]:
            node = node.entries()[part]
            assert isinstance(node, Directory)
        return node, parts[-1] if parts else ""


_REPLAY: dict[str, Callable[[Disk, Call], bool]] = {
    **dict.fromkeys(("open", "openat"), Disk.opened),
    "close": Disk.closed,
    **dict.fromkeys(("write", "pwrite64"), Disk.wrote),
    "ftruncate": Disk.cut,
    **dict.fromkeys(("fsync", "fdatasync"), Disk.synchronised),
    **dict.fromkeys(("rename", "renameat", "renameat2"), Disk.renamed),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), Disk.removed),
    **dict.fromkeys(("mkdir", "mkdirat"), Disk.made),
    "syscall_0x1c3": lambda *_: False,  # cachestat, which reads; an older strace has no name for it
}


class Cut(NamedTuple):
    """Which unsynchronised changes survive a power cut.

    Attributes:
        changes: From the number of pending changes of a directory, how many are kept, from the first on.
        writes: From the pending writes to a file, those that are kept.
    """

    name: str
    changes: Callable[[int], int]
    writes: Callable[[list[Write]], list[Write]]


def zeros(writes: list[Write]) -> list[Write]:
    """The size of a file has reached the disk, what was written has not."""
    return [Write(offset, data and bytes(len(data))) for offset, data in writes]


def cuts(chance: random.Random) -> list[Cut]:
    """All is lost, all names or all contents are kept, and whatever falls between."""

    def some(writes: list[Write]) -> list[Write]:
        sectors = [
            Write(offset + at, data[at : at + SECTOR]) if data else Write(offset, data)
            for offset, data in writes
            for at in range(0, len(data or b"") or 1, SECTOR)
        ]
        return [sector for sector in sectors if chance.random() < 0.5]

    return [
        Cut("nothing kept", lambda _: 0, lambda _: []),
        Cut("names kept", lambda n: n, lambda _: []),
        Cut("names and sizes kept", lambda n: n, zeros),
        Cut("contents kept", lambda _: 0, lambda writes: writes),
        Cut("all but the last name kept", lambda n: max(n - 1, 0), lambda writes: writes),
        Cut("some sectors kept", lambda n: chance.randint(0, n), some),
        Cut("all names, some sectors kept", lambda n: n, some),
        Cut("some names, all contents kept", lambda n: chance.randint(0, n), lambda writes: writes),
    ]


def put(directory: Directory, place: Path, cut: Cut) -> None:
    """Write the contents after a cut into the existing directory, so that its inode does not change."""
    wanted = directory.entries(cut.changes(len(directory.pending)))
    for there in list(place.iterdir()):
        if not (there.is_dir() and isinstance(wanted.get(there.name), Directory)):
            _remove(there)
    for name, node in wanted.items():
        if isinstance(node, Directory):
            (place / name).mkdir(mode=0o700, exist_ok=True)
            put(node, place / name, cut)
        else:
            (place / name).write_bytes(written(node.durable, cut.writes(node.pending)))
            (place / name).chmod(0o600)


def _remove(place: Path) -> None:
    if place.is_dir():
        for inner in place.iterdir():
            _remove(inner)
        place.rmdir()
    else:
        place.unlink()


def _read(place: Path) -> Directory:
    return Directory(
        {inner.name: _read(inner) if inner.is_dir() else File(inner.read_bytes()) for inner in place.iterdir()}
    )
