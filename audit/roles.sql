-- Users and roles of a ClickHouse server; the embedded engine has none. Printed by `licet audit roles`; run it as
-- an administrator. Each user gets its password or certificate by your own means.
CREATE ROLE IF NOT EXISTS licet_writer;
GRANT INSERT, SELECT ON ${database}.events TO licet_writer;
GRANT INSERT ON ${database}.call_states TO licet_writer;
GRANT INSERT, SELECT ON ${database}.leases TO licet_writer;
GRANT SELECT ON ${database}.migrations TO licet_writer;
GRANT SELECT ON system.tables TO licet_writer;

CREATE ROLE IF NOT EXISTS licet_reader;
GRANT SELECT ON ${database}.* TO licet_reader;

CREATE ROLE IF NOT EXISTS licet_auditor;
GRANT licet_reader TO licet_auditor;

CREATE ROLE IF NOT EXISTS licet_migrator;
GRANT CREATE TABLE, CREATE VIEW, ALTER, SELECT, INSERT ON ${database}.* TO licet_migrator;

-- A reader sees one tenant: its user name is the tenant's. An auditor and the writer see all.
CREATE ROW POLICY IF NOT EXISTS licet_tenant ON ${database}.events
    FOR SELECT USING tenant = currentUser() TO licet_reader EXCEPT licet_auditor;
CREATE ROW POLICY IF NOT EXISTS licet_all ON ${database}.events
    FOR SELECT USING 1 TO licet_writer, licet_auditor;

-- Spans name no tenant: where a collector keeps them beside the audit store, readers of one tenant see none.
CREATE ROW POLICY IF NOT EXISTS licet_no_traces ON ${database}.otel_traces
    FOR SELECT USING 0 TO licet_reader EXCEPT licet_auditor;
CREATE ROW POLICY IF NOT EXISTS licet_all_traces ON ${database}.otel_traces
    FOR SELECT USING 1 TO licet_auditor;
