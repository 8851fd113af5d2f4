-- The pairs that count.
-- in:  view bounded (unit, key), distinct pairs; table dropped (unit, key), some of them
-- out: unit, key
with source as (
    select unit, key
    from bounded
)
select source.unit, source.key
from source
anti join dropped on source.unit = dropped.unit and source.key = dropped.key
