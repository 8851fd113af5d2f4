-- Bring the tables of format 1 to format 2.
--
-- in:  nothing; of format 1 are series, series_file, event and store
-- out: nothing
--
-- Format 2 knows whose attachment a file is, keeps unit and max_keys of a series beyond its drop (where a series of
-- format 1 was dropped, max_keys stands in what was published and unit is gone), numbers events, and says in them
-- what was asked for and why.

create table new_series (
    series_id   varchar not null,
    name        varchar not null,
    population  varchar not null,
    declaration varchar,
    salt        blob,
    created     timestamp not null,
    dropped     timestamp,
    unit        varchar,
    max_keys    bigint
);

insert into new_series
with published as (
    select series_id, max(cast(metadata::json ->> 'max_keys' as bigint)) as max_keys
    from release
    group by series_id
)

select
    series.*,
    series.declaration::json ->> 'unit' as unit,
    coalesce(cast(series.declaration::json ->> 'max_keys' as bigint), published.max_keys) as max_keys
from series
left join published using (series_id);

create table new_series_file (
    series_id varchar not null,
    name      varchar not null,
    size      bigint  not null,
    digest    varchar not null,
    path_id   integer
);

insert into new_series_file
select series_id, name, size, digest, null as path_id
from series_file;

create table new_event (
    number     bigint  not null,
    generation bigint  not null,
    happened   timestamp not null,
    who        varchar not null,
    what       varchar not null,
    series_id  varchar,
    path_id    integer,
    level      varchar,
    population varchar,
    release    varchar,
    reason     varchar,
    details    varchar
);

insert into new_event
select
    row_number() over (order by event.generation) as number,
    event.generation, event.happened, event.who, event.what, event.series_id, event.path_id, event.level,
    null as population, release.name as release, null as reason, null as details
from event
left join release on event.what = 'release' and release.generation = event.generation;

drop table series;
drop table series_file;
drop table event;
alter table new_series rename to series;
alter table new_series_file rename to series_file;
alter table new_event rename to event;

update store set format_version = 2;
