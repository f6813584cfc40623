"""Who tells people that something waits for them: on a NATS subject, and by signed webhooks.

A courtesy, and never more: no decision waits for it, nothing is lifted by it, and what it could not say is
still in `licet approvals`. Addresses come from the configuration alone.
"""
