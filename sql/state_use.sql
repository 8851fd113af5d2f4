-- Let names in the statements that follow mean the tables of the state.
--
-- in:  nothing
-- out: nothing

use state;
