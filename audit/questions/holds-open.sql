-- Holds that wait for people, at a moment: nothing ended them or lifts them, and their step's newest decision is to
-- wait for just them. A hold lasts for 24 hours at most; one that was asked for 25 hours before waits for nobody.
-- param at DateTime64(6) = 2100-01-01 00:00:00: the moment, now where it is to come
WITH least({at:DateTime64(6)}, now64(6)) AS moment
SELECT hold_id, minIf(time, kind != 'approval.voted') AS held_at, dateDiff('second', held_at, moment) AS age_s,
    max(agent) AS agent, max(operation) AS operation, max(resource) AS resource,
    anyIf(rule_ids, kind != 'approval.voted') AS rules,
    arraySort(groupUniqArrayIf(concat(approvals[1], ': ', detail), kind = 'approval.voted')) AS answers
FROM events
WHERE hold_id != '' AND kind IN ('decision.held', 'approval.requested', 'approval.voted', 'approval.expired',
    'decision.allowed', 'decision.denied', 'decision.modified')
  AND time BETWEEN moment - INTERVAL 50 HOUR AND {at:DateTime64(6)}
  AND toStartOfHour(time) BETWEEN toStartOfHour(moment - INTERVAL 50 HOUR) AND toStartOfHour({at:DateTime64(6)})
  AND hold_id IN (
    SELECT argMax(hold_id, (time, seq)) FROM events
    WHERE kind IN ('approval.requested', 'decision.allowed', 'decision.denied', 'decision.held', 'decision.modified')
      AND time BETWEEN moment - INTERVAL 25 HOUR AND {at:DateTime64(6)}
      AND toStartOfHour(time) BETWEEN toStartOfHour(moment - INTERVAL 25 HOUR) AND toStartOfHour({at:DateTime64(6)})
      AND spend_id IN (
        SELECT spend_id FROM events
        WHERE kind IN ('approval.requested', 'decision.held')
          AND time BETWEEN moment - INTERVAL 25 HOUR AND {at:DateTime64(6)}
          AND toStartOfHour(time) BETWEEN toStartOfHour(moment - INTERVAL 25 HOUR)
            AND toStartOfHour({at:DateTime64(6)}))
    GROUP BY spend_id)
GROUP BY hold_id
HAVING held_at >= moment - INTERVAL 25 HOUR
  AND countIf(kind IN ('approval.expired', 'decision.allowed', 'decision.denied', 'decision.modified')
    OR kind = 'approval.voted' AND (
        splitByChar(' ', detail)[1] IN ('reject', 'edit') OR endsWith(detail, ', which lifts it'))) = 0
ORDER BY held_at
LIMIT 1000
