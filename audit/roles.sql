-- Users and roles of a ClickHouse server; the embedded engine has none. Printed by `licet audit roles`; run it as
-- an administrator, again after each upgrade. Each user gets its password or certificate by your own means.

-- The audit writer: adds, and never changes or removes. It reads of events what it goes on from and repairs `call_states`
-- with; of sealed payloads their numbers and not their bytes.
CREATE ROLE IF NOT EXISTS licet_writer ${on_cluster};
GRANT ${on_cluster} INSERT, SELECT ON ${database}.events TO licet_writer;
GRANT ${on_cluster} INSERT ON ${database}.call_states TO licet_writer;
GRANT ${on_cluster} INSERT, SELECT(js_stream, js_seq, batch) ON ${database}.payloads TO licet_writer;
GRANT ${on_cluster} INSERT, SELECT ON ${database}.leases TO licet_writer;
GRANT ${on_cluster} SELECT ON ${database}.migrations TO licet_writer;
GRANT ${on_cluster} SELECT ON system.tables TO licet_writer;

-- Who keeps it running: every question, every tenant, no payloads.
CREATE ROLE IF NOT EXISTS licet_sre ${on_cluster};
GRANT ${on_cluster} SELECT ON ${database}.calls TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.refusals TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.hours TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.stream_offsets TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.quarantine TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.events TO licet_sre;
GRANT ${on_cluster} SELECT ON ${database}.call_states TO licet_sre;

-- One tenant: its events, and what is made of them by the minute and the hour. `calls` joins rows that name no
-- tenant (what doors, the spend log and ledgers said), so it is not among them.
CREATE ROLE IF NOT EXISTS licet_reader ${on_cluster};
REVOKE ${on_cluster} ALL ON ${database}.* FROM licet_reader;
GRANT ${on_cluster} SELECT ON ${database}.events TO licet_reader;
GRANT ${on_cluster} SELECT ON ${database}.refusals TO licet_reader;
GRANT ${on_cluster} SELECT ON ${database}.hours TO licet_reader;

-- Everything, sealed payloads too; they open only for who has a tenant's key. The verifier and the reconciler are auditors.
CREATE ROLE IF NOT EXISTS licet_auditor ${on_cluster};
GRANT ${on_cluster} SELECT ON ${database}.* TO licet_auditor;

CREATE ROLE IF NOT EXISTS licet_migrator ${on_cluster};
GRANT ${on_cluster} CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER, SELECT, INSERT, BACKUP ON ${database}.* TO licet_migrator;

-- A reader sees one tenant: its user name is the tenant's. Who else may read at all sees every row; whoever has
-- none of these roles sees none.
CREATE ROW POLICY OR REPLACE licet_tenant ${on_cluster} ON ${database}.events
    FOR SELECT USING tenant = currentUser() TO licet_reader;
CREATE ROW POLICY OR REPLACE licet_all ${on_cluster} ON ${database}.events
    FOR SELECT USING 1 TO licet_writer, licet_sre, licet_auditor, licet_migrator;
