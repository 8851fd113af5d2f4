-- The order in which a unit's keys are kept: a function of salt and values alone.
-- in:  salt (blob), unit and key (any type)
-- out: macro salted_hash → ubigint; hashed twice, so that the salt does more than flip bits
create or replace temp macro salted_hash(salt, unit, key) as hash(hash(salt, unit, key))
