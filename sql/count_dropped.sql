-- The pairs that units above the bound must give up: all but the first $max_keys in the unit's own order.
-- in:  view bounded (unit, key), distinct pairs; macro salted_hash
--      $max_keys (bigint), $salt (blob)
-- out: temp table dropped (unit, key)
create temp table dropped as
with source as (
    select unit, key
    from bounded
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

select unit, key
from placed_in_order
where place > $max_keys
