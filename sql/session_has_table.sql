-- Whether a session has a table or view of a name.
--
-- in:  $schema, $name
-- out: one row if it has, none otherwise

select table_name
from information_schema.tables
where table_catalog = 'memory' and table_schema = $schema and table_name = $name
limit 1;
