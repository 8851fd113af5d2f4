-- Every key of the log once, nulls among them.
-- in:  table pairs (unit, key, rows)
-- out: key
with source as (
    select key
    from pairs
)
select distinct key
from source
