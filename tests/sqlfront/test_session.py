"""Series, releases and tables in one session: by SQL as by Python, and names that mean one thing."""

from dataclasses import replace
from fractions import Fraction

import polars as pl
import pytest

import sparsehist as sh
from sparsehist import errors
from sparsehist.sqlfront.release_tables import TAKEN_NAMES
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session
from sparsehist.store import is_store
from tests.sqlfront.conftest import OPTIONS, SECRET_KEY, SECRET_UNIT, small_log

CREATE = f"create series queries with ({OPTIONS}, cap = 2) as select user_id, query from log;"


def test_a_series_made_by_sql_is_the_one_made_by_python(log):
    """The same salt, log and query give the same histogram, and the same requests the same releases."""
    frames = []
    with sh.open(":memory:", seed=11) as store:
        store.sql(CREATE, tables={"log": log})
        store.sql("release a from queries at level 0.1 expecting 1 false keys; release b from queries at level 1/3")
        frames.append([store.series("queries").release(name).frame for name in "ab"])
        by_sql = store.series("queries").declaration
        spent = store.ledger(full=True)["level"].to_list()
    with sh.open(":memory:", seed=11) as store:
        series = sh.create(
            store,
            sh.Query("select user_id, query from log", tables={"log": log}),
            name="queries", unit="user_id", key="query", max_keys=3, domain=sh.Strings(max_bytes=16), cap=2,
        )  # fmt: skip
        frames.append([series.release("a", level="0.1", false_keys=1).frame, series.release("b", level="1/3").frame])
        assert (series.declaration, store.ledger(full=True)["level"].to_list()) == (by_sql, spent)
    assert all(one.equals(other) for one, other in zip(*frames, strict=True))
    assert frames[0][0].height > 0


def _connection(log):
    import duckdb

    connection = duckdb.connect()
    connection.register("log", log)
    return connection


def test_both_fronts_keep_one_ledger(store, ran):
    """A release of either front is the other's too, and costs nothing twice."""
    _, problems = ran(f"{CREATE} release one from queries at level 0.5;")
    assert problems == []
    series = store.series("queries")
    same = series.release("one", level="0.5").frame
    series.release("two", level=1)
    outcomes, problems = ran(
        "select * from queries.one; select count(*) from queries.two; show releases; show ledger"
    )
    assert problems == []
    assert outcomes[0].frame.equals(same)
    assert outcomes[2].frame["name"].to_list() == ["one", "two"]
    assert outcomes[3].frame.equals(store.ledger(full=True))
    outcomes, _ = ran("show ledger delta 0.001")
    assert outcomes[0].frame.equals(store.ledger(delta=1e-3, full=True)) and "at delta 0.001" in outcomes[0].said
    assert outcomes[0].frame["epsilon"].item(-1) < store.ledger(full=True)["epsilon"].item(-1)
    assert "delta must be" in ran("show ledger delta 1")[1][0]


def test_releases_are_tables_under_every_spelling(store, ran):
    """Quoted, qualified, in any case, in a view, in a subquery: a release is there when it is first named."""
    ran(CREATE + 'release "public" from queries at level 1;')
    rows = store.series("queries").release("public").frame.height
    for text in (
        "select count(*) from queries.public",
        'select count(*) from "queries"."public"',
        "select count(*) from Queries.PUBLIC",
        "select count(*) from memory.queries.public",
        "with q as (from queries.public) select count(*) from q union all select count(*) from q limit 1",
        "create view v as select * from queries.public; select count(*) from v",
    ):
        with Session(store.home) as fresh:
            assert run_script(fresh, text)[-1].frame.item() == rows, text


def test_the_query_goes_to_duckdb_as_it_is(store, ran, here):
    """Joins, common table expressions, unions, odd names, comments, semicolons in text and files all work."""
    small_log().write_parquet("a;b.parquet")
    outcomes, problems = ran(
        f"""
        create schema stage;
        create table stage.cities as select * from (values ('weather', 'x;y')) as c(query, "Größe; of");
        create view "my log" as select user_id, query from log where query <> ';' -- ; no end
        ;
        create series one with ({OPTIONS}, public_tables = (stage.cities)) as
            with a as (select user_id, query from "my log"), b as (from read_parquet('a;b.parquet'))
            select a.user_id, coalesce(c."Größe; of", a.query) as query /* ; */
            from a left join stage.cities as c on c.query = a.query
            union all
            select user_id, query from b where query = 'weather';
        release r from one at level 1;
        select query from one.r where query in ('weather', 'x;y') order by all;
        """
    )
    assert problems == []
    assert outcomes[-1].frame["query"].to_list() == ["weather", "x;y"]


