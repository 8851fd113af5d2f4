-- Record where the store lives, once every mark of the old place is raised.
--
-- in:  $home: absolute path
-- out: the number of rows changed

update store set home = $home;
