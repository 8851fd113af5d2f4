"""SQL statements that analyst sessions must refuse.

{here} stands for the directory of releases, and {elsewhere} for a different directory.
"""

from __future__ import annotations

PLAIN = [
    # other databases
    "attach '{elsewhere}/other.duckdb'",
    "attach ':memory:' as other",
    "attach '{elsewhere}/other.duckdb' as o; select * from o.t",
    "detach memory",
    "use temp",
    "copy from database memory to temp",
    # files written
    "copy queries.public to '{here}/queries.parquet'",
    "copy (select * from queries.public) to '{here}/new.csv'",
    "copy (select 1) to '/dev/stdout'",
    "export database '{here}/dump'",
    "copy queries.public to '{here}/x' (format parquet, partition_by (query))",
    # files read
    "copy queries.public from '{elsewhere}/secret.csv'",
    "import database '{elsewhere}'",
    "select * from read_parquet('{here}/queries.parquet')",
    "select * from parquet_scan('{here}/*.parquet')",
    "select * from read_duckdb('{elsewhere}/other.duckdb')",
    "select * from glob('{elsewhere}/*')",
    "select * from parquet_metadata('{here}/queries.parquet')",
    "select * from parquet_schema('{here}/queries.parquet')",
    "select * from parquet_kv_metadata('{here}/queries.parquet')",
    "select * from '{here}/queries.parquet'",
    "from '{elsewhere}/secret.csv'",
    'select * from "{elsewhere}/secret.csv"',
    "select (select count(*) from '{elsewhere}/secret.csv')",
    "with \"{elsewhere}/a.csv\" as (select 1) select * from (from '{elsewhere}/a.csv'), '{here}/queries.parquet'",
    "create temp table t as select * from read_csv('{elsewhere}/secret.csv')",
    "create temp view v as select * from '{elsewhere}/secret.csv'",
    "describe '{elsewhere}/secret.csv'",
    "summarize '{elsewhere}/secret.csv'",
    "explain analyze select * from '{elsewhere}/secret.csv'",
    "explain copy queries.public to '{here}/new.csv'",
    "select * from 'https://example.com/x.parquet'",
    "select * from read_parquet('s3://bucket/x.parquet')",
    # Python variables
    "select * from frame_of_the_caller",
    "select * from pandas_scan(1)",
    "select * from arrow_scan(1, 2, 3)",
    # settings, secrets, extensions
    "reset lock_configuration",
    "call enable_logging(storage = 'file', storage_path = '{here}')",
    "select * from enable_logging('QueryLog')",
    "select write_log('x')",
    "install httpfs",
    "load spatial",
    "force install httpfs from community",
    "create secret s (type s3, key_id 'a', secret 'b')",
    "create persistent secret s (type s3, key_id 'a', secret 'b')",
    "select * from which_secret('s3://x', 's3')",
    "select getenv('HOME')",
    "select value from duckdb_settings() where name = 'secret_directory'",
    "select value from duckdb_settings where name = 'secret_directory'",
    "select current_setting('secret_directory')",
    "load '{elsewhere}/other.duckdb'",
    # published tables
    "drop table queries.public",
    "delete from queries.public",
    "truncate queries.public",
    "update queries.public set noisy_count = 0",
    "insert into queries.public values ('x', 1)",
    "alter table queries.public rename to other",
    "create or replace table queries.public as select 1",
    "create table queries.more as select 1 as x",
    "create temp table queries.public as select 1 as x",
    "create schema mine",
    "create or replace table ledger as select 1 as x",
    "create or replace temp table ledger as select 1 as x",
    "drop schema queries cascade",
    "comment on table queries.public is 'x'",
    "create index i on queries.public (query)",
    "merge into queries.public using ledger on true when matched then delete",
    "with gone as (delete from queries.public returning *) select * from gone",
    # statements in statements
    "prepare p as copy queries.public to '{here}/new.csv'",
    "execute p",
    "select 1; copy queries.public to '{here}/new.csv'",
    "select 1; /* no more */ drop table queries.public",
    "/* select */ drop table queries.public -- select",
    "explain select 1; drop table queries.public",
    "select * from query('select * from ''{elsewhere}/secret.csv''')",
    "select * from json_execute_serialized_sql('{{}}')",
    "pragma json_execute_serialized_sql('{{}}')",
    "create macro m() as table select * from '{elsewhere}/secret.csv'",
    "create temp macro m(x) as x",
    "create temp function f(x) as x",
    "create temp sequence s",
    "create type t as enum ('a')",
    "pivot queries.public on query using sum(noisy_count)",
    "select nextval('s')",
    # the engine
    "checkpoint",
    "force checkpoint",
    "begin",
    "vacuum",
    "call pragma_version()",
    "select sleep_ms(100000)",
]

