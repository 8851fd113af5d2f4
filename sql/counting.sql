-- What counting runs on DuckDB: a log is bounded to distinct (unit, key) pairs, at most max_keys of each unit.
--
-- Keys and units are columns of these names whatever the log calls them.


-- name: count_pairs
-- Distinct (unit, key) pairs of the log.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key); nulls and empty keys still in it

create temp table pairs as
with source as (
    select unit, key
    from log
)
select distinct unit, key
from source;


-- name: count_missing_units
-- Is there a missing unit?
-- in:  table pairs (unit, key)
-- out: one row: found (boolean)

with source as (
    select unit
    from pairs
)
select count(*) > 0 as found
from source
where unit is null;


-- name: count_drop_missing_units
-- Leave out pairs without a unit.
-- in:  table pairs (unit, key)
-- out: the same table without them

delete from pairs
where unit is null;


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


-- name: count_cutoffs
-- What units above the bound add to each key they keep, and how far they keep them: the $most_keys-th hash of each.
-- in:  view bounded (unit, key), distinct pairs; macro salted_hash
--      view weights (weight, most): what each key of a unit with at most so many counts; each covers those below it
--      $max_keys, $most_keys (bigint), $salt (blob)
-- out: temp table cutoffs (unit, weight, cut, tied): cut is null where all keys are kept; tied where the next hash
--      is the same

create or replace temp table cutoffs as
with source as (
    select unit, key
    from bounded
),

over as (
    select unit, least(count(*), $most_keys) as kept, count(*) > $most_keys as is_cut
    from source
    group by unit
    having count(*) > $max_keys
),

weighed as (
    select over.unit, max(weights.weight) as weight
    from over
    join weights on over.kept <= weights.most
    group by over.unit
),

hashed as (
    select source.unit, salted_hash($salt, source.unit, source.key) as hash
    from source
    semi join (select unit from over where is_cut) as cut on source.unit = cut.unit
),

placed_in_order as (
    select unit, hash, row_number() over (partition by unit order by hash) as place
    from hashed
),

cuts as (
    select unit, min(hash) as cut, min(hash) = max(hash) as tied
    from placed_in_order
    where place between $most_keys and $most_keys + 1
    group by unit
)

select weighed.unit, weighed.weight, cuts.cut, coalesce(cuts.tied, false) as tied
from weighed
left join cuts on weighed.unit = cuts.unit;


-- name: count_last_kept
-- The last key that a tied unit keeps: those whose hashes agree are in the order of their values.
-- in:  view bounded (unit, key), distinct pairs; table cutoffs (unit, cut, tied); macro salted_hash
--      $most_keys (bigint), $salt (blob)
-- out: temp table last_kept (unit, key)

create or replace temp table last_kept as
with source as (
    select bounded.unit, bounded.key
    from bounded
    semi join (select unit from cutoffs where tied) as ties on bounded.unit = ties.unit
),

placed_in_order as (
    select
        unit,
        key,
        row_number() over (partition by unit order by salted_hash($salt, unit, key), key) as place
    from source
)

select unit, key
from placed_in_order
where place = $most_keys;


-- name: count_kept
-- Which pairs count: all of a unit that has no more than it may, and of others those up to the last one kept.
-- in:  salt (blob), unit and key of a pair; cut of its unit, or null; last key that its unit keeps, or null
-- out: macro kept → boolean

create or replace temp macro kept(salt, unit, key, cut, last_key) as
case
    when cut is null then true  -- most pairs: nothing is hashed for them
    else
        salted_hash(salt, unit, key) < cut
        or (salted_hash(salt, unit, key) = cut and coalesce(key <= last_key, true))
end;


-- name: count_kept_pairs
-- The pairs that count.
-- in:  view bounded (unit, key), distinct pairs; tables cutoffs (unit, cut), last_kept (unit, key); macro kept
--      $salt (blob)
-- out: unit, key

with source as (
    select unit, key
    from bounded
)
select source.unit, source.key
from source
left join cutoffs on source.unit = cutoffs.unit
left join last_kept on source.unit = last_kept.unit
where kept($salt, source.unit, source.key, cutoffs.cut, last_kept.key);


-- name: count_keys
-- Counts by key, in parts of which $full make a whole unit.
-- in:  view bounded (unit, key), distinct pairs; tables cutoffs (unit, weight, cut), last_kept (unit, key)
--      macro kept; $full (bigint), $salt (blob)
-- out: key, count (bigint); every key of the pairs, also where nobody keeps it

with source as (
    select
        bounded.key,
        case
            when kept($salt, bounded.unit, bounded.key, cutoffs.cut, last_kept.key)
                then coalesce(cutoffs.weight, $full)
            else 0
        end as weight
    from bounded
    left join cutoffs on bounded.unit = cutoffs.unit
    left join last_kept on bounded.unit = last_kept.unit
)
select key, cast(sum(weight) as bigint) as count
from source
group by key;


-- name: count_bounding
-- What bounding met.
-- in:  view bounded (unit, key), distinct pairs; table cutoffs (unit, …): a row for each unit above the bound
-- out: one row: pairs, units_above

select
    (select count(*) from bounded) as pairs,
    (select count(*) from cutoffs) as units_above;


-- name: check_pairs
-- Distinct (unit, key) pairs with how many rows each has.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key, rows)

create temp table pairs as
with source as (
    select unit, key
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


-- name: parts_hash
-- The hash by which a cluster sorts the keys that there are.
-- in:  view texts (text): of each key its columns, a NUL before each; $salt (varchar), hexadecimal
-- out: hash (bigint): the first 60 bits of a SHA-256, in the order of the view

with source as (
    select text
    from texts
)
select cast('0x' || left(sha256($salt || text), 15) as bigint) as hash
from source;
