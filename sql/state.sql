-- The state of a store, kept by SQLite.
--
-- Families, kinds and levels are text whose meaning never changes; times are microseconds since 1970, in UTC.


-- name: settings
-- Settings of every connection. `extra` also synchronises the directory of the rollback journal; deleted data is
-- overwritten, nothing is spilled to files, and a state that was tampered with runs no code.
pragma synchronous = extra;
pragma journal_mode = delete;
pragma secure_delete = on;
pragma temp_store = memory;
pragma trusted_schema = off;
pragma cell_size_check = on;


-- name: settings_in_memory
-- Settings that follow for a store that need not survive a power cut.
pragma synchronous = off;
pragma journal_mode = memory;


-- name: create_tables
-- Create the tables of a new state in one transaction.
begin immediate;

create table store (                   -- one row
    format_version integer not null,
    store_id       text    not null,
    generation     integer not null,   -- raised by one for each round and for each other change
    identity       text    not null,   -- inode and change time of the file `format`
    home           text    not null    -- path where the store was created or last adopted
) strict;

create table series (                  -- a dropped series keeps its row, without its secrets
    series_id   text primary key,
    name        text    not null,
    declaration text    not null,      -- JSON; public; the ledger also needs it for dropped series
    salt        blob,                  -- secret
    made_from   text,                  -- secret: keyed digests of the query and the log, JSON
    created     integer not null,
    dropped     integer
) strict;

create unique index name_of_series on series (name) where dropped is null;

create table path (                    -- noise paths; rows never change
    path_id       integer primary key,
    series_id     text    not null,
    kind          text    not null,    -- 'cells', 'measure', 'workload' or 'interactive'
    workload      text,
    strategy      text,
    integer_noise integer not null     -- 1 or 0
) strict;

create table file (                    -- files in the directory of a series, except its rounds
    series_id text    not null,
    name      text    not null,
    size      integer not null,        -- bytes
    digest    text    not null,        -- SHA-256, hex
    path_id   integer                  -- path that the file is attached to; null if written with the series
) strict;

create index file_of_series on file (series_id);

create table release (                 -- rounds; each has one row and one file
    generation      integer primary key,  -- numbers the releases of a store
    path_id         integer not null,
    series_id       text    not null,  -- series of the path
    name            text    not null,
    level           text    not null,  -- exact; several releases may share one
    spends          integer not null,  -- 1 if it is the first at its level; these rows number the levels
    threshold       real    not null,  -- effective threshold; minus infinity if everything is published
    request         text,              -- JSON; the caller's parameters; null once the series is dropped
    metadata        text    not null,  -- JSON; published beside the rows
    released        integer not null,
    file            text,              -- file of the round; null once the series is dropped, like the next 5
    size            integer,
    digest          text,
    n_past          integer,           -- cells tracked before, or the size of a workload's state
    n_new           integer,           -- cells tracked since; 0 for a workload
    n_empty         integer,           -- number of empty cells among these
    step            integer            -- step of a running count, from 0; null for other releases
) strict;

create index release_of_path on release (path_id, generation);
create unique index name_of_release on release (series_id, name);

create table step (                    -- steps of running series
    series_id  text    not null,
    step       integer not null,       -- from 0, without gaps
    digest     blob,                   -- keyed digest of the pairs of the step; secret; null once erased
    unit_kind  text    not null,       -- type in which units are compared
    source     text    not null,       -- 'checked query', 'unchecked source' or '' (files)
    primary key (series_id, step)
) strict;

create table event (                   -- rows never change; limits are read from them
    number     integer primary key,
    generation integer not null,       -- generation after the event; a refusal does not raise it
    happened   integer not null,
    who        text    not null,
    what       text    not null,       -- 'create store', 'release', 'refuse', 'set budget', …
    series_id  text,
    path_id    integer,
    level      text,
    population text,
    release    text,                   -- name of the release, also if it was refused
    reason     text,                   -- as the caller gave it
    details    text                    -- JSON; public parameters only
) strict;

create table publication (             -- directories with a public ledger that lists this store
    directory text primary key
) strict;

commit;


