-- The guard's tables in SQLite (3.37 or later), for tools in any language. Applying this file again changes nothing.
--
-- A tool's own transaction (BEGIN IMMEDIATE) inserts one row into licet_spend before it changes anything, its ledger
-- rows, one row per ledger row into licet_outbox, its reply into licet_result, and commits. Every row here is written
-- once. The triggers hold on a connection as SQLite opens it: they rely on no foreign key and on no pragma.
--
-- Each BEFORE INSERT trigger refuses a row that is there already: INSERT OR REPLACE removes the old row without firing
-- DELETE triggers, so uniqueness alone would let a VOID be replaced by an EXEC.

CREATE TABLE IF NOT EXISTS licet_spend (
  spend_id      TEXT    NOT NULL CHECK (length(spend_id) = 32 AND spend_id NOT GLOB '*[^0-9a-f]*'),
  round         INTEGER NOT NULL CHECK (round BETWEEN 0 AND 4294967295),
  state         TEXT    NOT NULL CHECK (state IN ('EXEC', 'VOID')),
  entries       INTEGER NOT NULL CHECK (entries >= 0), -- ledger rows that belong to it, numbered from 1
  call_digest   BLOB    NOT NULL, -- of the request that was executed: 32 bytes; empty for VOID and without a permit
  attempt       TEXT    NOT NULL, -- the try that executed it; empty for VOID
  decision_id   TEXT    NOT NULL, -- of the permit; empty without one
  issuer        TEXT    NOT NULL CHECK (length(issuer) BETWEEN 1 AND 64), -- 'permit', or who writes without one
  decided_at_us INTEGER NOT NULL, -- Unix µs by the database's clock
  PRIMARY KEY (spend_id, round),
  CHECK (entries <= 1000 OR issuer = 'before-licet'),
  CHECK (state = 'EXEC' OR (entries = 0 AND call_digest = x'' AND issuer = 'permit')),
  CHECK (state = 'VOID' OR issuer <> 'permit' OR length(call_digest) = 32)
) STRICT, WITHOUT ROWID;

-- One effect per step, over all rounds.
CREATE UNIQUE INDEX IF NOT EXISTS licet_spend_exec ON licet_spend (spend_id) WHERE state = 'EXEC';

CREATE TRIGGER IF NOT EXISTS licet_spend_insert BEFORE INSERT ON licet_spend
WHEN EXISTS (
  SELECT 1 FROM licet_spend AS old
  WHERE old.spend_id = NEW.spend_id AND (old.round = NEW.round OR (old.state = 'EXEC' AND NEW.state = 'EXEC'))
) BEGIN
  SELECT RAISE(ABORT, 'licet: the spend row is there already');
END;
CREATE TRIGGER IF NOT EXISTS licet_spend_update BEFORE UPDATE ON licet_spend BEGIN
  SELECT RAISE(ABORT, 'licet: a spend row is written once');
END;
CREATE TRIGGER IF NOT EXISTS licet_spend_delete BEFORE DELETE ON licet_spend BEGIN
  SELECT RAISE(ABORT, 'licet: a spend row is written once');
END;

-- The reply of an executed step, for a repeat of the same call.
CREATE TABLE IF NOT EXISTS licet_result (
  spend_id TEXT PRIMARY KEY NOT NULL,
  result   BLOB NOT NULL -- the serialised reply
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS licet_result_insert BEFORE INSERT ON licet_result
WHEN EXISTS (SELECT 1 FROM licet_result AS old WHERE old.spend_id = NEW.spend_id)
  OR NOT EXISTS (SELECT 1 FROM licet_spend AS s WHERE s.spend_id = NEW.spend_id AND s.state = 'EXEC')
BEGIN
  SELECT RAISE(ABORT, 'licet: a result needs an executed spend and is written once');
END;
CREATE TRIGGER IF NOT EXISTS licet_result_update BEFORE UPDATE ON licet_result BEGIN
  SELECT RAISE(ABORT, 'licet: a result needs an executed spend and is written once');
END;
CREATE TRIGGER IF NOT EXISTS licet_result_delete BEFORE DELETE ON licet_result BEGIN
  SELECT RAISE(ABORT, 'licet: a result needs an executed spend and is written once');
END;

-- How far the outbox is written, and how far it was stored elsewhere. One row.
CREATE TABLE IF NOT EXISTS licet_outbox_head (
  one   INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
  last  INTEGER NOT NULL CHECK (last >= 0),
  acked INTEGER NOT NULL CHECK (acked BETWEEN 0 AND last)
) STRICT;
INSERT INTO licet_outbox_head (one, last, acked) SELECT 1, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM licet_outbox_head);

