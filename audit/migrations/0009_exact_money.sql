-- Sums of money in 128 bits: two amounts near the end of 64 bits would wrap around to a small sum, or below zero.
-- Takes the place of `money_by_agent`.
ALTER TABLE events ${on_cluster} ADD PROJECTION IF NOT EXISTS exact_money_by_agent
(
    SELECT toStartOfHour(time), environment, tenant, agent, kind, finding, bundle_version, currency, count(),
        sum(toInt128(amount_minor))
    GROUP BY toStartOfHour(time), environment, tenant, agent, kind, finding, bundle_version, currency
);

ALTER TABLE events ${on_cluster} DROP PROJECTION IF EXISTS money_by_agent;

ALTER TABLE events ${on_cluster} MATERIALIZE PROJECTION IF EXISTS exact_money_by_agent;
