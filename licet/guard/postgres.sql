-- The guard's tables in PostgreSQL (14 or later), for tools in any language. Applying this file again changes nothing.
-- They go into the current schema; each function is bound to it, so that a temporary table of the same name, which
-- PostgreSQL would look up first, cannot stand in for them. PostgreSQL prefers a function or operator of the very types
-- of a call to its own of any type, wherever it stands: what is called here is named with its schema (to_jsonb) or has
-- one of these very types in pg_catalog, which is searched first (so 1000000::numeric), and nobody can plant another.
--
-- A tool's own transaction (READ COMMITTED) inserts one row into licet_spend before it changes anything, its ledger
-- rows, its reply into licet_result, last one row per ledger row into licet_outbox (which is where transactions queue
-- up, so that numbers follow commits), and commits. Every row here is written once. The triggers are ENABLE ALWAYS:
-- they fire under session_replication_role = replica too. The owner of the tables can drop them; let the tool's role
-- own nothing.

CREATE TABLE IF NOT EXISTS licet_spend (
  spend_id      text   NOT NULL CHECK (spend_id ~ '^[0-9a-f]{32}$'),
  round         bigint NOT NULL CHECK (round BETWEEN 0 AND 4294967295),
  state         text   NOT NULL CHECK (state IN ('EXEC', 'VOID')),
  entries       bigint NOT NULL CHECK (entries >= 0), -- ledger rows that belong to it, numbered from 1
  call_digest   bytea  NOT NULL, -- of the request that was executed: 32 bytes; empty for VOID and without a permit
  attempt       text   NOT NULL, -- the try that executed it; empty for VOID
  decision_id   text   NOT NULL, -- of the permit; empty without one
  issuer        text   NOT NULL CHECK (length(issuer) BETWEEN 1 AND 64), -- 'permit', or who writes without one
  decided_at_us bigint NOT NULL, -- Unix µs by the database's clock
  PRIMARY KEY (spend_id, round),
  CHECK (entries <= 1000 OR issuer = 'before-licet'),
  CHECK (state = 'EXEC' OR (entries = 0 AND call_digest = ''::bytea AND issuer = 'permit')),
  CHECK (state = 'VOID' OR issuer <> 'permit' OR length(call_digest) = 32)
);

-- One effect per step, over all rounds.
CREATE UNIQUE INDEX IF NOT EXISTS licet_spend_exec ON licet_spend (spend_id) WHERE state = 'EXEC';

-- The reply of an executed step, for a repeat of the same call.
CREATE TABLE IF NOT EXISTS licet_result (
  spend_id text  PRIMARY KEY,
  result   bytea NOT NULL -- the serialised reply
);

-- How far the outbox is written, and how far it was stored elsewhere. One row.
CREATE TABLE IF NOT EXISTS licet_outbox_head (
  one   integer PRIMARY KEY CHECK (one = 1),
  last  bigint NOT NULL CHECK (last >= 0),
  acked bigint NOT NULL CHECK (acked BETWEEN 0 AND last)
);
INSERT INTO licet_outbox_head (one, last, acked) VALUES (1, 0, 0) ON CONFLICT DO NOTHING;

-- What the ledger rows say; the trigger below gives number (without a gap, in commit order) and time.
CREATE TABLE IF NOT EXISTS licet_outbox (
  outbox_seq      bigint PRIMARY KEY,
  spend_id        text   NOT NULL,
  entry           bigint NOT NULL, -- from 1 to the spend row's entries
  change_id       text   NOT NULL, -- the tool's own id of the ledger row
  resource        text   NOT NULL, -- such as order:O1
  tenant          text   NOT NULL,
  account         text   NOT NULL, -- account or column that changed, as the tool names it
  amount_minor    bigint NOT NULL, -- signed, minor units
  currency        text   NOT NULL, -- ISO 4217
  committed_at_us bigint NOT NULL, -- Unix µs by the database's clock, just before the commit
  trace_id        text   NOT NULL, -- W3C, 32 lower hex digits; empty without a trace
  span_id         text   NOT NULL, -- 16 lower hex digits; empty without a trace
  UNIQUE (spend_id, entry)
);

-- Which table is the ledger; one per schema.
CREATE TABLE IF NOT EXISTS licet_ledger (
  one          integer PRIMARY KEY CHECK (one = 1),
  ledger       text NOT NULL,
  spend_column text NOT NULL,
  entry_column text NOT NULL
);

