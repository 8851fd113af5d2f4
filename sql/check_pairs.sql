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
group by unit, key
