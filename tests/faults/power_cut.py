"""A model of power cuts: recorded system calls are replayed, and unsynchronised writes may be lost.

`record` runs a command under strace and returns its calls that create, write, rename, remove or synchronise files.
`Disk` replays the calls one by one. After a power cut, a file may have its synchronised contents and any part of the
later writes; a directory has its synchronised entries and the first few of the later changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

CALLS = (
    "open,openat,creat,close,write,pwrite64,writev,pwritev,sendfile,copy_file_range,ftruncate,fallocate,fsync,fdatasync,"
    "sync_file_range,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat"
)
AT = {"open": "openat", "rename": "renameat", "unlink": "unlinkat", "rmdir": "unlinkat", "mkdir": "mkdirat"}
SECTOR = 512
_LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"]+)')


class Call(NamedTuple):
    """A successful system call; calls such as `open` and `rename` are recorded as `openat` and `renameat`."""

    name: str
    arguments: tuple[bytes | str, ...]
    result: int


def record(command, trace, *, cwd):
    """Run a command under strace, and return its file system calls in order."""
    traced = ["strace", "-f", "-qq", "-xx", "-s", str(1 << 24), "-o", str(trace), "-e", f"trace={CALLS}", *command]
    subprocess.run(traced, cwd=cwd, check=True, timeout=300)
    return list(_calls(trace.read_text()))


def _calls(text):
    begun = {}
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
            arguments = []
            for quoted, bare in _ARGUMENT.findall(found[2]):
                if quoted or not bare:
                    arguments += ["AT_FDCWD"] if found[1] in AT else []
                    arguments.append(bytes.fromhex(quoted.replace("\\x", "")))
                elif bare.strip():
                    arguments.append(bare.strip())
            yield Call(AT.get(found[1], found[1]), tuple(arguments), int(found[3]))


class Write(NamedTuple):
    """Bytes written at an offset of a file; if `data` is None, the file is truncated at the offset."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """A file: the contents on the disk, and pending writes since the last fsync."""

    durable: bytes = b""
    pending: list[Write] = field(default_factory=list)

    def synchronise(self):
        self.durable, self.pending = written(self.durable, self.pending), []


@dataclass(eq=False)
class Directory:
    """A directory: the entries on the disk, and pending changes of entries since the last fsync."""

    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)

    def entries(self, changes=None):
        """Return the directory's entries after the first `changes` pending changes, by default after all of them."""
        found = {**self.durable}
        for change in self.pending[:changes]:
            found |= change
        return {name: node for name, node in found.items() if node is not None}

    def synchronise(self):
        self.durable, self.pending = self.entries(), []


Node = File | Directory


def written(content, writes):
    """Return the contents of a file after a list of writes; gaps between writes are filled with zeros."""
    out = bytearray(content)
    for offset, data in writes:
        if data is None:
            del out[offset:]
        out.extend(bytes(max(offset + len(data or b"") - len(out), 0)))
        if data:
            out[offset : offset + len(data)] = data
    return bytes(out)


