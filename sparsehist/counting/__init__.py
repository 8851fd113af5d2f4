"""Count the units of each key of a log, with each unit bounded to `max_keys` distinct keys.

If a unit has too many keys, the choice of the keys that it keeps depends only on the salt, the unit and its keys.
Every privacy guarantee relies on this. If the choice depended on row numbers, internal codes, files or other units,
then removing one unit could change what other units contribute, and the sensitivity would be wrong. Values are
compared exactly. Hashes only determine the order of keys, and keys with equal hashes are ordered by their values.
"""

from sparsehist.counting.contract import CountedKeys, Counts, Files, Query
from sparsehist.counting.count import count_keys
from sparsehist.counting.log_check import check_log
from sparsehist.counting.progress import Counting

__all__ = ["CountedKeys", "Counting", "Counts", "Files", "Query", "check_log", "count_keys"]
