-- Every key of the log once.
-- in:  table pairs (unit, key)
-- out: key
with source as (
    select key
    from pairs
)
select distinct key
from source