-- name: raise_generation
-- Claim the next generations, one for each round; no row is changed if another connection did so first.
-- in:  $seen: the generation this transaction builds on; $rounds
update store set generation = generation + $rounds where generation = $seen returning generation;


-- name: read_series
-- The series that were not dropped, in order of creation.
-- in:  $name, or null for all
select series_id, name, declaration, salt, made_from
from series
where dropped is null and ($name is null or name = $name)
order by created, rowid;


-- name: forget_series
-- Erase the secrets of a series from its row; its costs stay.
update series set salt = null, made_from = null, dropped = $dropped where series_id = $series_id;


-- name: forget_rounds
-- Erase the requests and files of a series' releases; what was published stays.
update release
set request = null, file = null, size = null, digest = null, n_past = null, n_new = null, n_empty = null
where series_id = $series_id;


-- name: forget_steps
update step set digest = null where series_id = $series_id;


-- name: read_files
select path_id, name, size, digest from file where series_id = $series_id order by name;


-- name: read_known_names
-- out: name of each directory and file below `series` that the state knows
select series_id as name from series where dropped is null
union all
select series_id || '/' || name from file
union all
select series_id || '/' || file from release where file is not null;


-- name: read_paths
-- The noise paths of a series, in order.
select kind, workload, strategy, integer_noise, path_id from path where series_id = $series_id order by path_id;


-- name: read_releases
-- The releases of a series, in order.
-- in:  $path_id, $name: only those of a noise path or with a name; null for all
-- out: path_id, name, level (exact text), threshold, request, metadata, generation
select path_id, name, level, threshold, request, metadata, generation
from release
where
    series_id = $series_id and request is not null
    and ($path_id is null or path_id = $path_id) and ($name is null or name = $name)
order by generation;


-- name: read_rounds
-- The rounds of a noise path, in order.
-- out: file, size, digest, n_levels (spent up to this round), n_past, n_new, n_empty, then the row that the file
--      vouches for: generation, name, level (exact text), threshold, step, metadata, spends
select
    file, size, digest, sum(spends) over (order by generation) as n_levels, n_past, n_new, n_empty,
    generation, name, level, threshold, step, metadata, spends
from release
where path_id = $path_id
order by generation;


-- name: read_past
-- The levels (of running counts, steps and levels) spent on a noise path, in the order of their first release.
-- out: step or null, level (exact text), threshold (the lowest at that level)
select step, level, min(threshold) as threshold
from release
where path_id = $path_id
group by level, step
order by min(generation);


-- name: read_ledger
-- Costs by noise path, dropped series included.
-- out: series_id, declaration (JSON), dropped, kind, workload, strategy, levels (JSON list of exact texts),
--      releases (their number), first_release, last_release, first_generation, numerical_slack (the sum over releases),
--      delta_infinity (the largest is joint for all releases of the path)
select
    series.series_id, series.declaration, series.dropped, path.kind, path.workload, path.strategy,
    json_group_array(release.level) filter (where release.spends) as levels,
    count(release.generation) as releases,
    min(release.released) as first_release,
    max(release.released) as last_release,
    coalesce(min(release.generation), 0) as first_generation,
    total(json_extract(release.metadata, '$.numerical_slack')) as numerical_slack,
    coalesce(max(json_extract(release.metadata, '$.delta_infinity')), 0.0) as delta_infinity
from path
inner join series on path.series_id = series.series_id
left join release on path.path_id = release.path_id
group by path.path_id
order by path.path_id;


-- name: read_events
-- All events in order, or only those that declare a limit.
-- in:  $limits: 1 for limits only, else 0
-- out: number, generation, happened, who, what, series, series_id, path_id, level, population, release, reason,
--      details (JSON)
select
    event.number, event.generation, event.happened, event.who, event.what, series.name as series, event.series_id,
    event.path_id, event.level,
    coalesce(event.population, json_extract(series.declaration, '$.population')) as population,
    event.release, event.reason, event.details
from event
left join series on event.series_id = series.series_id
where
    not $limits
    or event.what in ('raise cap', 'set budget', 'declare disjoint', 'declare periods', 'drop periods',
        'finish periods')
order by event.number;
