"""Entering releases into the public ledger beside them, signed or not.

What was published from a store in a directory is one list, in order. Its entries are all signed, each over the one
before it, or none is; entries are only added.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist.errors import SignatureError, StoreRolledBackError
from sparsehist.ledger.signatures import FIRST, SIGNED, entry_digest, seal_chain, sign_entry
from sparsehist.store import editing_ledger, listed_in_ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Entry = dict[str, Any]


def publish(directory: Path, entry: Entry, key: Ed25519PrivateKey | None = None) -> dict[str, str] | None:
    """Add a release to the public ledger of a directory, unless it is there; its signature, if there is a key.

    An entry holds public parameters only: what tells store, release and round, level, noise, threshold, and the
    digest of the content.
    """
    with editing_ledger(directory) as stores:
        store = stores.setdefault(entry["store"], {"generation": -1, "releases": []})
        listed: list[Entry] = store["releases"]
        known = next((each for each in listed if each["generation"] == entry["generation"]), None)
        if known is not None and known["round"] != entry["round"]:
            raise StoreRolledBackError(
                f"the public ledger shows another release of generation {entry['generation']} of this store: the "
                "store was put back from an older copy, and what it drew since must not be published. Restore the "
                "newest copy"
            )
        store["generation"] = max(store["generation"], entry["generation"])
        new = {name: value for name, value in entry.items() if name != "store"}
        if known is not None and known.get("digest") == entry["digest"]:
            if key is not None and "signature" not in known:
                raise _mixed(directory, signed=False)
            return {name: known[name] for name in SIGNED} if "signature" in known else None
        if any(("signature" in each) != (key is not None) for each in listed):
            raise _mixed(directory, signed=key is None)
        if known is not None:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows other rows of this release: restore the ledger, or publish "
                "elsewhere"
            )
        if key is None:
            listed.append(new)
            return None
        last = listed[-1] if listed else None
        before = {name: value for name, value in (last or {}).items() if name not in SIGNED}
        previous = FIRST if last is None else entry_digest({"store": entry["store"], **before}, last["previous"])
        signed = sign_entry(entry, previous, key)
        listed.append(new | signed)
        store["chain"] = seal_chain(entry["store"], len(listed), entry_digest(entry, previous), key)
        return signed


def check_signing(target: Path, wanted: Mapping[str, Any], *, signed: bool) -> None:
    """Refuse to publish beside releases of the store that are signed when this one is not, or the other way round.

    For use before a release is made, which `publish` would refuse when it is made and paid for. `wanted` names its
    store, its series and itself; one that is listed as signed keeps its signature, and needs no key again.
    """
    listed = listed_in_ledger(target.resolve().parent, wanted["store"])["releases"]
    if all(("signature" in each) == signed for each in listed):
        return
    names = (wanted["series"], wanted["name"])
    if signed or not any((each.get("series"), each.get("release")) == names for each in listed):
        raise _mixed(target.parent, signed=not signed)


def _mixed(directory: Path, *, signed: bool) -> SignatureError:
    are, give = ("signed", "sign this one too") if signed else ("not signed", "publish signed ones elsewhere")
    return SignatureError(
        f"the releases of this store in {directory} are {are}, and a chain is signed as a whole: {give}"
    )
