-- The series that were not dropped, with their files and noise paths.
--
-- in:  $name, or null for all
-- out: series_id, name, population, declaration, salt, created,
--      files (list of name, size, digest),
--      paths (list of path_id, kind, workload, strategy, family, integer_noise)

with files as (
    select series_id, list(row(name, size, digest) order by name) as files
    from series_file
    group by series_id
),

paths as (
    select
        series_id,
        list(row(path_id, kind, workload, strategy, family, integer_noise) order by path_id) as paths
    from path
    group by series_id
)

select series_id, name, population, declaration, salt, created, coalesce(files, []), paths
from series
join paths using (series_id)
left join files using (series_id)
where dropped is null and ($name is null or name = $name)
order by created, name;
