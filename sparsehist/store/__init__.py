"""The store: a private, locked directory. It survives crashes, so the noise of a release is never drawn twice."""

from sparsehist.store.layout import is_store
from sparsehist.store.lifecycle import adopt, backup, create_store, ensure_store
from sparsehist.store.opening import open_state
from sparsehist.store.private_files import read_json, write_file
from sparsehist.store.records import (
    NewRound,
    Past,
    PathRecord,
    RegisteredFile,
    ReleaseRecord,
    SeriesRecord,
    Spot,
    StepRecord,
    Tracked,
)
from sparsehist.store.state import State
from sparsehist.store.witnesses import LEDGER_NAME, publish, write_published

__all__ = [
    "LEDGER_NAME", "NewRound", "Past", "PathRecord", "RegisteredFile", "ReleaseRecord", "SeriesRecord", "Spot",
    "State", "StepRecord", "Tracked", "adopt", "backup", "create_store", "ensure_store", "is_store", "open_state",
    "publish", "read_json", "write_file", "write_published",
]  # fmt: skip
