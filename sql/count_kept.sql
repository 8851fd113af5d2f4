-- Cut each unit to the first $max_keys keys in its own order.
-- in:  view bounded_source (unit, key), distinct pairs; macro salted_hash
--      $max_keys (bigint), $salt (blob)
-- out: temp table kept (unit, key)
create temp table kept as
with source as (
    select unit, key
    from bounded_source
),

over as (
    select unit
    from source
    group by unit
    having count(*) > $max_keys
),

placed_in_order as (
    select
        source.unit,
        source.key,
        row_number() over (
            partition by source.unit
            order by salted_hash($salt, source.unit, source.key), source.key
        ) as place
    from source
    semi join over on source.unit = over.unit
)

select source.unit, source.key
from source
anti join over on source.unit = over.unit
union all
select unit, key
from placed_in_order
where place <= $max_keys
