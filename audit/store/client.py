"""The one client path to ClickHouse: clickhouse-connect over HTTP, embedded front and cluster alike."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

SECURE_PORT: Final = 8443
PLAIN_PORT: Final = 8123
CONNECT_S: Final = 30
"""Seconds for TCP and TLS, where the client would take 10: a machine short of CPU is slow, not away."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where ClickHouse is and who asks. The password stays in its file until a client is made."""

    url: str
    user: str = "licet"
    password_file: Path | None = None
    database: str = "default"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"`{self.url}` is no ClickHouse address: use http://host:port")
        if parts.username or parts.password:
            raise ValueError("the ClickHouse address must not hold a password: name a password file")

    def client(self, **settings: Any) -> Any:
        """Connect and return a clickhouse-connect client; `settings` are ClickHouse's, for all it does.

        Raises clickhouse_connect.driver.exceptions.Error when the server is away or refuses.
        """
        import clickhouse_connect

        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        return clickhouse_connect.get_client(
            host=parts.hostname,
            port=parts.port or (SECURE_PORT if secure else PLAIN_PORT),
            secure=secure,
            username=self.user,
            password=self.password_file.read_text().strip() if self.password_file else "",
            database=self.database,
            autogenerate_session_id=False,  # one client, many threads; nothing here needs a session
            query_limit=0,
            connect_timeout=CONNECT_S,
            dedicated_pool=True,  # closed with the client
            settings=settings,
        )
