-- What was released on a noise path and which files hold its rounds, in no order.
--
-- in:  $path_id
-- out: generation, name, level (exact text), threshold, request, metadata, released,
--      spends, file, size, digest, n_past, n_new, n_empty

select
    generation, name, level, threshold, request, metadata, released,
    spends, file, size, digest, n_past, n_new, n_empty
from release
where path_id = $path_id;
