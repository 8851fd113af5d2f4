-- The state of a store, kept by SQLite.
--
-- Names of families, kinds and levels are text whose meaning never changes; times are microseconds since 1970, in UTC.
-- Arrays (tracked cells, noise) stand in files beside the database, one for each round: `release` vouches for them.


-- name: settings
-- Set on every connection, before anything is read. A commit is on the disk when it returns (`extra` synchronises the
-- directory of the rollback journal too), what is deleted is overwritten, nothing is spilled to files, and a file that
-- was tampered with runs no code and is looked at twice.
pragma synchronous = extra;
pragma journal_mode = delete;
pragma secure_delete = on;
pragma temp_store = memory;
pragma trusted_schema = off;
pragma cell_size_check = on;


-- name: settings_in_memory
-- As above, for a store that nobody needs after a power cut.
pragma synchronous = off;
pragma journal_mode = memory;
pragma secure_delete = on;
pragma temp_store = memory;
pragma trusted_schema = off;
pragma cell_size_check = on;


-- name: create_tables
-- The tables of a new state, made in one transaction.
begin immediate;

create table store (                   -- one row
    format_version integer not null,
    store_id       text    not null,
    generation     integer not null,   -- raised by one in every transaction that changes what was released
    directory      text    not null,   -- what tells the directory at its home from copies: inode, birth, file system
    home           text    not null,
    anchor         text,               -- directory elsewhere that has to know how far the store has come, or null
    created        integer not null
) strict;

create table population (              -- whose costs add up
    name    text primary key,
    created integer not null
) strict;

create table series (                  -- appended; a dropped one keeps its row, without declaration and salt
    series_id   text primary key,
    name        text    not null,
    population  text    not null,
    declaration text,                  -- JSON
    salt        blob,                  -- secret
    made_from   text,                  -- secret: keyed digests of the query and the log it was made from, JSON
    accepted    text,                  -- 'any log' where a log that may have changed was accepted since
    created     integer not null,
    dropped     integer,
    unit        text,                  -- column of the privacy unit; null where counts were bounded elsewhere
    max_keys    integer,               -- a guarantee may depend on it, also after the series is dropped
    unverified  integer not null,      -- 1 if the query of its log was declared to go unchecked
    source      text    not null       -- 'checked query', 'unchecked source', or empty: files
) strict;

create unique index name_of_series on series (name) where dropped is null;

create table path (                    -- appended; what is lossless together
    path_id       integer primary key,
    series_id     text    not null,
    kind          text    not null,    -- 'cells', 'workload' or 'interactive'
    workload      text,
    strategy      text,
    family        text    not null,
    integer_noise integer not null,    -- 1 or 0
    cap           text                 -- exact level; of the whole series
) strict;

create table file (                    -- appended; what stands in the directory of a series beside its rounds
    series_id text    not null,
    name      text    not null,
    size      integer not null,        -- bytes
    digest    text    not null,        -- SHA-256, hex
    path_id   integer                  -- whose attachment it is; null if written when the series was created
) strict;

create index file_of_series on file (series_id);

create table release (                 -- appended; one row, one transaction and one file for each round
    generation      integer primary key,  -- numbers the releases of a store
    path_id         integer not null,
    series_id       text    not null,  -- of the path
    name            text    not null,
    level           text    not null,  -- exact; several releases may stand on one
    spends          integer not null,  -- 1 if it is the first at its level: levels are numbered by these
    threshold       real    not null,  -- the effective one; minus infinity where all is published
    request         text,              -- JSON; what was asked for; null once the series is dropped
    metadata        text    not null,  -- JSON; what was published beside the rows
    round           text,              -- random; tells rounds apart that share a name or a generation
    numerical_slack real    not null,  -- of this release
    delta_infinity  real    not null,  -- joint for all releases of the path so far
    released        integer not null,
    file            text,              -- the arrays of the round; null once the series is dropped, as what follows
    size            integer,
    digest          text,
    n_past          integer,           -- cells tracked before, or the size of a workload's state
    n_new           integer,           -- cells tracked since; none for a workload
    n_empty         integer,           -- how many of these are empty
    step            integer            -- of a running count, from 0; null where counts do not go on
) strict;

-- What every round reads of those before it, without the pages that hold their texts.
create index past_of_path on release (path_id, level, threshold, generation, step);
create index rounds_of_path on release (path_id, generation, spends, file, size, digest, n_past, n_new, n_empty);
create index file_of_round on release (series_id, file) where file is not null;

