"""Scripts cut and read as DuckDB would take them, and errors that point at their place."""

from decimal import Decimal
from fractions import Fraction
from itertools import permutations

import duckdb
import pytest

from sparsehist.errors import StatementError
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.sqlfront.reading import read_statement
from sparsehist.sqlfront.results import Outcome
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.script import Place, pieces, pointed
from sparsehist.sqlfront.session import Session

OPTIONS = "unit = u, key = k, max_keys = 2, domain = 'integers(9)'"
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
        ("select $$ abc", "in quotes or dollars"),
        ("select 'a\0b'", "line 1, column 10"),
        ("select '\ud800'", "line 1, column 9"),
        ("create series s;\nselect $q$ a $$ b $other$; select 1", "in quotes or dollars"),
    ],
)
def test_what_is_not_closed_is_pointed_at(script, place):
    """A quote, comment or dollar quote without end is refused where it begins."""
    with pytest.raises(StatementError, match=place):
        pieces(script)


def _read(text, **parameters):
    (piece,) = pieces(text)
    return read_statement(piece, parameters)


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
    assert (head.kind, head.name, head.asked["flag"]) == ("create series", "queries", True)
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


def _release(name, series, **asked):
    return "release", {"name": name, "series": series, **asked}


def _plan(series, **asked):
    return "plan", {"series": series, **asked}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("release a from b at level 0.01", _release("a", "b", levels=(Decimal("0.01"),))),
        ("RELEASE a FROM b AT LEVEL 1 / 3 THRESHOLD -80",
         _release("a", "b", levels=(Fraction(1, 3),), threshold=-80.0)),
        ("release a from b at level '1/3' expecting .5 false keys",
         _release("a", "b", levels=("1/3",), false_keys=0.5)),
        ("release a from b at level 1e-3 expecting 1 false keys to 'x y.parquet'",
         _release("a", "b", levels=(Decimal("1e-3"),), false_keys=1.0, target="x y.parquet")),
        ("release a from b to 'a.parquet'", _release("a", "b", target="a.parquet")),
        ("release a from b at level $l open delta 1e-6", _release("a", "b", levels=(Decimal("0.1"),), delta=1e-6)),
        ("release workload from b using 'prefix(1024)' strategy 'spectral' at level 1",
         _release("workload", "b", levels=(1,), workload="prefix(1024)", strategy="spectral")),
        ('release "order" from "select" at level 1', _release("order", "select", levels=(1,))),
        ("plan from b at level 0.1, 1/3, '2'", _plan("b", levels=(Decimal("0.1"), Fraction(1, 3), "2"))),
        ("plan from b at level 1, 2 using prefix()", _plan("b", levels=(1, 2), workload="prefix()")),
        ("plan from b at epsilon 1 delta 1e-6, 1/2 delta 1e-7",
         _plan("b", levels=(EpsilonDelta(1, "1e-6"), EpsilonDelta("1/2", "1e-7")))),
        ("release a from b at epsilon 1 delta 1e-6 open delta 1e-9",
         _release("a", "b", levels=(EpsilonDelta(1, "1e-6"),), delta=1e-9)),
        ("show releases from b", ("show releases", {"series": "b"})),
        ("Show Ledger", ("show ledger", {})),
        ("show ledger short from b delta 1e-9",
         ("show ledger", {"short": True, "series": "b", "delta": 1e-9})),
        ("drop series if exists b", ("drop series", {"flag": True, "name": "b"})),
        ("drop series if", ("drop series", {"name": "if"})),
        ("set cap b at level 1/3 because 'x'", ("set cap", {"name": "b", "level": Fraction(1, 3), "reason": "x"})),
        ("declare disjoint a, b because 'x'", ("declare disjoint", {"populations": ("a", "b"), "reason": "x"})),
        *((text, ("", {})) for text in (
            'show "ledger"', "show tables", "drop table series", "create table series as select 1",
            "select release from plan",
        )),
    ],
)  # fmt: skip
def test_statements_are_read(text, read):
    """Ours become records, in any case of their words; all else is DuckDB's."""
    statement = _read(text, l=Decimal("0.1"))
    assert (statement.kind, statement.asked) == read


