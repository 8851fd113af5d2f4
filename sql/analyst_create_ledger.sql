-- Make the public ledger a table.
-- in: ledger_arriving, a registered frame
-- out: table ledger: store, series, release, level, noise, threshold, generation, round, sha256
create table ledger as select * from ledger_arriving
