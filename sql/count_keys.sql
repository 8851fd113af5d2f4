-- Units by key.
-- in:  table kept (unit, key)
-- out: key, count (bigint)
with source as (
    select key
    from kept
)
select key, count(*) as count
from source
group by key
