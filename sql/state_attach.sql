-- Open the state file of a store.
--
-- in:  $path
-- out: nothing

attach $path as state (block_size 16384);
