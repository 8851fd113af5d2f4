"""Rows of a log → keys with their number of units, each unit bounded to `max_keys` distinct keys.

Which keys a unit with too many keeps depends only on the salt and on the values of that unit and its keys. The
guarantees of all releases need this: if it depended on codes, row numbers, files or rows of others, removing one unit
would change the contributions of others, and the sensitivity would be wrong. Values are compared exactly; hashes only
order keys, and keys with equal hashes are ordered by their values.
"""

from sparsehist.counting.contract import CountedKeys, Counts, Files, Query
from sparsehist.counting.count import count_keys
from sparsehist.counting.log_check import check_log
from sparsehist.counting.progress import Counting

__all__ = ["CountedKeys", "Counting", "Counts", "Files", "Query", "check_log", "count_keys"]