@pytest.mark.parametrize("name", sorted(TAKEN_NAMES))
def test_a_series_named_like_a_catalog_or_schema_of_duckdb_is_refused(ran, name):
    """memory.public would be DuckDB's own, or ambiguous."""
    _, problems = ran(CREATE.replace("queries", name))
    assert len(problems) == 1 and "DuckDB's own" in problems[0]


@pytest.mark.parametrize("name", ["select", "release", "logs"])
def test_a_series_named_like_a_keyword_or_the_store_works_in_quotes(log, here, name):
    """In quotes, reserved words are names throughout."""
    tables = {"log": log}
    script = CREATE.replace("queries", f'"{name}"') + (
        f'release "{name}" from "{name}" at level 1; select count(*) as n from "{name}"."{name}"'
    )
    assert sh.sql(script, store="logs", tables=tables).frame["n"].item() > 0
    assert sh.open("logs").series(name).releases()["name"].to_list() == [name]


def test_an_unverified_query_is_run_and_remembered(store, ran):
    """What breaks the guarantee runs where it is declared unverified: ledger, declaration, release all say so."""
    broken = CREATE.replace("from log", "from log limit 700")
    _, problems = ran(broken)
    assert len(problems) == 1 and "LIMIT" in problems[0]
    _, problems = ran(broken.replace("cap = 2", "cap = 2, unverified = true") + "release a from queries at level 1;")
    assert problems == []
    series = store.series("queries")
    assert series.declaration.unverified
    metadata = series.release("a").metadata
    assert (metadata["declaration"]["unverified"], metadata["declaration"]["source"]) == (True, "unchecked source")
    store.drop("queries")
    spent = store.ledger(full=True).filter(scope="series")
    assert (spent["unverified"].to_list(), spent["source"].to_list()) == ([True], ["unchecked source"])


IN_A_SESSION = [
    "create view v as select * from log where query <> 'bus 1'",
    "create table v as select * from log limit 700",
    "create table v (user_id varchar, query varchar); insert into v values ('a', 'weather')",
    "create temp view v(user_id, query) as select user_id, lower(query) from log",
    "create macro f(x) as x; create view v as select user_id, f(query) as query from log",
    "attach ':memory:' as other; create table other.v as from log; use other",
    "create view log as from log limit 700; create view v as from memory.main.log",
]


@pytest.mark.parametrize("made", IN_A_SESSION)
def test_a_table_or_view_of_a_session_is_an_unchecked_source(store, ran, made):
    """Nobody follows what made it: ledger, metadata and report say so; what is done with it is checked."""
    _, problems = ran(f"{made}; {CREATE.replace('from log', 'from v')} release a from queries at level 1;")
    assert problems == []
    metadata = store.series("queries").release("a").metadata
    assert metadata["declaration"]["source"] == "unchecked source" and "is on trust" in metadata["guarantee"]
    assert metadata["declaration"]["unverified"] is False
    _, problems = ran(CREATE.replace("series queries", "series b").replace("from log", "from v limit 3"))
    assert len(problems) == 1 and "LIMIT" in problems[0]


@pytest.mark.parametrize(
    "over",
    [
        "create or replace temp view log as from other limit 3",
        "drop view log; create table log as from other limit 3",
    ],
)
def test_a_table_in_the_place_of_one_that_was_handed_over_is_that_of_the_session(store, ran, over):
    """Its name alone does not make it the frame of `tables=`."""
    _, problems = ran(f"create table other as from log; {over}; {CREATE} release a from queries at level 1")
    assert problems == []
    assert store.series("queries").release("a").metadata["declaration"]["source"] == "unchecked source"


