-- DuckDB's keywords.
--
-- in:  nothing
-- out: keyword_name

select keyword_name
from duckdb_keywords()
where keyword_category <> 'unreserved'
order by keyword_name;
