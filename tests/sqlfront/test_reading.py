"""SQL scripts are split into statements exactly as DuckDB splits them, and errors give line and column."""

from decimal import Decimal
from itertools import permutations

import duckdb
import pytest

from sparsehist.errors import StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.reading import read_statement
from sparsehist.sqlfront.script import pieces
from tests.sqlfront.conftest import CREATE

SCRIPTS = [
    "select ';'; select ';;' || ';'",
    'select 1 as "a;b"; select 2 as "c"";"',
    "select $$a;b$$; select $tag$ ; $$ ; $tag$",
    "select E'\\';' ; select 'a\\' ; select 2",
    "-- one; two\nselect 1; /* three; /* four; */ five; */ select 2",
    "select 'é😀;ü' as größe; select 'ж;'",
    "select (select max(x) from (values (1), (2)) t(x)); select [1, {'a;': 2}]",
    ";;select 1;; ;select 2;",
    "with a as (select 1), b as (select 2) select * from a union all select * from b; from range(3)",
    "select 1 -- the end",
    "create table s.t as select 1; select s.t.x, memory.s.t.x from s.t",
    "select date '2020-01-01', x'41', 1e-3, 1_000, .5, 5. ; select #1",
    "-- nothing",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_cut_where_duckdb_cuts_it(script):
    """A script is split into the same statements that DuckDB finds in it."""
    found = pieces(script)
    with duckdb.connect() as connection:
        assert len(found) == len(connection.extract_statements(script))
        assert all(len(connection.extract_statements(piece.text)) == 1 for piece in found)


@pytest.mark.parametrize("script", ["select 1;\n select 'abc", "select 1; /* abc", "select $$ abc", "select 'a\0b'"])
def test_a_quote_or_comment_without_end_is_refused(script):
    """A script with a zero byte or an unterminated quote, comment or dollar quote is refused."""
    with pytest.raises(StatementError, match=r"ends inside|not text"):
        pieces(script)


def _read(text, **parameters):
    (piece,) = pieces(text)
    return read_statement(piece, parameters)


def test_create_series_is_read_with_values_of_every_kind():
    """CREATE SERIES accepts option values of every type, and keeps the original text of its query."""
    head = _read(
        """Create Series If Not Exists queries -- a comment
        WITH (unit = User_ID, key = (country, "Day; of"), max_keys = 1_000, cap = 1/3,
              Domain = product(a=catalogue('x,)')), noise = 'gaus''sian', unverified = TRUE, memory_limit = $limit)
        AS (SELECT ';' /* ) */, "AS" FROM t WHERE a = 'WITH (' -- b
        ) UNION ALL FROM u""",
        limit="4GB",
    )
    assert (head.kind, head.name, head.values["flag"]) == ("create series", "queries", True)
    assert head.values["options"] == {
        "unit": "User_ID", "key": ("country", "Day; of"), "max_keys": 1000, "cap": "1/3",
        "domain": "product(a=catalogue('x,)'))", "noise": "gaus'sian", "unverified": True, "memory_limit": "4GB",
    }  # fmt: skip
    assert head.query.startswith("(SELECT ';' /* ) */") and head.query.endswith(") UNION ALL FROM u")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("RELEASE a FROM b AT LEVEL 1 / 3 THRESHOLD -80", {"level": ("1/3",), "threshold": -80}),
        ("release a from b at level '1/3' expecting .5 false keys", {"level": ("1/3",), "false_keys": 0.5}),
        ("release a from b at level $l to 'x y.parquet'", {"level": (Decimal("0.1"),), "target": "x y.parquet"}),
        ("release a from b using 'prefix(9)' strategy 'spectral' at level 1",
         {"level": (1,), "workload": "prefix(9)", "strategy": "spectral"}),
        ("plan from b at epsilon 1 delta 1e-6, 1/2 delta 1e-7",
         {"level": (EpsilonDelta(1, "1e-6"), EpsilonDelta("1/2", "1e-7"))}),
        ("drop series if exists b", {"flag": True, "name": "b"}),
    ],
)  # fmt: skip
def test_our_statements_are_read(text, values):
    """Clauses of RELEASE, PLAN and DROP, in upper or lower case, become fields of the parsed statement."""
    statement = _read(text, l=Decimal("0.1"))
    first = {"release": {"name": "a", "series": "b"}, "plan": {"series": "b"}, "show ledger": {"series": "b"}}
    assert statement.values == first.get(statement.kind, {}) | values


def test_clauses_stand_in_any_order():
    """The clauses of RELEASE may be written in any order."""
    clauses = ["using 'ranges()'", "strategy 'spectral'", "at level 1", "to 'a.parquet'"]
    read = [_read(" ".join(["release a from b", *order])) for order in permutations(clauses)]
    assert all(one.values == read[0].values for one in read)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("release from b at level 1", 14, "expected FROM series, "),
        ("release a from b at lvel 1", 21, "expected LEVEL, found lvel"),
        ("release a from b at level", 26, "expected a value, found the end"),
        ("release a from b at level 1 at level 2", 32, "expected STEP, found level"),
        ("release a from b at level $nothing", 27, "has no value"),
        ("release a from b at epsilon 1 delta 2", 29, "probability"),
        ("create series s with (unit = u, unit = v) as select 1", 33, "occurs twice"),
        ("create series s with (domain = hash64( as select 1", 32, "not closed"),
        ("create series s with (unit = u) as insert into t values (1)", 36, "expected a query"),
        ("release $n from b at level 1", 9, "parameter is not text"),
    ],
)
def test_the_error_of_a_wrong_statement_points_at_its_place(text, column, said):
    """A syntax error gives line, column, the expected and the actual text, and a caret below the position."""
    with pytest.raises(StatementError) as caught:
        _read(f"\n  {text}", n=5)
    message, shown, caret = str(caught.value).split("\n")
    assert message.startswith(f"line 2, column {column + 2}: ") and said in message
    assert shown == f"    {text}"
    assert len(caret.rstrip("^")) == column + 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct 1", 'syntax error at or near "selct"\n'),
        ("show nowhere", "does not exist!\n"),
        ("select nosuch from log", 'Referenced column "nosuch" not found'),
        ("release w from queries at level 1 using 'totl()'", "totl"),
        ("release a from queries at level 1 threshold 3 expecting 1 false keys", "threshold"),
    ],
)
def test_the_error_of_a_check_names_its_statement(ran, text, said):
    """An error that is found when a statement is checked gives the statement's line and says what is wrong."""
    ran(CREATE)
    (error,) = ran(f"\n{text}")[1]
    assert error.startswith("line 2, column 1: ") and said in error