def test_macros_types_and_variables_of_a_session_are_not_seen(ran):
    """A query is checked and run where nothing of the session exists."""
    made = """
        create macro upper(x) as x || (select count(*) from log)::varchar;
        create macro shout(x) as upper(x); create type kind as enum (select distinct query from log);
        create macro read_parquet(x) as table select * from log limit 3;
        set variable n = (select count(*) from log);
    """
    for words in ("shout(query)", "query::kind::varchar", "query || getvariable('n')"):
        _, problems = ran(f"{made} {CREATE.replace('select user_id, query', f'select user_id, {words} as query')}")
        assert len(problems) == 1, words
    outcomes, problems = ran(
        CREATE.replace("select user_id, query", "select user_id, upper(query) as query")
        + "release a from queries at level 1; select count(*) from queries.a where query = 'WEATHER'"
    )
    assert problems == [] and outcomes[-1].frame.item() == 1


@pytest.mark.parametrize(
    "setting", ["TimeZone = 'Pacific/Auckland'", "default_null_order = 'nulls_first'", "default_collation = 'nocase'",
                "integer_division = true"],
)  # fmt: skip
def test_a_session_whose_settings_change_what_a_query_means_is_refused(ran, setting):
    """It would run without them."""
    name = setting.split(" ")[0]
    _, problems = ran(f"set {setting}; {CREATE}")
    assert len(problems) == 1 and f"own {name}: reset it" in problems[0]
    assert ran(f"reset {name}; {CREATE}")[1] == []


def test_a_release_is_public(ran):
    """Published counts may be joined to a log; a table put over them changes nothing."""
    joined = "create series {} with ({}) as select l.user_id, l.query from log l join queries.public p using (query);"
    _, problems = ran(CREATE + "release public from queries at level 1;" + joined.format("b", OPTIONS))
    assert problems == []
    over = "create or replace table queries.public as select query from log limit 0;"
    outcomes, problems = ran(
        over + joined.format("c", OPTIONS) + "release all_of_it from c at level 1; select count(*) from c.all_of_it"
    )
    assert problems == [] and outcomes[-1].frame.item() > 0


def test_an_error_that_ends_a_transaction_stops_what_would_spend(ran):
    """COMMIT would take all back and say nothing of it."""
    _, problems = ran(f"begin; {CREATE} select error('x'); release a from queries at level 1", keep_going=True)
    assert len(problems) == 2 and "ROLLBACK leaves it" in problems[1]


def test_errors_about_rows_show_none(ran, here):
    """What DuckDB says of a value is withheld; what it says of the words of a statement is told."""
    pl.DataFrame({"user_id": [SECRET_UNIT], "query": [SECRET_KEY]}).write_csv("secret.csv")
    for text in (
        "select cast(query as integer) from log",
        "select * from read_csv('secret.csv', columns = {'user_id': 'INTEGER', 'query': 'VARCHAR'}, header = true)",
        "select error(user_id) from log",
        CREATE.replace("select user_id, query", "select user_id, cast(query as integer) as query"),
        CREATE.replace("max_bytes=16", "max_bytes=4"),
    ):
        _, problems = ran(text)
        assert len(problems) == 1, text
        assert SECRET_KEY not in problems[0] and SECRET_UNIT not in problems[0]
    _, problems = ran("select nosuch from log")
    assert 'Referenced column "nosuch" not found' in problems[0] and problems[0].startswith("line 1, column 8")


def test_parameters_are_bound_and_levels_stay_exact(ran, store):
    """In DuckDB's statements they are bound; in ours they are values."""
    outcomes, problems = ran(
        CREATE.replace("from log", "from log where query <> $level").replace("max_keys = 3", "max_keys = $n")
        + "release a from queries at level $level; select $level as level, $n + 1 as n, '$n' as text"
    )
    assert problems == []
    assert outcomes[-1].frame.row(0) == ("1/2", 3, "$n")
    assert store.series("queries").releases()["level"].to_list() == ["0.5"]
    assert store.series("queries").declaration.max_keys == 2


