-- Open a new database file beside the state.
--
-- in:  $path
-- out: nothing

attach $path as rewritten (block_size 16384);
