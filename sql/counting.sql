-- What counting runs on DuckDB: a log is bounded to distinct (unit, key) pairs, at most max_keys of each unit.
--
-- Keys and units are columns of these names whatever the log calls them.


-- name: count_pairs
-- Distinct (unit, key) pairs of the log.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key); nulls and empty texts still in it

create temp table pairs as
with source as (
    select unit, key
    from log
)
select distinct unit, key
from source;


-- name: count_missing_units
-- Is there a null or empty unit?
-- in:  table pairs (unit, key)
-- out: one row: found (boolean)

with source as (
    select cast(unit as varchar) as unit
    from pairs
)
select count(*) > 0 as found
from source
where unit is null or unit = '';


-- name: count_drop_missing_units
-- Leave out pairs with a null or empty unit.
-- in:  table pairs (unit, key)
-- out: the same table without them

delete from pairs
where unit is null or cast(unit as varchar) = '';


-- name: count_distinct_keys
-- Every key of the log once.
-- in:  table pairs (unit, key)
-- out: key

with source as (
    select key
    from pairs
)
select distinct key
from source;


-- name: count_placed
-- Put cells in the place of keys; pairs without a cell go, pairs that share one become one.
-- in:  table pairs (unit, key); view cells (key, cell): one row for each key that has a cell
-- out: temp table placed (unit, key)

create temp table placed as
with source as (
    select pairs.unit, cells.cell
    from pairs
    join cells on pairs.key is not distinct from cells.key
)
select distinct unit, cell as key
from source;


-- name: count_hash
-- The order in which a unit's keys are kept: a function of salt and values alone.
-- in:  salt (blob), unit and key (any type)
-- out: macro salted_hash → ubigint; hashed twice, so that the salt does more than flip bits

create or replace temp macro salted_hash(salt, unit, key) as hash(hash(salt, unit, key));


-- name: count_cut
-- The pairs of units above the bound that count for less than a whole unit, and how much less. A unit keeps the
-- first $most_keys of them in its own order, each with the weight for their number.
-- in:  view bounded (unit, key), distinct pairs; macro salted_hash
--      view weights (weight, most): what each key of a unit with at most so many counts; each covers those below it
--      $max_keys, $most_keys, $full (bigint), $salt (blob)
-- out: temp table cut (unit, key, lost): lost > 0, and $full of pairs that do not count at all

create temp table cut as
with source as (
    select unit, key
    from bounded
),

over as (
    select unit, least(count(*), $most_keys) as keys
    from source
    group by unit
    having count(*) > $max_keys
),

weighed as (
    select over.unit, max(weights.weight) as weight
    from over
    join weights on over.keys <= weights.most
    group by over.unit
),

placed_in_order as (
    select
        source.unit,
        source.key,
        weighed.weight,
        row_number() over (
            partition by source.unit
            order by salted_hash($salt, source.unit, source.key), source.key
        ) as place
    from source
    join weighed on source.unit = weighed.unit
)

select unit, key, case when place <= $most_keys then $full - weight else $full end as lost
from placed_in_order
where place > $most_keys or weight < $full;


-- name: count_kept_pairs
-- The pairs that count.
-- in:  view bounded (unit, key), distinct pairs; table cut (unit, key, lost), some of them; $full (bigint)
-- out: unit, key

with source as (
    select unit, key
    from bounded
),

given_up as (
    select unit, key
    from cut
    where lost = $full
)

select source.unit, source.key
from source
anti join given_up on source.unit = given_up.unit and source.key = given_up.key;


-- name: count_keys
-- Counts by key, in parts of which $full make a whole unit.
-- in:  view bounded (unit, key), distinct pairs; table cut (unit, key, lost), some of them; $full (bigint)
-- out: key, count (bigint, at least 1)

with source as (
    select key, $full * count(*) as units
    from bounded
    group by key
),

taken as (
    select key, sum(lost) as units
    from cut
    group by key
)

select source.key, cast(source.units - coalesce(taken.units, 0) as bigint) as count
from source
left join taken on source.key = taken.key
where source.units > coalesce(taken.units, 0);


-- name: check_pairs
-- Distinct (unit, key) pairs with how many rows each has; a unit that is null or empty becomes null.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key, rows)

create temp table pairs as
with source as (
    select nullif(cast(unit as varchar), '') as unit, key
    from log
)
select unit, key, count(*) as rows
from source
group by unit, key;


-- name: check_keys
-- Every key of the log once, nulls among them.
-- in:  table pairs (unit, key, rows)
-- out: key

with source as (
    select key
    from pairs
)
select distinct key
from source;


-- name: check_rules
-- What each rule of counting meets in a log.
-- in:  table pairs (unit, key, rows); view judged (key, verdict, cell): every distinct key, its verdict one of
--      'missing', 'outside', 'usable', and the number of its cell
--      $max_keys (bigint)
-- out: rule, rows, units, keys, pairs: how many of each it touches (bigint, null where it has no meaning);
--      keys are distinct, a pair is a unit and a cell

with source as (
    select pairs.unit, pairs.key, pairs.rows, judged.verdict, judged.cell
    from pairs
    join judged on pairs.key is not distinct from judged.key
),

usable as (
    select unit, cell, sum(rows) as rows
    from source
    where unit is not null and verdict = 'usable'
    group by unit, cell
),

sizes as (
    select unit, count(*) as cells
    from usable
    group by unit
)

select 1 as place, 'log' as rule, coalesce(sum(rows), 0) as rows, count(distinct unit) as units, count(distinct key) as keys, null as pairs
from source
union all
select 2, 'null or empty unit', coalesce(sum(rows), 0), null, count(distinct key), null
from source
where unit is null
union all
select 3, 'null or empty key', coalesce(sum(rows), 0), count(distinct unit), null, null
from source
where verdict = 'missing'
union all
select 4, 'key outside the domain', coalesce(sum(rows), 0), count(distinct unit), count(distinct key), null
from source
where verdict = 'outside'
union all
select 5, 'repeated unit and key', coalesce(sum(rows - 1), 0), count(distinct unit), count(distinct cell), count(*)
from usable
where rows > 1
union all
select 6, 'unit above max_keys', null, count(*), null, coalesce(sum(cells - $max_keys), 0)
from sizes
where cells > $max_keys
union all
select 7, 'counted', null, count(*), null, coalesce(sum(least(cells, $max_keys)), 0)
from sizes
order by place;
