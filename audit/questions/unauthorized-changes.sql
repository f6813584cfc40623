-- Ledger changes without authority: bypassed denials, orphans, changes outside what was decided.
-- param since DateTime64(6): from
SELECT time, finding, tenant, tool, resource, amount_minor, currency, decision_id, spend_id, detail
FROM events
WHERE kind = 'finding.raised' AND time >= {since:DateTime64(6)}
  AND toStartOfHour(time) >= toStartOfHour({since:DateTime64(6)}) AND finding IN (
    'DENIED_BUT_BYPASSED', 'NO_RULE_LOOKUP', 'HELD_WITHOUT_APPROVAL', 'ALLOWED_WRONG_PARAMETERS', 'LEDGER_DISAGREES',
    'EXECUTED_WITHOUT_SPEND', 'NOT_JUDGED')
ORDER BY time
LIMIT 10000
