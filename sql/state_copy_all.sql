-- Write what is still in the tables into the new file; nothing deleted is copied.
--
-- in:  nothing
-- out: nothing

copy from database state to rewritten;