def test_every_place_of_our_statements_takes_a_parameter(store, log, here):
    """Names, options, the file of the log, level, false keys, threshold and target: checked once they have values."""
    log.write_parquet("it's a log.parquet")
    script = """
        create series $name with (unit = $unit, key = $key, max_keys = $k, domain = $domain, cap = $cap)
            as select user_id, query from read_parquet($file) where query <> $not;
        release $release from $name at level $level expecting $false false keys to $out;
        release other from $name at level $level threshold $threshold;
        select query from read_parquet($out)"""
    values = {
        "name": "queries", "unit": ["user_id"], "key": "query", "k": 3, "domain": "strings(max_bytes=16)",
        "cap": Fraction(4, 3), "file": "it's a log.parquet", "not": "weather", "release": "public", "level": "1/3",
        "false": 2, "out": "it's out.parquet", "threshold": 40,
    }  # fmt: skip
    made = store.sql(script, parameters=values)
    assert {f"bus {n}" for n in range(5)} <= set(made.frame["query"]) and "weather" not in made.frame["query"]
    declared = store.series("queries").declaration
    assert (declared.max_keys, declared.cap, declared.unit) == (3, Fraction(4, 3), "user_id")
    assert store.series("queries").releases()["threshold"].to_list()[1] == 40
    for name, wrong in [
        ("name", "Queries"), ("name", "main"), ("k", 0), ("domain", "nosuch()"), ("file", "nosuch.parquet"),
        ("release", "a b"), ("level", "-1"), ("false", "many"), ("out", "out.txt"), ("threshold", None),
    ]:  # fmt: skip
        with sh.open(":memory:", seed=5) as again:
            with pytest.raises(errors.SparsehistError, match=r"line \d"):
                again.sql(script, parameters={**values, name: wrong})
            assert not is_store(again.path) or not again.ledger(full=True)["releases"].sum()


@pytest.mark.parametrize("name", ["name", "unit", "key", "domain", "release", "level", "target", "file", "text"])
@pytest.mark.parametrize("value", ["a; drop series queries", 'a"; drop table log; --', "a) as select 1 --'"])
def test_a_value_is_never_read_as_sql(store, ran, session, here, name, value):
    """Whatever a parameter holds, it is a value: refused where it names nothing, and nothing else happens."""
    ran(CREATE)
    session.parameters |= {
        "name": "other", "unit": "user_id", "key": "query", "domain": "strings(max_bytes=16)", "release": "a",
        "level": "1", "target": "a.parquet", "text": "x", "file": "log.parquet", name: value,
    }  # fmt: skip
    outcomes, problems = ran(
        "create series $name with (unit = $unit, key = $key, max_keys = 3, domain = $domain)"
        " as select user_id, query from log where query <> $text;"
        "release $release from $name at level $level to $target; select $text as said, count(*) as n from log",
        keep_going=True,
    )
    if name == "text":
        assert problems == [] and outcomes[-1].frame["said"].to_list() == [value]
    elif name != "file":
        assert problems and store.ledger(full=True)["level"].drop_nulls().is_empty()
    assert "queries" in store.series_names() and outcomes[-1].frame["n"].to_list() == [1801]
    with pytest.raises(errors.SparsehistError):
        sh.check_query("select user_id, query from read_parquet($file)", unit="user_id", parameters={"file": value})


def test_units_may_be_tuples_and_renamed_in_both_fronts(store, ran, session, here):
    """(date, ip) in SQL and in Python is one declaration and one histogram; renames and casts keep units apart."""
    visits = pl.DataFrame({"day": [1, 2, 2] * 300, "ip": range(900), "url": ["/a", "/b", "/a"] * 300})
    session.connection.register("visits", visits)
    visits.write_parquet("visits.parquet")
    query = "select day as d, ip::varchar as ip_id, url from {}"
    declared = "unit = (d, ip_id), key = url, max_keys = 3, domain = 'strings(max_bytes=4)'"
    _, problems = ran(
        f"create series a with ({declared}) as {query.format('visits')};"
        "release one from a at level 10000 threshold 1; show ledger; show series"
    )
    assert problems == []
    series = store.series("a")
    assert series.declaration.unit == ("d", "ip_id")
    assert "logs that differ by all rows of one (d, ip_id)" in series.release("one").metadata["guarantee"]
    assert store.sql("show series").frame["unit"].to_list() == ["(d, ip_id)"]
    other = sh.create(
        store, sh.Query(query.format("'visits.parquet'")), name="b", unit=["d", "ip_id"], key="url", max_keys=3,
        domain=sh.Strings(max_bytes=4),
    )  # fmt: skip
    assert other.release("one", level=10000, threshold=1).frame["url"].to_list() == ["/a", "/b"]
    assert store.series("b").declaration.unit == ("d", "ip_id")  # read back from the store
    assert "units are" not in str(store.ledger(full=True)["warning"].to_list())
    _, problems = ran(f"create series c with ({declared}) as select day % 2 as d, ip as ip_id, url from visits")
    assert len(problems) == 1 and "d must be the column d" in problems[0]