class Disk:
    """A model of a directory on disk, which replays system calls and records what is not synchronised yet."""

    def __init__(self, root):
        """Read the directory from the disk, and treat its contents as synchronised."""
        self._root, self.top = root, _read(root)
        self._open: dict[int, tuple[Node, int]] = {}  # dict from file descriptor to (file or directory, offset)

    def replay(self, call):
        """Replay one system call, and return whether it changed or synchronised anything."""
        if call.name in ("close", "write", "pwrite64", "sendfile", "ftruncate", "fsync", "fdatasync"):
            descriptor = int(call.arguments[0])
            return descriptor in self._open and self._replay_open(call, descriptor, *self._open[descriptor])
        if call.name == "openat":
            return self._opened(*call.arguments[:3], call.result)
        if call.name in ("renameat", "renameat2"):
            return self._renamed(self._find(*call.arguments[:2]), self._find(*call.arguments[2:4]))
        if call.name in ("unlinkat", "mkdirat"):
            found = self._find(*call.arguments[:2])
            if found is not None:
                directory, name = found
                directory.pending.append({name: Directory() if call.name == "mkdirat" else None})
            return found is not None
        if call.name == "syscall_0x1c3":  # older versions of strace print cachestat like this; it changes no file
            return False
        raise NotImplementedError(call.name)

    def _replay_open(self, call, descriptor, node, offset):
        match call.name:
            case "close":
                del self._open[descriptor]
                return False
            case "fsync" | "fdatasync":
                node.synchronise()
            case "ftruncate":
                node.pending.append(Write(int(call.arguments[1]), None))
            case "pwrite64":
                node.pending.append(Write(int(call.arguments[3]), call.arguments[1]))
            case "write":
                node.pending.append(Write(offset, call.arguments[1]))
                self._open[descriptor] = node, offset + call.result
            case "sendfile":  # the system call with which shutil copies files
                source, _ = self._open[int(call.arguments[1])]
                start = int(call.arguments[2].partition("]")[0].lstrip("["))
                content = written(source.durable, source.pending)[start : start + call.result]
                assert len(content) == call.result, call
                node.pending.append(Write(offset, content))
                self._open[descriptor] = node, offset + call.result
        assert "write" not in call.name or len(call.arguments[1]) == call.result, call
        return True

    def _opened(self, where, path, flags, descriptor):
        self._open.pop(descriptor, None)
        found = self._find(where, path)
        if found is None:
            return False
        if "O_TMPFILE" in flags:  # a file without a name, which a power cut removes
            self._open[descriptor] = File(), 0
            return False
        directory, name = found
        node = directory.entries().get(name) if name else directory
        new = node is None
        if new:
            assert "O_CREAT" in flags, path
            node = File()
            directory.pending.append({name: node})
        elif "O_TRUNC" in flags:
            node.pending.append(Write(0, None))
        self._open[descriptor] = node, len(written(node.durable, node.pending)) if "O_APPEND" in flags else 0
        return new or "O_TRUNC" in flags

    def _renamed(self, before, after):
        """Record a rename as one change within a directory, or as two independent changes between two directories."""
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

    def _find(self, where, name):
        """Return the modelled directory of a file and the file's name in it, or None if the file is elsewhere."""
        path = Path(os.fsdecode(name))
        if where == "AT_FDCWD" or path.is_absolute():
            if not path.is_relative_to(self._root):
                return None
            parts, node = path.relative_to(self._root).parts, self.top
        elif int(where) in self._open:
            parts, node = path.parts, self._open[int(where)][0]
        else:
            return None
        for part in parts[:-1]:
            node = node.entries()[part]
        return node, parts[-1] if parts else ""


class Cut(NamedTuple):
    """A kind of power cut, which determines the unsynchronised changes that survive.

    Attributes:
        changes: Function from the number of pending changes of a directory to the number that survive, oldest first.
        writes: Function from the pending writes of a file to the writes that survive.
    """

    name: str
    changes: Callable[[int], int]
    writes: Callable[[list[Write]], list[Write]]


def zeros(writes):
    """Return these writes with every byte replaced by zero."""
    return [Write(offset, data and bytes(len(data))) for offset, data in writes]


def cuts(chance):
    """Return all kinds of power cuts, from a loss of all unsynchronised changes to a loss of only a few."""

    def some(writes):
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


def put(directory, place, cut):
    """Write the contents that survive a power cut into an existing directory, whose inode stays the same."""
    wanted = directory.entries(cut.changes(len(directory.pending)))
    for there in list(place.iterdir()):
        if not there.is_dir():
            there.unlink()
        elif not isinstance(wanted.get(there.name), Directory):
            shutil.rmtree(there)
    for name, node in wanted.items():
        if isinstance(node, Directory):
            (place / name).mkdir(mode=0o700, exist_ok=True)
            put(node, place / name, cut)
        else:
            (place / name).write_bytes(written(node.durable, cut.writes(node.pending)))
            (place / name).chmod(0o600)


def _read(place):
    return Directory(
        {inner.name: _read(inner) if inner.is_dir() else File(inner.read_bytes()) for inner in place.iterdir()}
    )
