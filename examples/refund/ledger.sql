-- The finance tool's own tables. Amounts are integers in minor units.

CREATE TABLE IF NOT EXISTS orders (
  order_id       TEXT    PRIMARY KEY NOT NULL,
  tenant         TEXT    NOT NULL,
  status         TEXT    NOT NULL CHECK (status IN ('paid', 'refunded')),
  version        INTEGER NOT NULL,
  refund_allowed INTEGER NOT NULL CHECK (refund_allowed IN (0, 1)),
  amount_minor   INTEGER NOT NULL,
  currency       TEXT    NOT NULL,
  refunded_minor INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Double entry: the amounts of one step add up to zero.
CREATE TABLE IF NOT EXISTS ledger (
  change_id    TEXT    PRIMARY KEY NOT NULL,
  spend_id     TEXT,             -- the step; empty where nobody gates
  entry        INTEGER,          -- 1: what left the merchant, 2: what reached the customer
  order_id     TEXT    NOT NULL,
  account      TEXT    NOT NULL, -- merchant:<tenant> or customer:<order>
  amount_minor INTEGER NOT NULL,
  currency     TEXT    NOT NULL
) STRICT;
