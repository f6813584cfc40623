"""What the doctor is told: the variables of the process in whose place it looks. All are optional."""

from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from licet.identity import TRUST_DOMAIN_DEV, decider_id, sidecar_id
from licet.streams import NatsSettings

KEY_FILES: Final = ("master_key_file", "tool_key_file", "spend_key_file", "checkpoint_key_file")


class DoctorSettings(BaseSettings):
    """The variables that the checks look at; names and meanings are those of the processes."""

    model_config = SettingsConfigDict(env_prefix="LICET_", extra="ignore", frozen=True, env_ignore_empty=True)

    environment: str = Field(default="dev", description="the environment")
    trust_domain: str = Field(default=TRUST_DOMAIN_DEV, description="SPIFFE trust domain")
    dev_identity: bool = Field(default=False, description="development identities on loopback")
    tool: str = Field(default="", description="the tool behind the door")
    generation: int = Field(default=0, ge=0, description="generation that the door's key is of; 0: no door")

    keys_dir: Path | None = Field(default=None, description="directory of key files")
    root_key_file: Path | None = Field(default=None, description="public root key")
    master_key_file: Path | None = Field(default=None, description="digest master key")
    tool_key_file: Path | None = Field(default=None, description="the tool's digest key")
    spend_key_file: Path | None = Field(default=None, description="signs spend records")
    checkpoint_key_file: Path | None = Field(default=None, description="signs checkpoints")

    tls_certificate_file: Path | None = Field(default=None, description="certificate chain, PEM")
    tls_key_file: Path | None = Field(default=None, description="its private key, PEM")
    tls_ca_file: Path | None = Field(default=None, description="the authority, PEM")

    tool_socket: Path | None = Field(default=None, description="Unix socket of the tool")
    listen: str = Field(default="", description="the door's own address")
    health_listen: str = Field(default="", description="the door's own health address")
    metrics_listen: str = Field(default="", description="the door's own metrics address")
    spool_dir: Path | None = Field(default=None, description="directory of spools")

    decider: str = Field(default="", description="decider, host:port")
    nats_url: str = Field(default="", description="NATS servers")
    nats_user: str = Field(default="", description="user")
    nats_password_file: Path | None = Field(default=None, description="its password")
    nats_ca_file: Path | None = Field(default=None, description="the servers' authority")
    clickhouse_url: str = Field(default="", description="ClickHouse")
    clickhouse_user: str = Field(default="licet", description="user")
    clickhouse_password_file: Path | None = Field(default=None, description="its password")
    clickhouse_database: str = Field(default="default", description="database of the tables")

    @property
    def identity(self) -> str:
        """The development identity to show; empty under mTLS."""
        if not self.dev_identity:
            return ""
        if self.tool:
            return sidecar_id(self.trust_domain, self.environment, self.tool)
        return decider_id(self.trust_domain, self.environment)

    @property
    def nats(self) -> NatsSettings:
        """Where NATS is and who we are there."""
        return NatsSettings(self.nats_url, self.nats_user, self.nats_password_file, self.nats_ca_file)

    @property
    def key_files(self) -> tuple[Path, ...]:
        """Every key file that is named, or lies in the directory of keys."""
        named = [getattr(self, name) for name in KEY_FILES]
        lying = sorted(self.keys_dir.glob("*.key")) if self.keys_dir is not None else []
        return tuple(dict.fromkeys(path for path in (*named, *lying) if path is not None))

    @property
    def own_ports(self) -> frozenset[int]:
        """Ports that the door itself listens on."""
        addresses = (self.listen, self.health_listen, self.metrics_listen)
        ports = (address.rpartition(":")[2] for address in addresses)
        return frozenset(int(port) for port in ports if port.isdigit())
