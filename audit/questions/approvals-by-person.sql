-- Approvals and rejections by person.
-- param since DateTime64(6): from
SELECT arrayJoin(approvals) AS person, splitByChar(' ', detail)[1] AS answer, count() AS votes,
    uniqExact(hold_id) AS holds, max(time) AS last_time
FROM events
WHERE kind = 'approval.voted' AND time >= {since:DateTime64(6)}
  AND toStartOfHour(time) >= toStartOfHour({since:DateTime64(6)})
GROUP BY person, answer
ORDER BY votes DESC
LIMIT 1000
