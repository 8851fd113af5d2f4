-- Is there a null or empty unit?
-- in:  table pairs (unit, key)
-- out: one row: found (boolean)
with source as (
    select cast(unit as varchar) as unit
    from pairs
)
select count(*) > 0 as found
from source
where unit is null or unit = ''
