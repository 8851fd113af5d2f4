"""An analyst session can query published releases and nothing else."""

import hashlib
import shutil

import duckdb
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError, NotAllowedError, NotFoundError, StatementError, StoreError
from sparsehist.sqlfront.analyst import open_analyst
from tests.sqlfront.break_outs import ATTEMPTS


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return a directory with three releases of two series. The store of both series is already deleted."""
    directory = tmp_path_factory.mktemp("published")
    store = tmp_path_factory.mktemp("curator") / "logs.sparsehist"
    counts = sh.Counts(pl.DataFrame({"query": ["weather", "trains"], "n": [9000, 4000]}), count="n", largest=1)
    for name in ("queries", "select"):
        series = sh.create(
            store, counts, name=name, key="query", max_keys=4, domain=sh.Strings(max_bytes=16), if_exists="reuse"
        )
        series.release("public", level=1, threshold=100).write_parquet(directory / f"{name}.parquet")
    sh.open(store).series("queries").release("partner", level=2, threshold=100).write_parquet(
        directory / "partner.parquet"
    )
    shutil.rmtree(store)
    return directory


@pytest.fixture
def analyst(published):
    """Open an analyst session on the published releases."""
    with open_analyst(published, memory_limit="200MB", threads=1) as session:
        yield session


def test_releases_are_tables_and_need_no_store(analyst, published):
    """An analyst session needs no store: each release is a table `series.release` that the table `ledger` lists."""
    rows = analyst.sql("select * from queries.public order by noisy_count desc, query")
    assert rows.equals(sh.read(published / "queries.parquet").frame)
    assert analyst.sql('select query from "select"."public"').height == 2
    assert analyst.tables()["name"].to_list() == ["queries.partner", "queries.public", "select.public", "ledger"]
    ledger = analyst.sql("select series, release, level from ledger order by all")
    assert ledger.rows() == [("queries", "partner", "2"), ("queries", "public", "1"), ("select", "public", "1")]
    assert analyst.sql("show  Tables ;").equals(analyst.tables())
    assert analyst.sql("SHOW LEDGER;").equals(analyst.sql("from ledger"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT query, noisy_count::int FROM Queries.Public LIMIT 1",
        "select p.query, q.noisy_count from queries.public p join queries.partner q using (query)",
        "with top as (select * from queries.public) select count(*) from top",
        "select query, rank() over (order by noisy_count desc) from queries.public",
        'select * from queries.public where query in (select query from "select".public)',
        "select * from queries.public using sample 1",
        "select unnest([1, 2])",
        "describe queries.public",
        "summarize queries.public",
        "select * from information_schema.tables",
        "select 'copy x to y; attach z' -- ; drop table queries.public",
    ],
)
def test_a_reader_may_query(analyst, query):
    """An analyst session runs statements that only read its tables."""
    assert isinstance(analyst.sql(query), pl.DataFrame)


def _everything(*directories):
    files = [path for directory in directories for path in directory.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_attempt_to_break_out_is_refused(published, tmp_path, monkeypatch):
    """Each of 250 statements that try to reach more than the releases raises NotAllowedError and changes nothing."""
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "cwd"
    elsewhere.mkdir()
    here.mkdir()
    (elsewhere / "secret.csv").write_text("a,b\nsecret word,2\n")
    (elsewhere / "secret.json").write_text('{"a": "secret word"}\n')
    monkeypatch.chdir(here)
    frame_of_the_caller = pl.DataFrame({"a": ["secret word"]})
    before = _everything(published, tmp_path)
    let_through = {}
    with open_analyst(published) as analyst:
        tables = analyst.sql("select * from queries.public order by all")
        for attempt in ATTEMPTS:
            text = attempt.format(elsewhere=elsewhere, here=published)
            try:
                let_through[attempt] = analyst.sql(text).head(1).rows()
            except NotAllowedError as refused:
                if "secret word" in str(refused) or refused.exit_code != 2:
                    let_through[attempt] = str(refused)
            except StatementError as other:
                let_through[attempt] = str(other)
        assert let_through == {}
        assert analyst.sql("select * from queries.public order by all").equals(tables)
        assert analyst.sql("select count(*) from ledger").item() == 3
    assert _everything(published, tmp_path) == before
    assert len(frame_of_the_caller) == 1
    assert len(set(ATTEMPTS)) >= 250


SHUT_IN = [
    "select * from read_csv('{elsewhere}/secret.csv')",
    "copy (select 1) to '{elsewhere}/new.csv'",
    "attach '{elsewhere}/other.duckdb'",
    "load httpfs",
    "set enable_external_access = true",
    "set temp_directory = '{elsewhere}'",
    "select * from frame_of_the_caller",
    "create persistent secret s (type s3, key_id 'a', secret 'b')",
    "pragma profiling_output = '{elsewhere}/profile.json'",
]


@pytest.mark.parametrize("attempt", SHUT_IN)
def test_the_engine_is_locked_without_the_rules(published, tmp_path, attempt):
    """Even if our own check of statements is bypassed, DuckDB refuses to use files, settings or Python variables."""
    (tmp_path / "secret.csv").write_text("a\nsecret word\n")
    frame_of_the_caller = pl.DataFrame({"a": [1]})
    before = _everything(tmp_path)
    with open_analyst(published) as analyst, pytest.raises(duckdb.Error):
        analyst._connection.execute(attempt.format(elsewhere=tmp_path)).fetchall()
    assert _everything(tmp_path) == before
    assert frame_of_the_caller.height == 1


def test_the_store_is_not_opened(published, tmp_path):
    """An analyst session ignores a store in its directory of releases, and refuses a directory that is a store."""
    place = tmp_path / "published"
    shutil.copytree(published, place)
    store = place / "logs.sparsehist"
    counts = sh.Counts(pl.DataFrame({"query": ["weather"], "n": [9000]}), count="n", largest=1)
    sh.create(store, counts, name="other", key="query", max_keys=4, domain=sh.Strings(max_bytes=16))
    (store / "unread.parquet").write_bytes(b"no release")
    with open_analyst(place) as analyst:
        assert analyst.tables().height == 4
    with pytest.raises(InputError, match="is a store"):
        open_analyst(store)


def test_a_release_that_was_changed_is_refused(published, tmp_path):
    """An analyst session refuses a release file that differs from its entry in the public ledger."""
    place = tmp_path / "published"
    shutil.copytree(published, place)
    shutil.copy(place / "partner.parquet", place / "queries.parquet")
    with open_analyst(place) as analyst:  # a copy of a release file is not shown as a second table
        assert analyst.tables().height == 3
    release = sh.read(place / "partner.parquet")
    forged = release.frame.with_columns(pl.col("noisy_count") + 1)
    (place / "partner.parquet").unlink()
    sh.Release(forged, release.metadata).write_parquet(place / "partner.parquet")
    with pytest.raises(InputError, match="was changed after"):
        open_analyst(place)


def test_a_place_without_releases_is_refused(tmp_path):
    """An analyst session refuses a directory that has no releases, or a public ledger with invalid content."""
    with pytest.raises(NotFoundError, match="no release"):
        open_analyst(tmp_path)
    (tmp_path / "sparsehist-ledger.json").write_text("[]")
    with pytest.raises(StoreError):
        open_analyst(tmp_path)
