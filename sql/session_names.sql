-- Names a session knows: its tables, views and their columns.
--
-- in:  nothing
-- out: name

select table_name as name
from information_schema.tables
union
select column_name as name
from information_schema.columns
order by name;
