-- Units by key, without the pairs that were given up.
-- in:  view bounded (unit, key), distinct pairs; table dropped (unit, key), some of them
-- out: key, count (bigint, at least 1)
with source as (
    select key, count(*) as units
    from bounded
    group by key
),

given_up as (
    select key, count(*) as units
    from dropped
    group by key
)

select source.key, source.units - coalesce(given_up.units, 0) as count
from source
left join given_up on source.key = given_up.key
where source.units > coalesce(given_up.units, 0)
