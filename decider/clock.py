"""The clocks of a running decider."""

import secrets
from typing import Final

from decider.decision.parts import Clock
from licet.clock import elapsed_ms, wall_ms
from licet.event import uuid7

SYSTEM_CLOCK: Final = Clock(wall_ms, elapsed_ms, lambda now_ms: uuid7(now_ms, secrets.token_bytes(10)))
