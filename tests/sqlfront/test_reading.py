"""Scripts cut and read as DuckDB would take them, and errors that point at their place."""

from decimal import Decimal
from fractions import Fraction
from itertools import permutations

import duckdb
import pytest

from sparsehist.errors import StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.heads import CreateSeries, DropSeries, MakeRelease, Show
from sparsehist.sqlfront.reading import read_head
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.script import Place, pieces, pointed
from sparsehist.sqlfront.session import Session

OPTIONS = "unit = u, key = k, max_keys = 2, domain = 'hash64()'"
SCRIPTS = [
    "select 1; select 2",
    "select ';'; select ';;' || ';'",
    'select 1 as "a;b"; select 2 as "c"";"',
    "select $$a;b$$; select $tag$ ; $$ ; $tag$",
    "select E'\\';' ; select 'a\\' ; select 2",
    "-- one; two\nselect 1; /* three; /* four; */ five; */ select 2",
    "select 'é😀;ü' as größe; select 'ж;'",
    "select (select max(x) from (values (1), (2)) t(x)); select [1, {'a;': 2}]",
    ";;select 1;; ;select 2;",
    "with a as (select 1), b as (select 2) select * from a union all select * from b; from range(3)",
    "execute q('a;b'); fetch 'c;d'",
    "select 1 -- the end",
    "create table s.t as select 1; select s.t.x, memory.s.t.x from s.t",
    "select date '2020-01-01', x'41', 1e-3, 1_000, .5, 5. ; select #1",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_cut_where_duckdb_cuts_it(script):
    """Each piece is one statement to DuckDB, and there are as many as DuckDB finds in the script."""
    found = pieces(script)
    with duckdb.connect() as connection:
        parsed = []
        for piece in found:
            try:
                parsed += connection.extract_statements(piece.text)
            except duckdb.ParserException:  # `fetch` is no statement, but its quotes are read all the same
                parsed.append(piece.text)
        try:
            assert len(parsed) == len(found) == len(connection.extract_statements(script))
        except duckdb.ParserException:
            assert [piece.text for piece in found] == ["execute q('a;b')", "fetch 'c;d'"]


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("select 1;\n select 'abc", "line 2, column 9"),
        ('select "abc', "line 1, column 8"),
        ("select 1; /* abc", "line 1, column 11"),
        ("select $$ abc", "line 1, column 8"),
        ("select 'a\0b'", "line 1, column 10"),
        ("select '\ud800'", "line 1, column 9"),
        ("create series s;\nselect $q$ a $$ b $other$; select 1", "line 2, column 8: text in [$]q[$] is not closed"),
        ("select $a$ ; $a$; -- $b$\n select $b$ $a$", "line 2, column 9"),
    ],
)
def test_what_is_not_closed_is_pointed_at(script, place):
    """A quote, comment or dollar quote without end is refused where it begins."""
    with pytest.raises(StatementError, match=place):
        pieces(script)


def _read(text, **parameters):
    (piece,) = pieces(text)
    return read_head(piece, parameters)


