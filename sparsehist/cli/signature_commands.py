"""The commands about signatures; each imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sparsehist.cli.answer import Answer

if TYPE_CHECKING:
    from rich.console import RenderableType

SignBy = Annotated[
    Path | None,
    Parameter("--sign", help="Private key to sign the file and its entry in the public ledger with; see keygen."),
]
TrustedKeys = Annotated[list[Path], Parameter(name="--key", help="Public key you trust; may be repeated.")]


def keygen(
    key: Annotated[Path, Parameter(help="File of the private key; the public one gets the suffix .pub.")], /
) -> Answer:
    """Make a key to sign releases with, and the public key to verify them by.

    The private key is a PEM file nobody else can read. Keep it outside of every
    store and of every backup of one; hand the public key to whoever reads what you
    release. Needs sparsehist[signatures].

    For example:
      sparsehist keygen curator.pem
    """
    from rich.markup import escape

    from sparsehist.ledger.signatures import make_keys

    public = make_keys(key)
    shown = [
        f"private key: {escape(str(key))}; keep it to yourself, outside of every store",
        f"public key: {escape(str(public))}; for whoever verifies",
    ]
    return Answer({"private_key": str(key), "public_key": str(public)}, list(shown))


def verify(
    published: Annotated[Path, Parameter(help="A published file, or a directory of them.")],
    /,
    *,
    key: TrustedKeys,
) -> Answer:
    """Verify that releases are as they were signed.

    Of a file: names, types, rows and metadata are those that one of the keys
    signed. Of a directory: that of every release in it, and the public ledger lists
    each, is signed as a whole, and nothing in it was changed, cut or reordered.
    Exits with 2 if not. Needs no store.

    For example:
      sparsehist verify published --key curator.pem.pub
    """
    from rich.markup import escape

    import sparsehist as sh
    from sparsehist.cli.tables import rows_table

    place = escape(str(published))
    if published.is_dir():
        with sh.open_analyst(published, verify=key) as session:
            listed = session.sql("select series, release, level, noise, generation, store from ledger")
        shown: list[RenderableType] = [f"[bold]{place}[/] verifies: every release, and the ledger as a whole"]
        return Answer(
            {"path": str(published), "verified": True, "ledger": listed.to_dicts()}, [*shown, rows_table(listed)]
        )
    release = sh.read(published, verify=key)
    data = {"path": str(published), "verified": True, "rows": len(release), "metadata": release.metadata}
    return Answer(data, [f"[bold]{place}[/] verifies: release {release.name}, {len(release):,} rows"])
