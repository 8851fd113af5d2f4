"""SQL and Python give the same series, releases and ledger, and check queries in the same way."""

from fractions import Fraction

import polars as pl
import pytest

import sparsehist as sh
from sparsehist import errors
from sparsehist.sqlfront.session import Session, run_script
from tests.sqlfront.conftest import CREATE, OPTIONS, SECRET_KEY, SECRET_UNIT

DECLARED = {"unit": "user_id", "key": "query", "max_keys": 3, "domain": "strings(max_bytes=16)"}


def test_a_series_made_by_sql_is_the_one_made_by_python(log):
    """With equal seed, log and declaration, SQL and Python give the same releases."""
    with sh.open(":memory:", seed=11) as store:
        store.sql(CREATE, tables={"log": log})
        store.sql("release a from queries at level 0.1 expecting 1 false keys; release b from queries at level 1/3")
        by_sql = [store.series("queries").release(name).frame for name in "ab"]
        declaration = store.series("queries").declaration
    with sh.open(":memory:", seed=11) as store:
        query = sh.Query("select user_id, query from log", tables={"log": log})
        series = sh.create(store, query, name="queries", cap=2, **DECLARED)
        assert series.declaration == declaration
        assert series.release("a", level="0.1", false_keys=1).frame.equals(by_sql[0])
        assert series.release("b", level="1/3").frame.equals(by_sql[1])


def test_both_fronts_keep_one_ledger(store, ran):
    """SQL and Python share releases and ledger. The ledger keeps the cost of a series that was dropped."""
    assert ran(f"{CREATE} release one from queries at level 0.5;")[1] == []
    series = store.series("queries")
    same = series.release("one", level="0.5").frame
    series.release("two", level=1)
    outcomes, problems = ran("select * from queries.one; from queries.two; show releases; show ledger delta 0.001")
    assert problems == []
    assert outcomes[0].frame.equals(same)
    assert outcomes[2].frame["name"].to_list() == ["one", "two"]
    assert outcomes[3].frame.equals(store.ledger(delta=1e-3, full=True))
    outcomes, problems = ran("drop series queries; show ledger; from queries.one")
    assert outcomes[1].frame.filter(scope="population")["level"].to_list() == ["1"]
    assert len(problems) == 1


@pytest.mark.parametrize(
    "text",
    [
        'select count(*) from "queries".PUBLIC',
        "with q as (from memory.queries.public) select count(*) from q",
        "create view v as select * from queries.public; select count(*) from v",
    ],
)
def test_a_release_is_a_table_under_every_spelling(store, ran, text):
    """In a new session, a release is a table whose name may be quoted, qualified or in upper case."""
    ran(CREATE + 'release "public" from queries at level 1;')
    with Session(store) as fresh:
        assert run_script(fresh, text)[-1].frame.item() == store.series("queries").release("public").frame.height


def test_an_unverified_query_is_run_and_remembered(store, ran):
    """A query with LIMIT is accepted only with `unverified = true`, which declaration, release and ledger record."""
    broken = CREATE.replace("from log", "from log limit 700")
    assert "LIMIT" in ran(broken)[1][0]
    _, problems = ran(broken.replace("cap = 2", "cap = 2, unverified = true") + "release a from queries at level 1;")
    assert problems == []
    declared = store.series("queries").release("a").metadata["declaration"]
    assert (declared["unverified"], declared["source"]) == (True, "unchecked source")
    store.drop("queries")
    spent = store.ledger(full=True).filter(scope="series")
    assert (spent["unverified"].to_list(), spent["source"].to_list()) == ([True], ["unchecked source"])


@pytest.mark.parametrize(
    ("made", "table"),
    [
        ("create view v as select * from log where query <> 'bus 1'", "v"),
        ("attach ':memory:' as other; create table other.v as from log; use other", "v"),
        # In these cases, a view or table of the session takes precedence over the data frame `log`.
        ("create table other as from log; create or replace temp view log as from other limit 3", "log"),
        ("create table other as from log; drop view log; create table log as from other limit 3", "log"),
    ],
)
def test_a_table_or_view_of_a_session_is_an_unchecked_source(store, ran, made, table):
    """A query that reads a table or view of the session is still checked, but its source is stated as unchecked."""
    _, problems = ran(f"{made}; {CREATE.replace('from log', f'from {table}')} release a from queries at level 1;")
    assert problems == []
    metadata = store.series("queries").release("a").metadata
    assert (
        metadata["declaration"]["source"] == "unchecked source"
        and "it assumes that each unit" in metadata["guarantee"]
    )
    assert metadata["declaration"]["unverified"] is False
    _, problems = ran(CREATE.replace("queries", "b").replace("from log", f"from {table} limit 3"))
    assert len(problems) == 1 and "LIMIT" in problems[0]


