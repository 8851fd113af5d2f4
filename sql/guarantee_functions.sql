-- The functions DuckDB brings along, and whether one depends on its arguments alone.
-- in: nothing
-- out: name, type (scalar, aggregate, macro, …), consistent
select
    function_name as name,
    function_type as type,
    bool_and(coalesce(stability = 'CONSISTENT' and not has_side_effects, false)) as consistent
from duckdb_functions()
where internal
group by all
order by all
