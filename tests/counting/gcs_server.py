"""A Google Cloud Storage on this machine, in a process of its own, that can be told to die: see test_object_store.py.

The emulator is silent on what is not there, which Hadoop's client cannot tell from a failure: here it says so.
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from gcp_storage_emulator import server
from gcp_storage_emulator.handlers.buckets import create_bucket
from gcp_storage_emulator.storage import Storage


class _Handler(server.RequestHandler):
    """Drops so many connections from the first request on whose line holds a text: the file `dies` says both."""

    dropped = 0

    def parse_request(self) -> bool:
        """Read a request, unless the store is dead."""
        understood = super().parse_request()
        dies = Path(sys.argv[1])
        most, _, text = dies.read_text(encoding="utf-8").partition(" ") if dies.exists() else ("0", "", "")
        dead = _Handler.dropped < int(most) and bool(_Handler.dropped or text in unquote(self.requestline))
        _Handler.dropped = _Handler.dropped + dead if int(most) else 0
        if dead:
            dies.with_name("died").touch()
        return understood and not dead

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _close(response: server.Response, close: object = server.Response.close) -> None:
    if response.status >= 400:
        said = {"code": int(response.status), "errors": [{"reason": "notFound"}]}
        response.json({"error": said})
    close(response)


if __name__ == "__main__":
    server.Response.close = _close
    storage = Storage(use_memory_fs=True)
    create_bucket("lake", storage)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, storage)) as served:
        sys.stdout.write(f"{served.server_port}\n")
        sys.stdout.flush()
        served.serve_forever()
