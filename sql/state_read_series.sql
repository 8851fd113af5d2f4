-- The series that were not dropped, in no order.
--
-- in:  $name, or null for all
-- out: series_id, name, population, declaration (JSON), salt, created

select series_id, name, population, declaration, salt, created
from series
where dropped is null and ($name is null or name = $name);
