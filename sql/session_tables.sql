-- Tables and views a session made or was handed, releases among them.
--
-- in:  nothing
-- out: name, with the schema where it is another one than main; kind

select
    case when table_schema = 'main' then table_name else table_schema || '.' || table_name end as name,
    case when table_type = 'VIEW' then 'view' else 'table' end as kind
from information_schema.tables
order by name;
