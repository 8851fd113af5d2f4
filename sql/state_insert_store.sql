-- The one row that says which store this is.
--
-- in:  $format_version, $store_id, $inode, $home, $created
-- out: nothing

insert into store values ($format_version, $store_id, 0, $inode, $home, $created);
