-- What counting runs on DuckDB: the portable order of keys, and checks of a log.
--
-- Keys and units are columns of these names whatever the log calls them.


-- name: count_first
-- Which of some pairs are among the first of their unit, in the portable order.
-- in:  view pairs (place, number, unit, key), distinct pairs, those of a unit under one number; macro salted_hash
--      $most_keys (bigint), $salt (blob)
-- out: kept (boolean), by place
with source as (
    select place, number, key, salted_hash($salt, unit, key) as hash
    from pairs
),

placed_in_order as (
    select place, row_number() over (partition by number order by hash, key) as nth
    from source
)

select nth <= $most_keys as kept
from placed_in_order
order by place;


-- name: check_pairs
-- Distinct (unit, key) pairs with how many rows each has.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key, rows)
create temp table pairs as
select unit, key, count(*) as rows
from log
group by unit, key;


-- name: check_keys
-- Every key of the log once, nulls among them.
-- in:  table pairs (unit, key, rows)
-- out: key
select distinct key
from pairs;


-- name: check_bias
-- By how much the counts of the largest keys fall short for some bounds, each way of bounding; means over all salts.
-- in:  table pairs (unit, key, rows); view judged (key, verdict, cell), as for check_rules
--      view bounds (max_keys)
--      $largest (bigint): of how many keys
-- out: max_keys; pairs_cut: the share of all pairs that is cut; keep_bias, share_bias: the root mean square over the
--      largest keys, in counts; by max_keys
with usable as (
    select distinct pairs.unit, judged.cell
    from pairs
    join judged on pairs.key is not distinct from judged.key
    where pairs.unit is not null and judged.verdict = 'usable'
),

sizes as (
    select unit, count(*) as cells
    from usable
    group by unit
),

largest as (
    select cell
    from usable
    group by cell
    order by count(*) desc, cell
    limit $largest
),

cut as (
    select bounds.max_keys, sum(greatest(sizes.cells - bounds.max_keys, 0)) / sum(sizes.cells) as share
    from sizes
    cross join bounds
    group by bounds.max_keys
),

short as (
    select
        bounds.max_keys,
        usable.cell,
        sum(1 - least(1, bounds.max_keys / sizes.cells)) as keep,
        sum(1 - least(1, sqrt(bounds.max_keys / sizes.cells))) as share
    from usable
    semi join largest on usable.cell = largest.cell
    join sizes on usable.unit = sizes.unit
    cross join bounds
    group by bounds.max_keys, usable.cell
)

select
    short.max_keys,
    any_value(cut.share) as pairs_cut,
    sqrt(avg(short.keep * short.keep)) as keep_bias,
    sqrt(avg(short.share * short.share)) as share_bias
from short
join cut on short.max_keys = cut.max_keys
group by short.max_keys
order by short.max_keys;


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