MORE = [
    # Statements that read files by rarely used functions, or with names in an unusual spelling or position.
    "select * from \"read_csv\"('{elsewhere}/secret.csv')",
    "select * from main.read_csv('{elsewhere}/secret.csv')",
    "select * from system.main.read_csv('{elsewhere}/secret.csv')",
    "select * from/**/read_csv/**/('{elsewhere}/secret.csv')",
    "select * from read_csv(\nE'{elsewhere}/secret.csv')",
    "select * from read_csv($${elsewhere}/secret.csv$$)",
    "select * from read_csv(['{elsewhere}/secret.csv'])",
    "select * from read_csv('{elsewhere}/' || 'secret.csv')",
    "select * from parquet_file_metadata('{here}/queries.parquet')",
    "select * from parquet_bloom_probe('{here}/queries.parquet', 'query', 'weather')",
    "select * from parquet_full_metadata('{here}/queries.parquet')",
    "select * from seq_scan('ledger')",
    "select * from index_scan('ledger')",
    "select * from arrow_scan_dumb(1, 2, 3)",
    "select * from read_duckdb('{elsewhere}/*.duckdb')",
    "table '{elsewhere}/secret.csv'",
    "from read_text('{elsewhere}/*') select content",
    "from glob('/proc/self/*')",
    "from read_text('/proc/self/environ')",
    "from read_blob('/dev/zero')",
    "select * from '/etc/passwd'",
    "select * from 'file://{elsewhere}/secret.csv'",
    "select * from '{elsewhere}/secret.csv' union all select 1, 2",
    "(select 1, 2) union all (select * from '{elsewhere}/secret.csv')",
    "select * from ('{elsewhere}/secret.csv')",
    "show '{elsewhere}/secret.csv'",
    "explain select * from read_csv('{elsewhere}/secret.csv')",
    "explain analyze select * from read_csv('{elsewhere}/secret.csv')",
    # files, written
    "copy ledger to '{here}/ledger.json' (format json)",
    "copy (from queries.public) to '{here}/queries.parquet' (format parquet)",
    "copy queries.public to '{here}' (format parquet, per_thread_output)",
    "copy (select 1) to '{elsewhere}/secret.csv' (use_tmp_file false)",
    "copy ledger from '{elsewhere}/secret.json' (format json)",
    "export database '{here}/dump' (format parquet)",
    "explain analyze copy (select 1) to '{here}/new.csv'",
    "create table elsewhere as from '{elsewhere}/secret.csv'",
    "create view elsewhere as select 1 as x",
    "create or replace view queries.public as select 1 as x",
    "create temp table t as select 1 as x; copy t to '{here}/t.csv'",
    # Statements that use databases, settings, extensions or secrets.
    "attach 'https://example.com/x.duckdb'",
    "attach if not exists '{elsewhere}/other.duckdb' as other (read_only)",
    "attach or replace '{elsewhere}/other.duckdb' as memory",
    "attach 'sqlite:{elsewhere}/other.db' (type sqlite)",
    "detach database if exists memory",
    "use memory.main",
    "copy from database temp to memory",
    "reset memory_limit",
    "call duckdb_settings()",
    "call force_checkpoint()",
    "select * from pragma_storage_info('ledger')",
    "select getvariable('x')",
    "select currval('s')",
    "select current_query()",
    "select current_setting('temp_directory')",
    "select * from (select getenv('PATH'))",
    "select query from queries.public where getenv('HOME') is not null",
    "select list_transform([1], x -> getenv('HOME'))",
    "select max(getenv('HOME')) over ()",
    "install httpfs from 'http://127.0.0.1:1'",
    "update extensions",
    "load '{elsewhere}/x.duckdb_extension'",
    "create or replace secret (type http)",
    "drop secret s",
    "drop persistent secret if exists s",
    # Statements that create, change or drop tables.
    "drop table if exists ledger cascade",
    "drop view if exists queries.public",
    "drop table queries.partner; select 1",
    "alter table ledger add column x int",
    "alter table queries.public alter query set default 'x'",
    "insert or replace into queries.public values ('x', 1)",
    "insert into ledger select * from ledger",
    "delete from ledger using queries.public",
    "update ledger set level = '0'",
    "create schema if not exists queries2",
    "create unique index i on ledger (release)",
    "create or replace macro main.now() as 1",
    "create type queries.t as enum ('a')",
    "create sequence s",
    "comment on column queries.public.query is 'x'",
    "comment on table ledger is null",
    "analyze ledger",
    "vacuum analyze",
    "commit",
    "rollback",
    "begin transaction read only",
    "abort",
    "deallocate p",
    "prepare p as select 1",
    # statements in statements
    "with gone as (update queries.public set noisy_count = 0 returning *) from gone",
    "with new as (insert into queries.public values ('x', 1) returning *) from new",
    "explain insert into queries.public values ('x', 1)",
    "explain analyze delete from queries.public",
    "explain (analyze) select 1",
    "explain (format json) copy ledger to '{here}/x.csv'",
    "select 1;;; drop table ledger",
    "select 1 /* ; */ ; drop table ledger",
    "select 'it''s'; drop table ledger --'",
    "select $$;$$; drop table ledger",
    "from query('drop table ledger')",
    "from query_table(['queries.public', '{elsewhere}/secret.csv'])",
    "from query('from query(''from ledger'')')",
    "pivot ledger on release",
    "pivot_wider queries.public on query using sum(noisy_count)",
]

