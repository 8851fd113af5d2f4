"""Signatures of releases and of entries of a public ledger: Ed25519 over one canonical encoding, version 1.

A signature is never over the bytes of a file, so that a release may be compressed anew or rewritten by another
program. The encoding (docs/signatures.md has it with test vectors) is made of values, each a tag of one byte and what
follows; numbers are little-endian, lengths and numbers of items are u64:

    null "n", true "t", false "f", integer "i" + decimal text, real "d" + IEEE 754 double, text "s" + UTF-8 (texts and
    integers with their length in bytes before them), list "l" + number of items + items, map "m" + number of keys +
    keys and values, by rising UTF-8 bytes of the keys;

and of a table: number of columns; for each its name, its type (both as values), its number of rows, a byte 1 or 0 for
each row (0: null), then the values with 0 or "" where there is none: numbers in their own width, texts as the lengths
of all of them and then their UTF-8 bytes.

The *content* of a release is the list ["sparsehist release", 1, metadata] and the table of its rows; its digest is
SHA-256. What is signed is ["sparsehist entry", 1, entry, previous]: the entry of the public ledger, which holds the
digest of the content, and the digest of what was signed before it for the same store in the same directory. The
last entry is sealed by a signature of ["sparsehist chain", 1, store, number of entries, digest of the last one].
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsehist.errors import DeclarationError, InputError, NameTakenError, SignatureError, needing, raise_alone
from sparsehist.store import is_store, write_file
from sparsehist.store.private_files import PUBLIC, disk_errors, read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    PrivateKey = str | os.PathLike[str] | Ed25519PrivateKey
    PublicKey = str | os.PathLike[str] | Ed25519PublicKey
    PublicKeys = PublicKey | Iterable[PublicKey]

FORMAT = 1
FIRST = ""
"""What stands for the digest of the entry before the first one."""
SIGNED = ("previous", "key", "signature")
"""What a signed entry has besides what is signed."""
_PUBLIC_SUFFIX = ".pub"
_WIDTHS = {
    "Boolean": "u1",
    "Date": "<i4",  # days since 1970
    "Float32": "<f4",
    "Float64": "<f8",
    **{f"Int{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}
"""How numbers of each type are laid out; they are signed under its name in lower case."""


def encoded(value: object) -> bytes:
    """A value that JSON has, in the canonical encoding.

    Example:
        >>> encoded(["a"]).hex()
        '6c010000000000000073010000000000000061'
    """
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i" + _sized(str(value).encode())
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + _sized(value.encode())
    if isinstance(value, Mapping):
        items = sorted(((str(key).encode(), item) for key, item in value.items()), key=itemgetter(0))
        return b"m" + _u64(len(items)) + b"".join(b"s" + _sized(key) + encoded(item) for key, item in items)
    if isinstance(value, Sequence):
        return b"l" + _u64(len(value)) + b"".join(map(encoded, value))
    raise TypeError(type(value).__name__)


def content_digest(frame: pl.DataFrame, metadata: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of the canonical encoding of a release."""
    try:
        digest = hashlib.sha256(encoded(["sparsehist release", FORMAT, metadata]))
    except (TypeError, UnicodeEncodeError):
        raise_alone(InputError("the metadata of this release hold values that JSON cannot"))
    digest.update(_u64(frame.width))
    for column in frame:
        for part in _column(column):
            digest.update(part)
    return digest.hexdigest()


def entry_digest(entry: Mapping[str, Any], previous: str) -> str:
    """What stands for an entry in the one after it."""
    return hashlib.sha256(_statement(entry, previous)).hexdigest()


def sign_entry(entry: Mapping[str, Any], previous: str, key: Ed25519PrivateKey) -> dict[str, str]:
    """The signature of an entry, and of the release whose content it has the digest of."""
    return {"previous": previous, **_signed(_statement(entry, previous), key)}


def verify_entry(entry: Mapping[str, Any], signed: object, keys: Sequence[Ed25519PublicKey]) -> str:
    """Check the signature of an entry, "store" included; its digest. `signed` is as anybody may have written it."""
    held = signed if isinstance(signed, Mapping) else {}
    previous = held.get("previous")
    if not isinstance(previous, str):
        raise SignatureError("it is not signed")
    _check_signed(_statement(entry, previous), held, keys)
    return entry_digest(entry, previous)


def seal_chain(store_id: str, entries: int, last: str, key: Ed25519PrivateKey) -> dict[str, str]:
    """The signature of a whole chain: none of its entries can be cut off."""
    return _signed(_chain(store_id, entries, last), key)


def verify_chain(store_id: str, held: Mapping[str, Any], keys: Sequence[Ed25519PublicKey]) -> set[str]:
    """Check every entry of a store in a public ledger, their order, and that none is missing; digests of contents."""
    previous, listed = FIRST, set()
    for number, release in enumerate(held["releases"], start=1):
        entry = {name: value for name, value in release.items() if name not in SIGNED} | {"store": store_id}
        try:
            before, previous = previous, verify_entry(entry, release, keys)
            if release["previous"] != before:
                raise SignatureError("the one before it is missing, or they were reordered")  # noqa: TRY301
        except SignatureError as problem:
            raise SignatureError(f"entry {number} of store {store_id} does not verify: {problem}") from None
        listed.add(str(release.get("digest")))
    try:
        _check_signed(_chain(store_id, len(held["releases"]), previous), held.get("chain"), keys)
    except SignatureError:
        raise SignatureError(
            f"the entries of store {store_id} are not all there, or their end is not signed by a key you trust"
        ) from None
    return listed