def test_if_not_exists_keeps_what_was_made_from_the_same(ran, log, here):
    """A series is kept for the same files; not for others, another declaration, or rows that are handed over."""
    log.write_parquet(here / "log.parquet")
    made = CREATE.replace("from log", "from 'log.parquet'")
    ran(made)
    again = made.replace("series queries", "series if not exists queries")
    assert ran(again)[0][-1].said == "kept the series queries"
    _, problems = ran(again.replace("max_keys = 3", "max_keys = 4"))
    assert len(problems) == 1 and "max_keys=3" in problems[0]
    log.head(20).write_parquet(here / "log.parquet")
    _, problems = ran(again)
    assert len(problems) == 1 and "the log it was made from differs" in problems[0]
    frames = CREATE.replace("series queries", "series if not exists frames")
    assert ran(frames)[0][-1].said == "created the series frames"
    _, problems = ran(frames)
    assert len(problems) == 1 and "rows that a program hands over are the same cannot be told" in problems[0]


def test_a_dropped_series_leaves_its_cost(ran):
    """Its tables are gone from the session, its ledger entry stays."""
    outcomes, problems = ran(
        CREATE + "release a from queries at level 1; drop series queries; drop series if exists queries; show ledger"
    )
    assert problems == []
    assert outcomes[-1].frame.filter(scope="population")["level"].to_list() == ["1"]
    _, problems = ran("select * from queries.a")
    assert len(problems) == 1


def test_every_type_of_duckdb_comes_back(ran):
    """Types that Polars does not have come as text."""
    outcomes, problems = ran(
        "select interval 1 day as i, '101'::bit as b, 1::uhugeint as u, uuid() as q, {'a': [1]} as s, "
        "map {'k': 1} as m, time '12:00' as t, 1.50::decimal(10, 2) as d, now() as n, null as z, "
        "'x'::blob as x, sum(1) as h"
    )
    assert problems == []
    assert outcomes[0].frame["i"].item() == "1 day" and outcomes[0].frame.height == 1


def test_sql_without_a_store_is_duckdb_alone(log):
    """Statements of our own then say that they need one."""
    assert sh.sql("select count(*) as n from log", tables={"log": log.lazy()}).frame["n"].item() == log.height
    with pytest.raises(errors.NotFoundError, match=r"needs a store: name one .*--store"):
        sh.sql("show ledger")


def test_workloads_are_released_planned_and_read_like_cells(store, ran):
    """Their rows are a table too, in this session and in later ones; a dry run knows their path."""
    numbers = pl.DataFrame({"user_id": range(400), "n": [i % 10 for i in range(400)]})
    store.sql(
        "create series numbers with (unit = user_id, key = n, max_keys = 1, domain = integers(10), cap = 3) "
        "as select user_id, n from numbered",
        tables={"numbered": numbers},
    )
    make = "release sums from numbers using 'prefix()' strategy 'square_root' at level 1"
    foreseen, _ = ran(make, dry_run=True)
    assert foreseen[0].said == "population default: nothing before, rho 1 after"
    outcomes, problems = ran(
        f"plan from numbers using 'prefix()' at level 1, 2; {make}; release cells from numbers at level 1;"
        "show releases from numbers; select max(noisy_answer) as most from numbers.sums;"
    )
    assert problems == []
    assert set(outcomes[0].frame["level"]) == {"1", "2"}
    assert outcomes[3].frame.select("name", "workload").rows() == [("sums", "prefix(10)"), ("cells", None)]
    assert abs(outcomes[4].frame.item() - 400) < 50
    assert store.sql("select count(*) from numbers.sums").frame.item() == 10
    finer = make.replace("sums", "finer").replace("level 1", "level 2")
    assert ran(finer, dry_run=True)[0][0].said == "population default: rho 2 before, rho 3 after"
    assert (
        "cap of the series 3, of which other paths hold 1"
        in ran(finer.replace("level 2", "level 5"), dry_run=True)[1][0]
    )


