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
order by place
