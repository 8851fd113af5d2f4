-- What was released on a noise path, and the file of each round, in order.
--
-- in:  $path_id
-- out: release_id, name, level (exact text), threshold, request, metadata, generation, released,
--      file, size, digest, n_past, n_new, n_empty, n_levels, spends

select
    release.release_id,
    release.name,
    level.level,
    release.threshold,
    release.request,
    release.metadata,
    release.generation,
    release.released,
    noise_round.name as file,
    noise_round.size,
    noise_round.digest,
    noise_round.n_past,
    noise_round.n_new,
    noise_round.n_empty,
    noise_round.n_levels,
    noise_round.spends
from release
join level on level.path_id = release.path_id and level.ordinal = release.ordinal
join noise_round on noise_round.path_id = release.path_id and noise_round.generation = release.generation
where release.path_id = $path_id
order by release.generation;