@pytest.mark.parametrize(
    "said", ["price CLIP 9 STEP 0.5, change CLIP -2 TO 2, events CLIP 5", "'price:clip=9,step=0.5'"]
)
def test_measures_are_declared_in_words_or_as_text(said):
    """CLIP, TO and STEP say what Python's `Measure` takes."""
    sales = pl.DataFrame({"user": [1, 2], "item": [0, 1], "price": [2.5, 30.0], "change": [-1, 1]})
    store = sh.open(":memory:", seed=1)
    options = f"unit = user, key = item, max_keys = 1, domain = integers(5), measures = ({said})"
    store.sql(
        f"create series shop with ({options}) as select user, item, price, change from sales", tables={"sales": sales}
    )
    wanted = (sh.Measure("price", clip=9, step="0.5"), sh.Measure("change", clip=(-2, 2)), sh.Measure.events(most=5))
    assert store.series("shop").declaration.measures in (wanted, wanted[:1])
    with pytest.raises(errors.StatementError, match="expected CLIP"):
        store.sql(
            f"create series worse with ({options.replace(said, 'price 9')}) as select 1", tables={"sales": sales}
        )


def test_every_source_says_what_was_checked(log, here):
    """A frame is recorded as unchecked; a query of Python is checked like one of SQL, unless it is told not to be."""
    declared = {"unit": "user_id", "key": "query", "max_keys": 3, "domain": "strings(max_bytes=16)"}
    log.write_parquet("log.parquet")
    good = sh.Query("select user_id, query from read_parquet($file)", parameters={"file": "log.parquet"})
    bad = sh.Query("select user_id, query from read_parquet('log.parquet') limit 900")
    with sh.open(":memory:", seed=1) as store:
        sources = {
            "a": (log, "unchecked source"),
            "b": ("log.parquet", None),
            "c": (good, "checked query"),
            "e": (log.lazy(), "unchecked source"),
            "f": (log.to_arrow(), "unchecked source"),
            "g": (_connection(log).sql("select user_id, query from log limit 9"), "unchecked source"),
        }
        for name, (source, said) in sources.items():
            metadata = sh.create(store, source, name=name, **declared).release("one", level=1).metadata
            assert metadata["declaration"]["source"] == (said or "")
            assert ("is on trust" in metadata["guarantee"]) == (said == "unchecked source")
            assert store.ledger(series=name, full=True).filter(scope="series")["source"].to_list() == [said]
        assert store.sql("show series").frame["source"].to_list() == [said for _, said in sources.values()]
        store.export_ledger("ledger.parquet")
        exported = pl.read_parquet("ledger.parquet").filter(entry="spent", scope="series")
        assert exported["source"].to_list() == [said for _, said in sources.values()]
        with pytest.raises(errors.GuaranteeError, match="LIMIT"):
            sh.create(store, bad, name="d", **declared)
        series = sh.create(store, replace(bad, unverified=True), name="d", **declared)
        assert series.release("one", level=1).metadata["declaration"]["unverified"]


CHOOSE = """choose keys words with (unit = user_id, key = query, most_keys = 3, delta = 1e-6, rounds = 2)
    at level 1 to 'words.parquet' as select user_id, query from log"""


def test_keys_are_chosen_as_by_python(log, here):
    """The same keys for the same seed; the file is a domain, and a query that mixes units is refused."""
    with sh.open(":memory:", seed=7) as store:
        frame = store.sql(f"{CHOOSE}; {CHOOSE}", tables={"log": log}).frame
        spent = store.ledger(full=True).filter(scope="population")["level"].to_list()
        with pytest.raises(errors.GuaranteeError, match="LIMIT"):
            store.sql(CHOOSE.replace("from log", "from log limit 9"), tables={"log": log})
        with pytest.raises(errors.StatementError, match="WITH has no most_keys"):
            store.sql(CHOOSE.replace("most_keys = 3, ", ""), tables={"log": log})
        made = OPTIONS.replace("'strings(max_bytes=16)'", "$domain") + ", on_outside = 'drop'"
        store.sql(
            f"create series s with ({made}) as from log",
            tables={"log": log}, parameters={"domain": "catalogue(file='words.parquet')"},
        )  # fmt: skip
    with sh.open(":memory:", seed=7) as store:
        query = sh.Query("select user_id, query from log", tables={"log": log})
        found = sh.discover_keys(
            store, query, unit="user_id", key="query", most_keys=3, level=1, delta="1e-6", rounds=2, name="words"
        )
    assert frame["value"].to_list() == found.values.to_list() and "weather" in found.values
    assert spent == ["1"]
