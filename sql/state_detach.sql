-- Close the state file: its log is written back into it.
--
-- in:  nothing
-- out: nothing

detach state;
