"""Rows of a log → keys with their number of units, each unit bounded to `max_keys` distinct keys.

Which keys an over-full unit keeps is a function of the salt and of the values of that unit and its keys
alone. That is what the privacy of everything later rests on: were it to depend on codes, row numbers, files
or the rows of others, taking one unit out of the log would change what the others contribute, and the
sensitivity promised would not hold. Every value is compared exactly; hashes only put keys in order, and keys
whose hashes agree are ordered by their values.
"""

from sparsehist.counting.contract import CountedKeys, Counts, Files, Query
from sparsehist.counting.count import count_keys
from sparsehist.counting.log_check import check_log
from sparsehist.counting.progress import Counting

__all__ = ["CountedKeys", "Counting", "Counts", "Files", "Query", "check_log", "count_keys"]