def test_create_series_is_read_with_values_of_every_kind():
    """Names, text, numbers, fractions, lists, parameters, and the query exactly as it was written."""
    head = _read(
        """Create Series If Not Exists queries -- a comment
        WITH (unit = User_ID, key = (country, "Day; of"), max_keys = 1_000, cap = 1/3,
              Domain = product(a=catalogue('x,)')),
              noise = 'gaus''sian', population = "order", unverified = TRUE, memory_limit = $limit, threshold = -.5)
        AS (SELECT ';' /* ) */, "AS" FROM t
            WHERE a = 'WITH (' -- b
        ) UNION ALL FROM u""",
        limit="4GB",
    )
    assert isinstance(head, CreateSeries)
    assert (head.name, head.reuse) == ("queries", True)
    assert {name: option.value for name, option in head.options.items()} == {
        "unit": "User_ID",
        "key": ("country", "Day; of"),
        "max_keys": 1000,
        "cap": Fraction(1, 3),
        "domain": "product(a=catalogue('x,)'))",
        "noise": "gaus'sian",
        "population": "order",
        "unverified": True,
        "memory_limit": "4GB",
        "threshold": Decimal("-0.5"),
    }
    assert head.query.startswith("(SELECT ';' /* ) */") and head.query.endswith(") UNION ALL FROM u")


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("release a from b at level 0.01", MakeRelease("a", "b", ("0.01",))),
        ("RELEASE a FROM b AT LEVEL 1 / 3 THRESHOLD -80", MakeRelease("a", "b", ("1/3",), threshold=-80.0)),
        ("release a from b at level '1/3' expecting .5 false keys", MakeRelease("a", "b", ("1/3",), false_keys=0.5)),
        ("release a from b at level 1e-3 expecting 1 false key to 'x y.parquet'",
         MakeRelease("a", "b", ("1e-3",), false_keys=1.0, target="x y.parquet")),
        ("release a from b to 'a.parquet'", MakeRelease("a", "b", target="a.parquet")),
        ("release a from b at level $l open delta 1e-6", MakeRelease("a", "b", (Decimal("0.1"),), delta=1e-6)),
        ("release workload from b at level 1", MakeRelease("workload", "b", ("1",))),
        ("release workload w from b using 'prefix(1024)' strategy 'spectral' at level 1",
         MakeRelease("w", "b", ("1",), workload="prefix(1024)", strategy="spectral")),
        ('release "order" from "select" at level 1', MakeRelease("order", "select", ("1",))),
        ("plan from b at level 0.1, 1/3, '2'", MakeRelease(None, "b", ("0.1", "1/3", "2"), only_plan=True)),
        ("plan workload from b using 'prefix()' at level 1",
         MakeRelease(None, "b", ("1",), workload="prefix()", only_plan=True)),
        ("plan workload from b at level 1", MakeRelease("workload", "b", ("1",), only_plan=True)),
        ("plan release a from b at level 1", MakeRelease("a", "b", ("1",), only_plan=True)),
        ("plan release from b at level 1", MakeRelease("release", "b", ("1",), only_plan=True)),
        ("show releases from b", Show("releases", "b")),
        ("Show Ledger", Show("ledger")),
        ("show ledger delta 1e-9", Show("ledger", delta=1e-9)),
        (
            "show ledger short from b since '2026-01-31' delta 1e-9",
            Show("ledger", "b", delta=1e-9, since="2026-01-31", short=True),
        ),
        (
            "release a from b at epsilon 1 delta 1e-6 open delta 1e-9",
            MakeRelease("a", "b", (EpsilonDelta(1, "1e-6"),), delta=1e-9),
        ),
        (
            "plan from b at epsilon 1 delta 1e-6, 1/2 delta 1e-7",
            MakeRelease(None, "b", (EpsilonDelta(1, "1e-6"), EpsilonDelta("1/2", "1e-7")), only_plan=True),
        ),
        ("plan workload from b at level 1, 2 using 'prefix()'",
         MakeRelease(None, "b", ("1", "2"), workload="prefix()", only_plan=True)),
        ("drop series if exists b", DropSeries("b", if_exists=True)),
        ("drop series if", DropSeries("if", if_exists=False)),
        ('show "ledger"', None),
        ("show tables", None),
        ("drop table series", None),
        ("create table series as select 1", None),
        ("select release from plan", None),
    ],
)  # fmt: skip
def test_statements_are_read(text, head):
    """Ours become records, in any case of their words; all else is DuckDB's."""
    assert _read(text, l=Decimal("0.1")) == head


