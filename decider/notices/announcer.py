"""Tells everybody who wants to know: the NATS subject of the environment, and every webhook.

`tell` returns at once and raises nothing, whatever is away.
"""

import asyncio
import logging
from collections.abc import Sequence

from decider.notices.notice import Notice
from decider.notices.webhook import Webhook
from licet.log import log
from licet.streams import Connection
from licet.streams.subjects import subject_notice

logger = logging.getLogger(__name__)


class Announcer:
    """Of one environment. Without a connection and webhooks it tells nobody."""

    def __init__(
        self, nc: Connection | None = None, environment: str = "", webhooks: Sequence[Webhook] = ()
    ) -> None:
        self._nc, self._webhooks = nc, tuple(webhooks)
        self._subject = subject_notice(environment) if nc is not None else ""
        self._going: set[asyncio.Task[None]] = set()

    def tell(self, notice: Notice) -> None:
        """Tell a notice to everybody."""
        for webhook in self._webhooks:
            webhook.tell(notice)
        if self._nc is not None:
            task = asyncio.get_running_loop().create_task(self._publish(self._nc, notice))
            self._going.add(task)
            task.add_done_callback(self._going.discard)

    async def _publish(self, nc: Connection, notice: Notice) -> None:
        try:
            await nc.publish(self._subject, notice.body())
        except Exception as error:  # noqa: BLE001 - a courtesy: whatever the client library says, nobody waits
            log(logger, logging.WARNING, "notice.not_published", detail=type(error).__name__)

    async def run(self) -> None:
        """Deliver to webhooks until cancelled."""
        async with asyncio.TaskGroup() as group:
            for webhook in self._webhooks:
                group.create_task(webhook.run())