@pytest.mark.parametrize(
    ("head", "clauses"),
    [
        ("release a from b", ["at level 1", "expecting 2 false keys", "to 'a.parquet'"]),
        ("release a from b", ["at level 1", "open delta $l", "to 'a.parquet'"]),
        ("release w from b", ["using 'ranges()'", "strategy 'spectral'", "at level 1", "to 'a.parquet'"]),
        ("plan from b", ["using 'ranges()'", "strategy 'spectral'", "at level 1, 2"]),
    ],
)
def test_clauses_stand_in_any_order(head, clauses):
    """Every order of the clauses is the same request."""
    read = [_read(" ".join([head, *order]), l=Decimal("0.1")) for order in permutations(clauses)]
    assert len(read) >= 6 and all(one.asked == read[0].asked for one in read)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("release from b at level 1", 14, "expected FROM series, "),
        ("release a from b at lvel 1", 21, "expected AT LEVEL, found lvel"),
        ("release a from b treshold 1", 18, "expected AT LEVEL level, AT EPSILON e DELTA d, USING 'workload', STRAT"),
        ("release a from b at level", 26, "expected a value, found the end"),
        ("release a from b at level 1 at level 2", 32, "expected AT STEP, found level"),
        ("release a from b at level 1 expecting 1 keys", 41, "expected FALSE KEYS, found keys"),
        ("release a from b threshold 3 expecting 1 false keys", 30, "found expecting"),
        ("release a from b at level $nothing", 27, "has no value"),
        ("release w from b at level 1 using 'total()' usng 'a'", 45, "expected STRATEGY 'name', EXPECTING"),
        ("plan from b", 12, "expected AT LEVEL level"),
        ("release a from b at epsilon 1", 30, "expected DELTA"),
        ("release a from b at epsilon 1 delta 2", 29, "probability"),
        ("create series s at select 1", 17, "expected WITH"),
        ("create series s with (unit = u key = k) as select 1", 32, "a comma or )"),
        ("create series s with (unit = u, unit = v) as select 1", 33, "second time"),
        ("create series s with (domain = hash64( as select 1", 38, "not closed"),
        ("create series s with (key = (a, )) as select 1", 33, "expected a name"),
        ("append to s step 1", 19, "expected AS query"),
        ("create series s with (unit = u) as insert into t values (1)", 36, "expected a query"),
        ("create series 1s with (unit = u) as select 1", 15, "expected the name"),
        ("show ledger now", 13, "DELTA d, the end of the statement, found now"),
        ("show ledger delta small", 19, "expected a probability such as 1e-6, found small"),
        ("drop series if exist a", 16, "expected the end of the statement, found exist"),
        ("release a from b at level 1 expecting $l false keys", 39, "expected a number of false keys"),
        ("release $n from b at level 1", 9, "the parameter is not text"),
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


@pytest.mark.parametrize(("text", "pad", "caret"), [("/* 日本 */ drop lvel", 16, 4), ("drop 日本😀", 5, 6)])
def test_the_caret_stands_under_wide_characters(text, pad, caret):
    """Where a terminal draws them: two columns for a wide character."""
    start = len(text) - len(text.split()[-1])
    *_, marked = pointed("", text, Place(start, len(text))).split("\n")
    assert marked == " " * (2 + pad) + "^" * caret


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("selct 1", 1, 'syntax error at or near "selct"\n'),
        ("show nowhere", 6, "does not exist!\n"),
        ("select 1, $Nope", 11, "the parameter $Nope has no value"),
        ("select ?, 1", 8, "given by its name"),
        ("release É from s at level 1", 9, "the name of a release"),
        ("release w from s at level 1 strategy 'spectrl' using 'total()'", 38, "no strategy 'spectrl'"),
        ("release a from s at level $level", 27, "level must be"),
    ],
)
def test_what_is_found_by_checking_is_pointed_at(store, text, column, said):
    """Misspelt statements, parameters, names and strategies: where they stand."""
    with Session(store.home, parameters={"level": "high"}) as session:
        declared = f"create series s with ({OPTIONS}) as select 1 as u, 2 as k;"
        steps = session.check(f"{declared}\n{text}")[1:]
        errors = [step.error for step in steps if isinstance(step, Outcome)]
        if not errors:
            errors = [outcome.error for outcome in run_script(session, f"\n{text}")]
    assert str(errors[0]).startswith(f"line 2, column {column}: ") and said in str(errors[0])