def make_keys(path: str | os.PathLike[str]) -> Path:
    """Make a key to sign releases with, and the public key that readers verify them by.

    Args:
        path: Of the private key, a PEM file nobody else can read; outside of every store. The public key stands
            beside it, under the same name and `.pub`.

    Returns:
        The path of the public key.

    Raises:
        NameTakenError: If a file stands at one of the two places.
        DeclarationError: If the place is inside a store.
    """
    made = _ed25519().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives import serialization as pem

    private = _outside_of_stores(Path(path))
    public = private.with_name(private.name + _PUBLIC_SUFFIX)
    for place in (private, public):
        if os.path.lexists(place):
            raise NameTakenError(f"{place} exists: choose another name, a key is never written over")
    text = made.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    write_file(private, text, durable=True)
    text = made.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    write_file(public, text, durable=True, mode=PUBLIC)
    return public


def private_key(given: PrivateKey) -> Any:
    """The key to sign with: one of `cryptography`, or that of a PEM file."""
    kind = _ed25519().Ed25519PrivateKey
    key: Any = given
    if isinstance(key, kind):
        return key
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = _outside_of_stores(Path(key))
    load = partial(load_pem_private_key, password=None)
    key = _loaded(path, load, kind, "private key without a password in PEM, as `keygen` makes it")
    if path.stat().st_mode & 0o077:
        raise SignatureError(f"others may read the private key {path}: make it yours alone with chmod 600")
    return key


def public_keys(given: PublicKeys) -> list[Ed25519PublicKey]:
    """The keys a caller trusts: of `cryptography`, or PEM files; one or several."""
    kind = _ed25519().Ed25519PublicKey
    several: Any = given
    if isinstance(given, str | os.PathLike | kind):
        several = [given]
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    told = "public key in PEM, as `keygen` writes it beside the private one"
    keys = [
        each if isinstance(each, kind) else _loaded(Path(each), load_pem_public_key, kind, told) for each in several
    ]
    if not keys:
        raise SignatureError("no key is given to verify by; leave verify out if nothing is to be verified")
    return keys


def _loaded(path: Path, load: Callable[[bytes], Any], kind: Any, told: str) -> Any:
    """The key of a PEM file, which `told` describes."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = load(read_regular(path))
    except FileNotFoundError:
        raise_alone(SignatureError(f"there is no key {path}"))
    except OSError:
        raise_alone(SignatureError(f"{path} cannot be read as a key"))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise_alone(SignatureError(f"{path} is no {told}"))
    if not isinstance(key, kind):
        raise SignatureError(f"{path} is a {told.partition(' ')[0]} key of another kind: signatures are Ed25519")
    return key


def _outside_of_stores(path: Path) -> Path:
    with disk_errors(path):
        inside = next((place for place in path.resolve().parents if is_store(place)), None)
    if inside is not None:
        raise DeclarationError(f"{path} is inside the store {inside}: a private key is kept outside of every store")
    return path


def _ed25519() -> Any:
    with needing("a signature", "'sparsehist[signatures]'"):
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return ed25519


def _statement(entry: Mapping[str, Any], previous: str) -> bytes:
    try:
        return encoded(["sparsehist entry", FORMAT, dict(entry), previous])
    except (TypeError, UnicodeEncodeError, RecursionError):
        raise_alone(SignatureError("it holds a value that no entry has"))


def _chain(store_id: str, entries: int, last: str) -> bytes:
    return encoded(["sparsehist chain", FORMAT, store_id, entries, last])


def _signed(statement: bytes, key: Ed25519PrivateKey) -> dict[str, str]:
    return {"key": key.public_key().public_bytes_raw().hex(), "signature": key.sign(statement).hex()}


def _check_signed(statement: bytes, signed: object, keys: Sequence[Ed25519PublicKey]) -> None:
    held = signed if isinstance(signed, Mapping) else {}
    if not (isinstance(held.get("key"), str) and isinstance(held.get("signature"), str)):
        raise SignatureError("it is not signed")
    trusted = next((key for key in keys if key.public_bytes_raw().hex() == held["key"]), None)
    if trusted is None:
        raise SignatureError("it is signed by a key that you do not trust")
    from cryptography.exceptions import InvalidSignature

    try:
        trusted.verify(bytes.fromhex(held["signature"]), statement)
    except (InvalidSignature, ValueError):
        raise_alone(SignatureError("it is not what was signed: it was changed since"))


def _column(column: pl.Series) -> Iterator[bytes | memoryview]:
    """The parts of the encoding of a column, none of them a copy of more than it."""
    dtype = column.dtype.base_type()
    there = column.is_not_null().cast(pl.UInt8)
    head = encoded(column.name)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        # Arrow's oldest layout has all texts in one piece, and where each ends.
        texts = column.cast(pl.String).fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
        _, ends, content = texts.buffers()
        bounds = np.frombuffer(ends, "<i8", len(texts) + 1, offset=8 * texts.offset)
        yield head + encoded("string") + _u64(len(column))
        yield there.to_numpy().data
        yield np.diff(bounds).data
        yield b"" if content is None else memoryview(content)[bounds[0] : bounds[-1]]
        return
    kind = str(dtype)
    if kind not in _WIDTHS:
        raise InputError(f"the column {column.name!r} is of type {column.dtype}, which has no canonical form")
    yield head + encoded(kind.lower()) + _u64(len(column))
    yield there.to_numpy().data
    numbers = column.to_physical().fill_null(False if dtype == pl.Boolean else 0).to_numpy()
    if numbers.dtype.kind == "f":  # one of the many that are not a number stands for all
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    yield np.ascontiguousarray(numbers, _WIDTHS[kind]).data


def _sized(content: bytes) -> bytes:
    return _u64(len(content)) + content


def _u64(number: int) -> bytes:
    return struct.pack("<Q", number)
