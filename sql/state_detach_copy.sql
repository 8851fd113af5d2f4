-- Close the new file, complete in itself.
--
-- in:  nothing
-- out: nothing

detach rewritten;
