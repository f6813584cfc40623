-- Holds that wait for people: nothing ended them or lifts them, and their step's newest decision is to wait for just them.
SELECT hold_id, minIf(time, kind != 'approval.voted') AS held_at, dateDiff('second', held_at, now()) AS age_s,
    max(agent) AS agent, max(operation) AS operation, max(resource) AS resource,
    anyIf(rule_ids, kind != 'approval.voted') AS rules,
    arraySort(groupUniqArrayIf(concat(approvals[1], ': ', detail), kind = 'approval.voted')) AS answers
FROM events
WHERE hold_id != '' AND kind IN ('decision.held', 'approval.requested', 'approval.voted')
  AND hold_id NOT IN (
    SELECT hold_id FROM events
    WHERE hold_id != '' AND (kind IN ('approval.expired', 'decision.allowed', 'decision.denied', 'decision.modified')
        OR kind = 'approval.voted' AND (
            splitByChar(' ', detail)[1] IN ('reject', 'edit') OR endsWith(detail, ', which lifts it'))))
  AND hold_id IN (
    SELECT argMax(hold_id, (time, seq)) FROM events
    WHERE kind IN ('approval.requested', 'decision.allowed', 'decision.denied', 'decision.held', 'decision.modified')
      AND spend_id IN (SELECT spend_id FROM events WHERE kind IN ('approval.requested', 'decision.held'))
    GROUP BY spend_id)
GROUP BY hold_id
ORDER BY held_at
LIMIT 1000
