-- A tree written as SQL again.
-- in: $tree, JSON as guarantee_tree makes it
-- out: one row, query
select json_deserialize_sql($tree::json) as query
