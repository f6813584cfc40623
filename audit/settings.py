"""Settings of the audit processes: one class, `LICET_` variables, every bad value reported at once.

Secrets are file paths, never values. Command-line options of the same name win over the environment.
"""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from audit.judging.fence import CertificateFiles
from audit.store.client import StoreAddress
from audit.store.migrate import MAX_RETENTION_DAYS, PAYLOAD_DAYS, RETENTION_DAYS, Layout
from licet.identity import TRUST_DOMAIN_DEV, check_credentials, subject_token
from licet.log import Level

MAX_BATCH_ROWS: Final = 100_000
MAX_PORT: Final = 65_535


def _address(text: str | None) -> str | None:
    host, _, port = (text or "").rpartition(":")
    if text is not None and not (host and port.isdigit() and int(port) <= MAX_PORT):
        raise ValueError(f"`{text}` is no address: use host:port")
    return text


class StoreSettings(BaseSettings):
    """Where ClickHouse is; enough for questions, evidence and migrations."""

    model_config = SettingsConfigDict(env_prefix="LICET_", extra="ignore", frozen=True)

    clickhouse_url: str = Field(description="http://host:port of ClickHouse or of the embedded front")
    clickhouse_user: str = Field(default="licet", description="user name")
    clickhouse_password_file: Path | None = Field(default=None, description="file with the password")
    clickhouse_database: str = Field(default="default", description="database that holds the tables")
    clickhouse_cluster: str = Field(default="", description="cluster name; empty for one server")
    retention_days: int = Field(
        default=RETENTION_DAYS, ge=1, le=MAX_RETENTION_DAYS, description="days that rows are kept"
    )
    payload_days: int = Field(
        default=PAYLOAD_DAYS, ge=1, le=MAX_RETENTION_DAYS, description="days that sealed payloads are kept"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.store()
        self.layout()
        return self

    def store(self) -> StoreAddress:
        """Return the address as the store's own value."""
        return StoreAddress(
            self.clickhouse_url, self.clickhouse_user, self.clickhouse_password_file, self.clickhouse_database
        )

    def layout(self) -> Layout:
        """Return where the tables go."""
        return Layout(self.clickhouse_cluster, self.retention_days, self.payload_days)


class AuditSettings(StoreSettings):
    """What the writer and the reconciler need besides: NATS, keys, and the tools' sidecars."""

    environment: str = Field(description="the one environment")
    trust_domain: str = Field(default=TRUST_DOMAIN_DEV, description="SPIFFE trust domain")
    nats_url: str = Field(description="nats://host:port")
    nats_user: str = Field(default="", description="user of the hub account")
    nats_password_file: Path | None = Field(default=None, description="file with its password")
    nats_ca_file: Path | None = Field(
        default=None, description="whom the servers' certificates come from; none: no TLS to NATS"
    )
    tls_certificate_file: Path | None = Field(
        default=None, description="the reconciler's certificate chain with one SPIFFE URI SAN, PEM"
    )
    tls_key_file: Path | None = Field(default=None, description="its private key, PEM")
    tls_ca_file: Path | None = Field(default=None, description="whom doors' certificates must come from, PEM")
    keys_dir: Path | None = Field(default=None, description="directory of keyset.signed and root.pub")
    root_key_file: Path | None = Field(
        default=None, description="root public key; default: root.pub of keys_dir"
    )
    checkpoint_key_file: Path | None = Field(default=None, description="signs this process's checkpoints")
    spool_dir: Path | None = Field(default=None, description="directory of this process's journal")
    tools: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict, description="sidecar addresses: finance=127.0.0.1:50051,…"
    )
    ledger_readers_file: Path | None = Field(default=None, description="TOML file of ledger readers, by tool")
    labels_file: Path | None = Field(default=None, description="TOML file of rules that should have decided")
    alert_webhook: str = Field(default="", description="http(s) address that is told of findings that page")
    dev_identity: bool = Field(default=False, description="development identities on loopback")
    log_level: Level = Field(
        default="info", description="least level of log lines: debug, info, warning, error"
    )
    otlp_endpoint: str | None = Field(default=None, description="OTLP/gRPC endpoint for spans")
    metrics_endpoint: str | None = Field(
        default=None, description="OTLP/gRPC endpoint for metrics; none sends none"
    )
    metrics_listen: Annotated[str | None, AfterValidator(_address)] = Field(
        default=None, description="where Prometheus may scrape /metrics, without TLS; none serves none"
    )
    batch_rows: int = Field(default=20_000, ge=1, le=MAX_BATCH_ROWS, description="most rows an insert")
    poll_ms: int = Field(default=500, ge=10, description="how often the reconciler looks, in ms")

    @field_validator("environment")
    @classmethod
    def _environment_is_a_token(cls, value: str) -> str:
        return subject_token(value)

    @model_validator(mode="after")
    def _one_way_to_an_identity(self) -> Self:
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_ca_file)
        check_credentials(files, development=self.dev_identity)
        return self

    @property
    def certificate(self) -> CertificateFiles | None:
        """What doors know the reconciler by; None where it shows a development identity, or none at all."""
        chain, key, authority = self.tls_certificate_file, self.tls_key_file, self.tls_ca_file
        if chain is None or key is None or authority is None:
            return None
        return CertificateFiles(chain, key, authority)

    @field_validator("tools", mode="before")
    @classmethod
    def _split_tools(cls, value: object) -> object:
        return split_pairs(value) if isinstance(value, str) else value


def split_pairs(text: str) -> dict[str, str]:
    """Read `name=value,name=value`; raises ValueError that names the bad part."""
    pairs = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or not value:
            raise ValueError(f"`{part}` is no pair: write name=host:port")
        pairs[subject_token(name)] = value
    return pairs
