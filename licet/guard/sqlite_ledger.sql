-- What makes a table the ledger in SQLite. `licet.guard.SqliteLedger.protect` runs it in one transaction and fills in
--   {ledger} {spend} {entry}                 quoted names: the table, its columns for spend id (TEXT) and entry (INTEGER)
--   {ledger_text} {spend_text} {entry_text}  the same names as text
--   {taken}   true for a NEW row that collides with an old one in rowid, primary key or any unique index
--   {before}  the spend id of the rows that were there before, 32 lower hex digits as text

-- Rows from before the guard become the numbered entries of one spend of their own.
INSERT INTO licet_spend (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us)
SELECT {before}, 0, 'EXEC', count(*), x'', '', '', 'before-licet',
  CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM {ledger} HAVING count(*) > 0;

WITH numbered AS MATERIALIZED (SELECT rowid AS row, row_number() OVER (ORDER BY rowid) AS number FROM {ledger})
UPDATE {ledger} SET {spend} = {before}, {entry} = numbered.number FROM numbered WHERE {ledger}.rowid = numbered.row;

-- A second row for one entry.
CREATE UNIQUE INDEX licet_ledger_entry ON {ledger} ({spend}, {entry});

INSERT INTO licet_ledger (one, ledger, spend_column, entry_column) VALUES (1, {ledger_text}, {spend_text}, {entry_text});

CREATE TRIGGER licet_ledger_insert BEFORE INSERT ON {ledger} BEGIN
  SELECT RAISE(ABORT, 'licet: the ledger row is there already') WHERE {taken};
  SELECT RAISE(ABORT, 'licet: a ledger row needs its own entry of an executed spend') WHERE NOT EXISTS (
    SELECT 1 FROM licet_spend AS s
    WHERE s.spend_id = NEW.{spend} AND s.state = 'EXEC' AND NEW.{entry} BETWEEN 1 AND s.entries
      AND NEW.{entry} = CAST(NEW.{entry} AS INTEGER) -- a column of integers keeps 1.5
  );
END;
CREATE TRIGGER licet_ledger_update BEFORE UPDATE ON {ledger} BEGIN
  SELECT RAISE(ABORT, 'licet: the ledger is append-only');
END;
CREATE TRIGGER licet_ledger_delete BEFORE DELETE ON {ledger} BEGIN
  SELECT RAISE(ABORT, 'licet: the ledger is append-only');
END;