def test_macros_types_and_variables_of_a_session_are_not_seen(ran):
    """The query of a series cannot use macros, types or variables that were created in the session."""
    made = """
        create macro upper(x) as x || (select count(*) from log)::varchar;
        create macro shout(x) as upper(x); create type kind as enum (select distinct query from log);
        create macro read_parquet(x) as table select * from log limit 3;
        set variable n = (select count(*) from log);
    """
    for words in ("shout(query)", "query::kind::varchar", "query || getvariable('n')"):
        _, problems = ran(f"{made} {CREATE.replace('user_id, query', f'user_id, {words} as query')}")
        assert len(problems) == 1, words
    outcomes, problems = ran(
        CREATE.replace("user_id, query", "user_id, upper(query) as query")
        + "release a from queries at level 1; select count(*) from queries.a where query = 'WEATHER'"
    )
    assert problems == [] and outcomes[-1].frame.item() == 1


@pytest.mark.parametrize(
    "setting",
    [
        "TimeZone = 'Pacific/Auckland'",
        "integer_division = true",
    ],
)
def test_a_session_whose_settings_change_what_a_query_means_is_refused(ran, setting):
    """A series is refused if a setting of the session would change the meaning of its query."""
    name = setting.split(" ")[0]
    _, problems = ran(f"set {setting}; {CREATE}")
    assert len(problems) == 1 and f"default for {name}: reset" in problems[0]
    assert ran(f"reset {name}; {CREATE}")[1] == []


def test_a_release_is_public(ran):
    """A query may join a log with a release. A session table with the same name does not replace the release."""
    joined = "create series {} with ({}) as select l.user_id, l.query from log l join queries.public p using (query);"
    _, problems = ran(CREATE + "release public from queries at level 1;" + joined.format("b", OPTIONS))
    assert problems == []
    over = "create or replace table queries.public as select query from log limit 0;"
    outcomes, problems = ran(
        over + joined.format("c", OPTIONS) + "release all_of_it from c at level 1; select count(*) from c.all_of_it"
    )
    assert problems == [] and outcomes[-1].frame.item() > 0


def test_an_error_that_ends_a_transaction_stops_what_would_spend(ran):
    """After an error inside a transaction, no release is made until the transaction is rolled back."""
    _, problems = ran(f"begin; {CREATE} select error('x'); release a from queries at level 1", keep_going=True)
    assert len(problems) == 2 and "ROLLBACK" in problems[1]


@pytest.mark.parametrize(
    "text",
    [
        "select cast(query as integer) from log",
        "select * from read_csv('secret.csv', columns = {'user_id': 'INTEGER', 'query': 'VARCHAR'}, header = true)",
        "select error(user_id) from log",
        CREATE.replace("user_id, query", "user_id, cast(query as integer) as query"),
        CREATE.replace("max_bytes=16", "max_bytes=4"),
    ],
)
def test_errors_about_rows_show_none(ran, here, text):
    """An error about a value in a row does not show DuckDB's message, which could contain the value."""
    pl.DataFrame({"user_id": [SECRET_UNIT], "query": [SECRET_KEY]}).write_csv("secret.csv")
    _, problems = ran(text)
    assert len(problems) == 1 and SECRET_KEY not in problems[0] and SECRET_UNIT not in problems[0]


PARAMETERS = {
    "name": "queries", "unit": ["user_id"], "key": "query", "k": 3, "domain": "strings(max_bytes=16)",
    "cap": Fraction(4, 3), "file": "it's a log.parquet", "not": "weather", "release": "public", "level": "1/3",
    "false": 2, "out": "it's out.parquet", "threshold": 40,
}  # fmt: skip
EVERYWHERE = """
    create series $name with (unit = $unit, key = $key, max_keys = $k, domain = $domain, cap = $cap)
        as select user_id, query from read_parquet($file) where query <> $not;
    release $release from $name at level $level expecting $false false keys to $out;
    release other from $name at level $level threshold $threshold;
    select query, $level as level, '$k' as text from read_parquet($out)"""


