-- Money by agent, finding and bundle, for budget-burn and money-by-bundle; takes the place of `money`.
ALTER TABLE events ${on_cluster} ADD PROJECTION IF NOT EXISTS money_by_agent
(
    SELECT toStartOfHour(time), environment, tenant, agent, kind, finding, bundle_version, currency, count(),
        sum(amount_minor)
    GROUP BY toStartOfHour(time), environment, tenant, agent, kind, finding, bundle_version, currency
);

ALTER TABLE events ${on_cluster} DROP PROJECTION IF EXISTS money;

ALTER TABLE events ${on_cluster} MATERIALIZE PROJECTION IF EXISTS money_by_agent;