_SETTINGS = """
    enable_external_access = true | global python_enable_replacements = true | temp_directory = '{here}' |
    variable x = 1 | log_query_path = '{here}/log' | memory_limit = '100GB' | threads = 64 | search_path =
    'queries' | schema = 'queries' | session temp_directory = '{elsewhere}' | home_directory = '{elsewhere}' |
    extension_directory = '{elsewhere}' | custom_extension_repository = '{elsewhere}' |
    allow_unsigned_extensions = true | secret_directory = '{elsewhere}' | enable_logging = true |
    default_null_order = 'nulls_first'
"""
_PRAGMAS = """
    enable_profiling = 'json' | profiling_output = '{here}/profile.json' | database_list | memory_limit =
    '100GB' | enable_logging | enable_object_cache | disable_checkpoint_on_shutdown | show_databases |
    table_info('ledger') | import_database('{elsewhere}') | storage_info('ledger')
"""
_TABLES = """
    enable_profiling duckdb_secrets checkpoint force_checkpoint duckdb_logs test_all_types python_map_function
    duckdb_databases duckdb_extensions duckdb_settings duckdb_memory duckdb_temporary_files duckdb_variables
    duckdb_secret_types duckdb_log_contexts duckdb_external_file_cache duckdb_optimizers pragma_database_size
    pragma_platform pragma_user_agent
"""
_CSV_READERS = "read_csv read_csv_auto read_text read_blob sniff_csv st_read query_table READ_CSV"
_JSON_READERS = """
    read_json read_ndjson_objects read_json_auto read_json_objects read_json_objects_auto read_ndjson
    read_ndjson_auto
"""
_BY_NAME = [
    *(f"set {one.strip()}" for one in " ".join(_SETTINGS.split()).split("|")),
    *(f"pragma {one.strip()}" for one in " ".join(_PRAGMAS.split()).split("|")),
    *(f"select * from {name}()" for name in _TABLES.split()),
    *(f"select * from {name}('{{elsewhere}}/secret.csv')" for name in _CSV_READERS.split()),
    *(f"select * from {name}('{{elsewhere}}/secret.json')" for name in _JSON_READERS.split()),
]

# Queries that name a file at every position where a table or a value may appear.
_PLACES = [
    "select * from queries.public where query in (select a from {file})",
    "select * from queries.public where exists (from {file})",
    "select * from queries.public order by (select max(b) from {file})",
    "select query, (select max(b) from {file}) from queries.public",
    "select count(*) from queries.public group by all having (select count(*) from {file}) > 0",
    "select * from queries.public limit (select count(*) from {file})",
    "select * from queries.public qualify (select count(*) from {file}) = row_number() over ()",
    "select * from queries.public, lateral (from {file})",
    "select * from queries.public left join {file} f on f.a = query",
    "select * from queries.public semi join {file} f on f.a = query",
    "select * from queries.public positional join {file}",
    "select * from queries.public asof join {file} f on f.b <= noisy_count",
    "with c as materialized (from {file}) from c",
    "with recursive c as (select 1 as i union all select i + 1 from c, {file} where i < 2) from c",
    "select a from {file} except select query from queries.public",
    "select unnest((select list(a) from {file}))",
    "select list_transform([1], x -> (select count(*) from {file}))",
    "select case when true then (select count(*) from {file}) end",
    "select struct_pack(x := (select max(a) from {file}))",
    "select * from (values ((select count(*) from {file})))",
    "select * from range((select count(*) from {file}))",
    "select sum(b) filter (where b > (select min(b) from {file})) from (values (1)) t(b)",
    "select rank() over (order by (select count(*) from {file}))",
    "select * from {file} using sample 1",
    "create or replace temp view v as select (select count(*) from {file}) as n",
    "summarize select * from {file}",
    "describe select * from {file}",
]
_FILES = ["'{elsewhere}/secret.csv'", "read_csv('{elsewhere}/secret.csv')"]

ATTEMPTS = [*PLAIN, *MORE, *_BY_NAME, *(place.replace("{file}", file) for place in _PLACES for file in _FILES)]
