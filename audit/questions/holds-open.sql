-- Holds that nothing has ended, their age in seconds, and who has answered. Enough approvals end one at its next try.
SELECT hold_id, minIf(time, kind != 'approval.voted') AS held_at, dateDiff('second', held_at, now()) AS age_s,
    max(agent) AS agent, max(operation) AS operation, max(resource) AS resource,
    anyIf(rule_ids, kind != 'approval.voted') AS rules,
    arraySort(groupUniqArrayIf(concat(approvals[1], ': ', detail), kind = 'approval.voted')) AS answers
FROM events
WHERE hold_id != '' AND kind IN ('decision.held', 'approval.requested', 'approval.voted')
  AND hold_id NOT IN (
    SELECT hold_id FROM events
    WHERE hold_id != '' AND (kind IN ('approval.expired', 'decision.allowed', 'decision.denied', 'decision.modified')
        OR kind = 'approval.voted' AND splitByChar(' ', detail)[1] IN ('reject', 'edit')))
GROUP BY hold_id
ORDER BY held_at
LIMIT 1000