def test_every_place_of_a_statement_takes_a_parameter(store, log, here):
    """Every value in a statement may be a parameter, and a level that is given as a parameter stays exact."""
    log.write_parquet("it's a log.parquet")
    made = store.sql(EVERYWHERE, parameters=PARAMETERS).frame
    assert {f"bus {n}" for n in range(5)} <= set(made["query"]) and "weather" not in made["query"]
    assert set(made["level"]) == {"1/3"} and set(made["text"]) == {"$k"}
    declared = store.series("queries").declaration
    assert (declared.max_keys, declared.cap, declared.unit) == (3, Fraction(4, 3), "user_id")
    releases = store.series("queries").releases()
    assert releases["level"].to_list() == ["1/3", "1/3"] and releases["threshold"].to_list()[1] == 40


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("name", "main"), ("k", 0), ("file", "nosuch.parquet"), ("false", "many"), ("threshold", None),
        *((name, "a; drop series b; --") for name in ("name", "unit", "key", "domain", "release", "level", "out")),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_refused_and_never_read_as_sql(store, log, here, name, wrong):
    """A parameter is never parsed as SQL. A wrong parameter is refused before any release, with a line number."""
    log.write_parquet("it's a log.parquet")
    with pytest.raises(errors.SparsehistError, match=r"line \d"):
        store.sql(EVERYWHERE, parameters={**PARAMETERS, name: wrong})
    assert not store.ledger(full=True)["releases"].sum()


def test_units_may_be_tuples_and_renamed(store, ran):
    """A unit may consist of two columns that the query renames. A unit that is a computed expression is refused."""
    made = CREATE.replace("unit = user_id", "unit = (u, place)").replace(
        "user_id, query", "{} as u, query as place, query"
    )
    assert ran(made.format("user_id"))[1] == []
    assert store.series("queries").declaration.unit == ("u", "place")
    _, problems = ran(made.replace("queries", "others").format("left(user_id, 2)"))
    assert len(problems) == 1 and "u must be the column u" in problems[0]


def test_if_not_exists_keeps_a_series_of_the_same_source(ran, log, here):
    """IF NOT EXISTS keeps a series if its files and options are unchanged, but never if its log is a data frame."""
    log.write_parquet(here / "log.parquet")
    made = CREATE.replace("from log", "from 'log.parquet'")
    ran(made)
    again = made.replace("series queries", "series if not exists queries")
    assert ran(again)[0][-1].message == "kept the series queries"
    assert "max_keys=3" in ran(again.replace("max_keys = 3", "max_keys = 4"))[1][0]
    log.head(20).write_parquet(here / "log.parquet")
    assert "the log it was made from differs" in ran(again)[1][0]
    frames = CREATE.replace("series queries", "series if not exists frames")
    assert ran(frames)[0][-1].message == "created the series frames"
    assert "data in memory" in ran(frames)[1][0]


def test_measures_are_declared_in_words(store):
    """The SQL clauses CLIP, TO and STEP declare the same `Measure` as Python does."""
    sales = pl.DataFrame({"user": [1, 2], "item": [0, 1], "price": [2.5, 30.0], "change": [-1, 1]})
    store.sql(
        "create series shop with (unit = user, key = item, max_keys = 1, domain = integers(5), "
        "measures = (price CLIP 9 STEP 0.5, change CLIP -2 TO 2, events CLIP 5)) as from sales",
        tables={"sales": sales},
    )
    wanted = (sh.Measure("price", clip=9, step="0.5"), sh.Measure("change", clip=(-2, 2)), sh.Measure.events(most=5))
    assert store.series("shop").declaration.measures == wanted


def test_every_source_says_what_was_checked(log, here):
    """Metadata and ledger state whether a series comes from a file, a checked query or an unchecked source."""
    log.write_parquet("log.parquet")
    query = sh.Query("select user_id, query from read_parquet($file)", parameters={"file": "log.parquet"})
    sources = {"a": (log, "unchecked source"), "b": ("log.parquet", None), "c": (query, "checked query")}
    with sh.open(":memory:", seed=1) as store:
        for name, (source, said) in sources.items():
            metadata = sh.create(store, source, name=name, **DECLARED).release("one", level=1).metadata
            assert metadata["declaration"]["source"] == (said or "")
            assert ("it assumes that each unit" in metadata["guarantee"]) == (said == "unchecked source")
            assert store.ledger(series=name, full=True).filter(scope="series")["source"].to_list() == [said]
        assert store.sql("show series").frame["name"].to_list() == ["a", "b", "c"]
