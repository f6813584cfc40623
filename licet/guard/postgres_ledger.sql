-- What makes a table the ledger in PostgreSQL. `licet.guard.PostgresLedger.protect` runs it in one transaction and
-- fills in
--   {ledger} {spend} {entry}                 quoted names: the table, its columns for spend id (text) and entry (integer)
--   {ledger_text} {spend_text} {entry_text}  the same names as text
--   {before}  the spend id of the rows that were there before, 32 lower hex digits as text

LOCK TABLE {ledger} IN ACCESS EXCLUSIVE MODE;

-- Rows from before the guard become the numbered entries of one spend of their own.
INSERT INTO licet_spend (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us)
SELECT {before}, 0, 'EXEC', count(*), ''::bytea, '', '', 'before-licet',
  (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint
FROM {ledger} HAVING count(*) > 0;

WITH numbered AS MATERIALIZED (SELECT ctid AS row, row_number() OVER (ORDER BY ctid) AS number FROM {ledger})
UPDATE {ledger} SET {spend} = {before}, {entry} = numbered.number FROM numbered WHERE {ledger}.ctid = numbered.row;

-- A second row for one entry.
CREATE UNIQUE INDEX licet_ledger_entry ON {ledger} ({spend}, {entry});

INSERT INTO licet_ledger (one, ledger, spend_column, entry_column) VALUES (1, {ledger_text}, {spend_text}, {entry_text});

CREATE TRIGGER licet_ledger_insert AFTER INSERT ON {ledger}
  FOR EACH ROW EXECUTE FUNCTION licet_entry_insert({spend_text}, {entry_text}, 'a ledger row');
CREATE TRIGGER licet_ledger_once BEFORE UPDATE OR DELETE ON {ledger}
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('the ledger is append-only');
CREATE TRIGGER licet_ledger_truncate BEFORE TRUNCATE ON {ledger}
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('the ledger is append-only');
ALTER TABLE {ledger} ENABLE ALWAYS TRIGGER licet_ledger_insert;
ALTER TABLE {ledger} ENABLE ALWAYS TRIGGER licet_ledger_once;
ALTER TABLE {ledger} ENABLE ALWAYS TRIGGER licet_ledger_truncate;