create unique index name_of_release on release (series_id, name);

create table step (                    -- appended; what was added to a running series, one row for each step
    series_id  text    not null,
    step       integer not null,       -- from 0, without gaps
    digest     blob,                   -- keyed, of the pairs that were given; secret; null once they are erased
    unit_kind  text    not null,       -- what units are compared as
    appended   integer not null,
    primary key (series_id, step)
) strict;

create table event (                   -- appended only, never changed: who did what, when; limits are read from it
    number     integer primary key,    -- numbers the events of a store
    generation integer not null,       -- of the store after it; a refusal does not raise it
    happened   integer not null,
    who        text    not null,
    what       text    not null,       -- 'create store', 'create series', 'release', 'drop series', 'adopt store',
                                       -- 'move store', 'set budget', 'raise cap', 'declare disjoint', 'declare periods',
                                       -- 'accept changed source', 'append', 'finish series', 'finish periods', 'refuse'
    series_id  text,
    path_id    integer,
    level      text,
    population text,
    release    text,                   -- the name that was asked for
    reason     text,                   -- as whoever asked gave it
    details    text                    -- JSON; what was declared or refused: public parameters only
) strict;

create index event_of_kind on event (what);

create table copy (                    -- where a copy was begun, or a cluster writes (a URL); opening removes remains
    place text primary key
) strict;

create table publication (             -- directories with a public ledger that knows this store
    directory text primary key
) strict;

commit;


-- name: insert_store
-- The one row that says which store this is.
-- in:  $format_version, $store_id, $directory, $home, $anchor, $created
insert into store values ($format_version, $store_id, 0, $directory, $home, $anchor, $created);


-- name: read_store
-- Which store this is and how far it has come.
-- out: format_version, store_id, generation, directory, home, anchor
select format_version, store_id, generation, directory, home, anchor from store;


-- name: raise_generation
-- Claim the next generation; no row is changed when somebody else did so first.
-- in:  $seen: the generation this transaction builds on
-- out: changes 1 or 0 rows
update store set generation = generation + 1 where generation = $seen;


-- name: take_place
-- Make a place the home of the store: the next generation, perhaps in another directory.
-- in:  $seen: the generation before, $directory, $home: absolute path, $anchor
-- out: changes 1 or 0 rows
update store
set generation = generation + 1, directory = $directory, home = $home, anchor = $anchor
where generation = $seen;


-- name: insert_publication
-- Remember a directory with a public ledger that knows this store.
-- in:  $directory: absolute path
insert or ignore into publication values ($directory);


-- name: read_publications
-- Where the store is known.
-- out: directory
select directory from publication;


-- name: insert_copy
-- Remember where a copy of the store is begun, or where a cluster is to write the counts of a series.
-- in:  $place: absolute path, or URL for a cluster
insert or ignore into copy values ($place);


-- name: read_copies
-- Where copies of the store were begun since it was last opened, and where clusters write for no series yet.
-- out: place
select place from copy;


-- name: forget_copy
-- No longer look for what a dead run left there.
-- in:  $place
delete from copy where place = $place;


-- name: insert_population
-- Make a population known, once.
-- in:  $name, $created
insert or ignore into population values ($name, $created);


-- name: insert_series
-- Register a series, unless its name is taken.
-- in:  $series_id, $name, $population, $declaration (JSON), $salt, $made_from (JSON), $created, $unit, $max_keys,
--      $unverified, $source
-- out: changes 1 or 0 rows
insert into series
select
    $series_id, $name, $population, $declaration, $salt, $made_from, null, $created, null, $unit, $max_keys,
    $unverified, $source
where not exists (select 1 from series where name = $name and dropped is null);


-- name: read_series
-- The series that were not dropped, in order of creation.
-- in:  $name, or null for all
-- out: series_id, name, population, declaration (JSON), salt, made_from, accepted, source (of a running series the one
--      of its steps that says least)
select
    series_id,
    name,
    population,
    declaration,
    salt,
    made_from,
    accepted,
    max(
        source,
        coalesce((
            select max(coalesce(event.details ->> 'source', 'unchecked source'))
            from event
            where event.what = 'append' and event.series_id = series.series_id
        ), '')
    ) as source
from series
where dropped is null and ($name is null or name = $name)
order by created, rowid;


