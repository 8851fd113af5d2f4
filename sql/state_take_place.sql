-- Take a copy in the place of the original: the next generation, in another directory.
--
-- in:  $seen: the generation of the copy, $inode: of its directory
-- out: the number of rows changed, 1 or 0

update store set generation = generation + 1, inode = $inode where generation = $seen;
