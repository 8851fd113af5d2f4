-- Vouch for the file of a round.
--
-- in:  $path_id, $generation, $name, $size, $digest, $n_past, $n_new, $n_empty, $n_levels, $spends
-- out: nothing

insert into noise_round values (
    $path_id, $generation, $name, $size, $digest, $n_past, $n_new, $n_empty, $n_levels, $spends
);