-- What the ledger rows say, numbered without a gap in commit order.
CREATE TABLE IF NOT EXISTS licet_outbox (
  outbox_seq      INTEGER PRIMARY KEY NOT NULL,
  spend_id        TEXT    NOT NULL,
  entry           INTEGER NOT NULL, -- from 1 to the spend row's entries
  change_id       TEXT    NOT NULL, -- the tool's own id of the ledger row
  resource        TEXT    NOT NULL, -- such as order:O1
  tenant          TEXT    NOT NULL,
  account         TEXT    NOT NULL, -- account or column that changed, as the tool names it
  amount_minor    INTEGER NOT NULL, -- signed, minor units
  currency        TEXT    NOT NULL, -- ISO 4217
  committed_at_us INTEGER NOT NULL, -- Unix µs by the database's clock, just before the commit
  trace_id        TEXT    NOT NULL, -- W3C, 32 lower hex digits; empty without a trace
  span_id         TEXT    NOT NULL, -- 16 lower hex digits; empty without a trace
  UNIQUE (spend_id, entry)
) STRICT;

CREATE TRIGGER IF NOT EXISTS licet_outbox_insert BEFORE INSERT ON licet_outbox BEGIN
  SELECT RAISE(ABORT, 'licet: outbox numbers have no gap')
  WHERE NEW.outbox_seq IS NOT (SELECT last + 1 FROM licet_outbox_head);
  SELECT RAISE(ABORT, 'licet: an outbox row needs its own entry of an executed spend')
  WHERE EXISTS (SELECT 1 FROM licet_outbox AS old WHERE old.spend_id = NEW.spend_id AND old.entry = NEW.entry)
    OR NOT EXISTS (
      SELECT 1 FROM licet_spend AS s
      WHERE s.spend_id = NEW.spend_id AND s.state = 'EXEC' AND NEW.entry BETWEEN 1 AND s.entries
    );
END;
CREATE TRIGGER IF NOT EXISTS licet_outbox_inserted AFTER INSERT ON licet_outbox BEGIN
  UPDATE licet_outbox_head SET last = NEW.outbox_seq;
END;
CREATE TRIGGER IF NOT EXISTS licet_outbox_update BEFORE UPDATE ON licet_outbox BEGIN
  SELECT RAISE(ABORT, 'licet: the outbox is append-only');
END;
CREATE TRIGGER IF NOT EXISTS licet_outbox_delete BEFORE DELETE ON licet_outbox BEGIN
  SELECT RAISE(ABORT, 'licet: the outbox is append-only');
END;

CREATE TRIGGER IF NOT EXISTS licet_outbox_head_insert BEFORE INSERT ON licet_outbox_head
WHEN EXISTS (SELECT 1 FROM licet_outbox_head) BEGIN
  SELECT RAISE(ABORT, 'licet: the outbox has one head');
END;
CREATE TRIGGER IF NOT EXISTS licet_outbox_head_update BEFORE UPDATE ON licet_outbox_head
WHEN NEW.one <> OLD.one OR NEW.acked < OLD.acked
  OR NEW.last <> max(OLD.last, coalesce((SELECT max(outbox_seq) FROM licet_outbox), 0)) BEGIN
  SELECT RAISE(ABORT, 'licet: the outbox never goes back');
END;
CREATE TRIGGER IF NOT EXISTS licet_outbox_head_delete BEFORE DELETE ON licet_outbox_head BEGIN
  SELECT RAISE(ABORT, 'licet: the outbox has one head');
END;

-- Which table is the ledger; one per database.
CREATE TABLE IF NOT EXISTS licet_ledger (
  one          INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
  ledger       TEXT NOT NULL,
  spend_column TEXT NOT NULL,
  entry_column TEXT NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS licet_ledger_once_insert BEFORE INSERT ON licet_ledger
WHEN EXISTS (SELECT 1 FROM licet_ledger) BEGIN
  SELECT RAISE(ABORT, 'licet: there is a ledger already');
END;
CREATE TRIGGER IF NOT EXISTS licet_ledger_once_update BEFORE UPDATE ON licet_ledger BEGIN
  SELECT RAISE(ABORT, 'licet: there is a ledger already');
END;
CREATE TRIGGER IF NOT EXISTS licet_ledger_once_delete BEFORE DELETE ON licet_ledger BEGIN
  SELECT RAISE(ABORT, 'licet: there is a ledger already');
END;