@pytest.mark.parametrize(
    ("head", "clauses"),
    [
        ("release a from b", ["at level 1", "expecting 2 false keys", "to 'a.parquet'"]),
        ("release a from b", ["at level 1", "open delta $l", "to 'a.parquet'"]),
        ("release workload w from b", ["using 'ranges()'", "strategy 'spectral'", "at level 1", "to 'a.parquet'"]),
        ("plan workload from b", ["using 'ranges()'", "strategy 'spectral'", "at level 1, 2"]),
    ],
)
def test_clauses_stand_in_any_order(head, clauses):
    """Every order of the clauses is the same request."""
    read = [_read(" ".join([head, *order]), l=Decimal("0.1")) for order in permutations(clauses)]
    assert len(read) >= 6 and all(one == read[0] for one in read)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("release from b at level 1", 14, "expected FROM, found b"),
        ("release a b", 11, "expected FROM, found b"),
        ("release a from b at lvel 1", 21, "expected AT LEVEL, found lvel"),
        (
            "release a from b treshold 1",
            18,
            "expected AT LEVEL, AT EPSILON … DELTA …, EXPECTING n FALSE KEYS, THRESHOLD, OPEN DELTA, AT STEP n",
        ),
        ("release a from b at level", 26, "expected a level such as 0.01 or 1/3, found the end"),
        ("release a from b at level x", 27, "found x"),
        ("release a from b at level 1 at level 2", 29, "second time"),
        ("release a from b at level 1, 2", 27, "a release has one level"),
        ("release a from b at level 1 expecting 1 keys", 41, "expected FALSE, found keys"),
        ("release a from b threshold 3 expecting 1 false keys", 30, "not several"),
        ("release a from b open delta 1e-6 at level 1 threshold 3", 45, "not several"),
        ("release a from b at level 1 to x.parquet", 32, "in quotes"),
        ("release a from b at level $nothing", 27, "has no value"),
        ("release workload w from b at level 1", 37, "expected USING and a workload"),
        ("release workload w from b at level 1 using 'total()' usng 'a'", 54, "expected STRATEGY 'name', TO"),
        ("release workload w from b using 'total()' at level 1 using 'total()'", 54, "second time"),
        ("release workload w from b using total() at level 1", 33, "expected a workload such as 'prefix(1024)' in q"),
        ("release workload w from b using 'total()' threshold 3", 43, "leave THRESHOLD out"),
        ("release a from b at level 1 strategy 'spectral'", 29, "belongs to RELEASE WORKLOAD"),
        ("release workload from b at level 1 using 'total()'", 36, "belongs to RELEASE WORKLOAD name FROM"),
        ("plan from b", 12, "expected AT LEVEL"),
        ("show ledger since 'yesterday'", 19, "expected a time such as '2026-01-31'"),
        ("release a from b at epsilon 1", 30, "expected DELTA"),
        ("release a from b at epsilon 1 delta 2", 29, "probability"),
        ("plan from b at level 1 to 'x.parquet'", 24, "a plan writes nothing"),
        ("create or replace series s with () as select 1", 1, "cannot be replaced"),
        ("create series s as select 1", 17, "expected WITH"),
        ("create series s with (unit u) as select 1", 28, "expected = after unit"),
        ("create series s with (unit = u key = k) as select 1", 32, "a comma or )"),
        ("create series s with (unit = u, unit = v) as select 1", 33, "second time"),
        ("create series s with (domain = hash64() as select 1", 41, "a comma or )"),
        ("create series s with (domain = hash64( as select 1", 38, "not closed"),
        ("create series s with (key = (a, )) as select 1", 33, "expected a name"),
        ("create series s with (unit = u)", 32, "expected AS"),
        ("create series s with (unit = u) as insert into t values (1)", 36, "expected a query"),
        ("create series 1s with (unit = u) as select 1", 15, "expected the name"),
        ("show ledger now", 13, "DELTA and a probability, or the end of the statement, found now"),
        ("show ledger delta small", 19, "expected a probability such as 1e-6, found small"),
        ("show ledger delta 1e-6 1", 24, "expected the end of the statement"),
        ("show releases of b", 15, "expected FROM series or the end of the statement, found of"),
        ("drop series a, b", 14, "end of the statement"),
        ("drop series if exist a", 16, "expected IF EXISTS, found exist"),
        ("create series if exists s with (unit = u) as select 1", 18, "expected IF NOT EXISTS, found exists"),
        ("release a from b at level 1 expecting $l false keys", 39, "expected a number of false keys"),
        ("release a from b at level 1 to $n", 32, "the parameter is not text"),
    ],
)
def test_a_wrong_statement_is_pointed_at(text, column, said):
    """The error says line and column, what was expected and what was found, and has a caret under it."""
    with pytest.raises(StatementError) as caught:
        _read(f"\n  {text}", l="text", n=5)
    message, shown, caret = str(caught.value).split("\n")
    assert message.startswith(f"line 2, column {column + 2}: ") and said in message
    assert shown == f"    {text}"
    assert len(caret.rstrip("^")) == column + 3


@pytest.mark.parametrize(
    ("text", "pad", "caret"),
    [
        ("/* 日本 */ drop lvel", 16, 4),
        ("/* é\N{COMBINING ACUTE ACCENT} */ drop lvel", 13, 4),
        ("drop 日本😀", 5, 6),
    ],
)
def test_the_caret_stands_under_wide_characters(text, pad, caret):
    """Where a terminal draws them: two columns for a wide character, none for an accent set on another."""
    start = len(text) - len(text.split()[-1])
    *_, marked = pointed("", text, Place(start, len(text))).split("\n")
    assert marked == " " * (2 + pad) + "^" * caret


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("relese a from s at level 1", 1, "did you mean RELEASE?"),
        ("create serie s with (unit = u) as select 1", 8, "did you mean CREATE SERIES?"),
        ("drop seres s", 6, "did you mean DROP SERIES?"),
        ("show leger", 6, "did you mean SHOW LEDGER?"),
        ("show seires", 6, "did you mean SHOW SERIES?"),
        ("selct 1", 1, 'syntax error at or near "selct"\n'),
        ("show nowhere", 6, "does not exist!\n"),
        ("select 1, $Nope", 11, "the parameter $Nope has no value"),
        ("select ?, 1", 8, "given by its name"),
        ("release É from s at level 1", 9, "the name of a release"),
        ("release workload w from s at level 1 strategy 'spectrl' using 'total()'", 47, "no strategy 'spectrl'"),
        ("release a from s at level $level", 27, "level must be"),
    ],
)
def test_what_is_found_by_checking_is_pointed_at(store, text, column, said):
    """Misspelt statements, parameters, names and strategies: where they stand, and what may have been meant."""
    with Session(store.home, parameters={"level": "high"}) as session:
        _, problems = session.check(f"create series s with ({OPTIONS}) as select 1 as u, 2 as k;\n{text}")
        errors = [problem.error for problem in problems if problem.number == 2]
        if not errors:
            errors = [outcome.error for outcome in run_script(session, f"\n{text}")]
    assert str(errors[0]).startswith(f"line 2, column {column}: ") and said in str(errors[0])