-- name: forget_series
-- Take the secrets of a series out of its row; what it spent stays.
-- in:  $series_id, $dropped
update series
set declaration = null, salt = null, made_from = null, accepted = null, dropped = $dropped
where series_id = $series_id;


-- name: accept_source
-- Remember that a series was accepted to stand whatever has become of its log.
-- in:  $series_id
update series set accepted = 'any log' where series_id = $series_id;


-- name: forget_files
-- No longer vouch for the files of a series.
-- in:  $series_id
delete from file where series_id = $series_id;


-- name: forget_rounds
-- No longer vouch for the noise of a series, and keep of its releases what was published, not what was asked for.
-- in:  $series_id
update release
set request = null, file = null, size = null, digest = null, n_past = null, n_new = null, n_empty = null
where series_id = $series_id;


-- name: write_anew
-- Write the whole file anew, so that no byte of what was deleted or moved stays in it.
vacuum;


-- name: check_whole
-- Look for damage in the whole file.
-- out: one row, 'ok' if there is none
pragma integrity_check (1);


-- name: insert_file
-- Vouch for a file of a series, or for an attachment of one of its noise paths.
-- in:  $series_id, $name, $size, $digest, $path_id or null
insert into file values ($series_id, $name, $size, $digest, $path_id);


-- name: read_files
-- The files beside the rounds, by name.
-- in:  $series_id
-- out: path_id (null for those of the series itself), name, size, digest
select path_id, name, size, digest from file where series_id = $series_id order by name;


-- name: read_registered_files
-- Every series and every file the state vouches for; anything else beside them was left by a run that died.
-- out: series_id, name (null for the series itself, which may have no files yet)
select series_id, null as name from series where dropped is null
union all
select series_id, name from file
union all
select series_id, file from release where file is not null;


-- name: insert_path
-- Open a noise path.
-- in:  $series_id, $kind, $workload, $strategy, $family, $integer_noise, $cap
-- out: path_id
insert into path (series_id, kind, workload, strategy, family, integer_noise, cap)
values ($series_id, $kind, $workload, $strategy, $family, $integer_noise, $cap)
returning path_id;


-- name: read_paths
-- The noise paths of a series, in order.
-- in:  $series_id
-- out: path_id, kind, workload, strategy, family, integer_noise
select path_id, kind, workload, strategy, family, integer_noise
from path
where series_id = $series_id
order by path_id;


-- name: read_path
-- Whose noise path this is and of which kind its noise is.
-- in:  $path_id
-- out: series_id, kind, integer_noise
select series_id, kind, integer_noise from path where path_id = $path_id;


-- name: insert_release
-- Record a release and vouch for the file of its round.
-- in:  $generation, $path_id, $series_id, $name, $level (exact text), $spends, $threshold, $request (JSON),
--      $metadata (JSON), $round, $numerical_slack, $delta_infinity, $released, $file, $size, $digest, $n_past, $n_new,
--      $n_empty, $step or null
insert into release values (
    $generation, $path_id, $series_id, $name, $level, $spends, $threshold, $request, $metadata, $round,
    $numerical_slack, $delta_infinity, $released, $file, $size, $digest, $n_past, $n_new, $n_empty, $step
);


-- name: read_releases
-- What was released on a noise path, in order.
-- in:  $path_id
-- out: path_id, generation, name, level (exact text), threshold, request, metadata
select path_id, generation, name, level, threshold, request, metadata
from release
where path_id = $path_id
order by generation;


-- name: read_release
-- The release of a name, on whichever noise path of a series.
-- in:  $series_id, $name
-- out: at most one row: path_id, generation, name, level (exact text), threshold, request, metadata
select path_id, generation, name, level, threshold, request, metadata
from release
where series_id = $series_id and name = $name;


-- name: read_rounds
-- The rounds of a noise path and the files that hold them, in order.
-- in:  $path_id
-- out: spends, file, size, digest, n_past, n_new, n_empty
select spends, file, size, digest, n_past, n_new, n_empty
from release
where path_id = $path_id
order by generation;


-- name: read_past
-- The levels spent on a noise path in the order in which they first were, with the lowest threshold of each; of
-- running counts the steps and levels.
-- in:  $path_id
-- out: level (exact text), threshold, step or null
select level, min(threshold) as threshold, step
from release
where path_id = $path_id
group by level, step
order by min(generation);


-- name: insert_step
-- Record what was appended to a running series, unless that step was.
-- in:  $series_id, $step, $digest, $unit_kind, $appended
-- out: changes 1 or 0 rows
insert or ignore into step values ($series_id, $step, $digest, $unit_kind, $appended);