CREATE OR REPLACE FUNCTION licet_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'licet: %', TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE FUNCTION licet_result_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM licet_spend s WHERE s.spend_id = NEW.spend_id AND s.state = 'EXEC') THEN
    RAISE EXCEPTION 'licet: a result needs an executed spend and is written once' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION licet_outbox_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.outbox_seq IS NOT NULL THEN
    RAISE EXCEPTION 'licet: outbox numbers have no gap' USING ERRCODE = 'restrict_violation';
  END IF;
  -- holds the one head row until the commit: numbers and times follow commits
  UPDATE licet_outbox_head SET last = last + 1 RETURNING last INTO NEW.outbox_seq;
  NEW.committed_at_us := (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint;
  RETURN NEW;
END $$;

-- For the outbox, and for the ledger with the names of its two columns.
CREATE OR REPLACE FUNCTION licet_entry_insert() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  row_spend text := pg_catalog.to_jsonb(NEW) ->> TG_ARGV[0];
  row_entry bigint := (pg_catalog.to_jsonb(NEW) ->> TG_ARGV[1])::bigint;
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM licet_spend s
    WHERE s.spend_id = row_spend AND s.state = 'EXEC' AND row_entry BETWEEN 1 AND s.entries
  ) THEN
    RAISE EXCEPTION 'licet: % needs its own entry of an executed spend', TG_ARGV[2] USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION licet_outbox_head_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.one <> OLD.one OR NEW.acked < OLD.acked
    OR NEW.last NOT IN (OLD.last, (SELECT coalesce(max(outbox_seq), 0) + 1 FROM licet_outbox)) THEN
    RAISE EXCEPTION 'licet: the outbox never goes back' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'licet_refuse', 'licet_result_insert', 'licet_outbox_number', 'licet_entry_insert', 'licet_outbox_head_update'
  ] LOOP
    EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', name, current_schema());
  END LOOP;
END $$;

CREATE OR REPLACE TRIGGER licet_spend_once BEFORE UPDATE OR DELETE ON licet_spend
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('a spend row is written once');
CREATE OR REPLACE TRIGGER licet_spend_truncate BEFORE TRUNCATE ON licet_spend
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('a spend row is written once');
ALTER TABLE licet_spend ENABLE ALWAYS TRIGGER licet_spend_once;
ALTER TABLE licet_spend ENABLE ALWAYS TRIGGER licet_spend_truncate;

CREATE OR REPLACE TRIGGER licet_result_insert AFTER INSERT ON licet_result
  FOR EACH ROW EXECUTE FUNCTION licet_result_insert();
CREATE OR REPLACE TRIGGER licet_result_once BEFORE UPDATE OR DELETE ON licet_result
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('a result needs an executed spend and is written once');
CREATE OR REPLACE TRIGGER licet_result_truncate BEFORE TRUNCATE ON licet_result
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('a result needs an executed spend and is written once');
ALTER TABLE licet_result ENABLE ALWAYS TRIGGER licet_result_insert;
ALTER TABLE licet_result ENABLE ALWAYS TRIGGER licet_result_once;
ALTER TABLE licet_result ENABLE ALWAYS TRIGGER licet_result_truncate;

CREATE OR REPLACE TRIGGER licet_outbox_number BEFORE INSERT ON licet_outbox
  FOR EACH ROW EXECUTE FUNCTION licet_outbox_number();
CREATE OR REPLACE TRIGGER licet_outbox_insert AFTER INSERT ON licet_outbox
  FOR EACH ROW EXECUTE FUNCTION licet_entry_insert('spend_id', 'entry', 'an outbox row');
CREATE OR REPLACE TRIGGER licet_outbox_once BEFORE UPDATE OR DELETE ON licet_outbox
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('the outbox is append-only');
CREATE OR REPLACE TRIGGER licet_outbox_truncate BEFORE TRUNCATE ON licet_outbox
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('the outbox is append-only');
ALTER TABLE licet_outbox ENABLE ALWAYS TRIGGER licet_outbox_number;
ALTER TABLE licet_outbox ENABLE ALWAYS TRIGGER licet_outbox_insert;
ALTER TABLE licet_outbox ENABLE ALWAYS TRIGGER licet_outbox_once;
ALTER TABLE licet_outbox ENABLE ALWAYS TRIGGER licet_outbox_truncate;

CREATE OR REPLACE TRIGGER licet_outbox_head_update BEFORE UPDATE ON licet_outbox_head
  FOR EACH ROW EXECUTE FUNCTION licet_outbox_head_update();
CREATE OR REPLACE TRIGGER licet_outbox_head_delete BEFORE DELETE ON licet_outbox_head
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('the outbox has one head');
CREATE OR REPLACE TRIGGER licet_outbox_head_truncate BEFORE TRUNCATE ON licet_outbox_head
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('the outbox has one head');
ALTER TABLE licet_outbox_head ENABLE ALWAYS TRIGGER licet_outbox_head_update;
ALTER TABLE licet_outbox_head ENABLE ALWAYS TRIGGER licet_outbox_head_delete;
ALTER TABLE licet_outbox_head ENABLE ALWAYS TRIGGER licet_outbox_head_truncate;

CREATE OR REPLACE TRIGGER licet_ledger_once BEFORE UPDATE OR DELETE ON licet_ledger
  FOR EACH ROW EXECUTE FUNCTION licet_refuse('there is a ledger already');
CREATE OR REPLACE TRIGGER licet_ledger_truncate BEFORE TRUNCATE ON licet_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION licet_refuse('there is a ledger already');
ALTER TABLE licet_ledger ENABLE ALWAYS TRIGGER licet_ledger_once;
ALTER TABLE licet_ledger ENABLE ALWAYS TRIGGER licet_ledger_truncate;
