"""Tells a webhook of findings that page.

Best effort: the finding itself is an event, and waits for none of this.
"""

import asyncio
import json
import logging
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from licet.log import log

LOG: Final = logging.getLogger(__name__)
TIMEOUT_S: Final = 5.0
TRIES: Final = 3
FIELDS: Final = (
    "finding", "environment", "tenant", "tool", "resource", "decision_id", "spend_id", "task_id",
    "amount_minor", "currency",
)  # fmt: skip
"""What leaves the house: ids and amounts, no free text."""


class Webhook:
    """Posts findings as JSON to one address. Raises ValueError for an address that is not http or https."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError(f"`{url}` is no webhook: use http:// or https://")
        self._url = url
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, fields: Mapping[str, Any]) -> None:
        """Post the finding soon; returns at once."""
        body = json.dumps({name: fields[name] for name in FIELDS if name in fields}).encode()
        task = asyncio.create_task(self._post(body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait for what is on its way."""
        await asyncio.gather(*self._tasks)

    async def _post(self, body: bytes) -> None:
        for number in range(TRIES):
            try:
                await asyncio.to_thread(self._once, body)
                return
            except OSError as error:
                log(LOG, logging.WARNING, "webhook.failed", attempt=number + 1, error=str(error)[:200])
                await asyncio.sleep(number + 1)

    def _once(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310 - scheme checked
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            answer.read()