-- name: read_steps
-- What was appended to a running series, in order.
-- in:  $series_id
-- out: step, digest (null once pairs are erased), unit_kind, source (as the event of the step says)
with told as materialized (
    select
        details ->> 'step' - 1 as step,
        details ->> 'source' as source
    from event
    where what = 'append' and series_id = $series_id
)

select
    step.step,
    step.digest,
    step.unit_kind,
    coalesce(told.source, 'unchecked source') as source
from step
left join told on step.step = told.step
where step.series_id = $series_id
order by step.step;


-- name: forget_digests
-- No longer recognise what was appended to a series.
-- in:  $series_id
update step set digest = null where series_id = $series_id;


-- name: forget_file
-- No longer vouch for one file of a series.
-- in:  $series_id, $name
delete from file where series_id = $series_id and name = $name;


-- name: read_finished
-- Whether nothing more can be appended to a running series.
-- in:  $series_id
-- out: at most one row: 1
select 1 from event where series_id = $series_id and what = 'finish series' limit 1;


-- name: read_round_ids
-- The random ids of all rounds ever committed, those of dropped series included.
-- out: round
select round from release;


-- name: read_ledger
-- What was spent, by noise path, dropped series included.
-- out: series, series_id, population, path_id, kind, workload, strategy, family,
--      levels (JSON list of exact texts), n_releases, cap, first_release, last_release,
--      numerical_slack (the sum over releases), dropped, delta_infinity (joint for all releases of the path so far, so
--      that the last one's is the largest), first_generation, unit, max_keys,
--      unverified (whether the query of the log was declared to go unchecked), source (of a running series the one
--      of its steps that says least: 'unchecked source' comes after 'checked query', and both after an empty one)
with spent as (
    select
        path_id,
        json_group_array(level) filter (where spends) as levels,
        count(*) as n_releases,
        min(released) as first_release,
        max(released) as last_release,
        min(generation) as first_generation,
        sum(numerical_slack) as numerical_slack,
        max(delta_infinity) as delta_infinity
    from release
    group by path_id
)

select
    series.name as series,
    series.series_id,
    series.population,
    path.path_id,
    path.kind,
    path.workload,
    path.strategy,
    path.family,
    coalesce(spent.levels, '[]') as levels,
    coalesce(spent.n_releases, 0) as n_releases,
    path.cap,
    spent.first_release,
    spent.last_release,
    coalesce(spent.numerical_slack, 0.0) as numerical_slack,
    series.dropped,
    coalesce(spent.delta_infinity, 0.0) as delta_infinity,
    spent.first_generation,
    series.unit,
    series.max_keys,
    series.unverified,
    max(
        series.source,
        coalesce((
            select max(coalesce(event.details ->> 'source', 'unchecked source'))
            from event
            where event.what = 'append' and event.series_id = series.series_id
        ), '')
    ) as source
from path
inner join series on path.series_id = series.series_id
left join spent on path.path_id = spent.path_id
order by path.path_id;


-- name: insert_event
-- Append to the ledger of events.
-- in:  $generation: after this transaction, $happened, $who, $what, $series_id, $path_id, $level (exact text or null),
--      $population, $release, $reason, $details (JSON or null)
insert into event
values (
    null, $generation, $happened, $who, $what, $series_id, $path_id, $level, $population, $release, $reason, $details
);


-- name: read_events
-- Who did what, when, in order.
-- out: number, generation, happened, who, what, series, series_id, path_id, level, population, release, reason,
--      details (JSON)
select
    event.number, event.generation, event.happened, event.who, event.what, series.name as series, event.series_id,
    event.path_id, event.level, coalesce(event.population, series.population) as population, event.release,
    event.reason, event.details
from event
left join series on event.series_id = series.series_id
order by event.number;


-- name: read_limit_events
-- Who declared which limit, when, in order: the events that a release is held against.
-- out: number, generation, happened, who, what, series, series_id, path_id, level, population, release, reason,
--      details (JSON)
select
    event.number, event.generation, event.happened, event.who, event.what, series.name as series, event.series_id,
    event.path_id, event.level, coalesce(event.population, series.population) as population, event.release,
    event.reason, event.details
from event
left join series on event.series_id = series.series_id
where event.what in ('raise cap', 'set budget', 'declare disjoint', 'declare periods', 'finish periods')
order by event.number;
