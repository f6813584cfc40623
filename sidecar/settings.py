"""Settings of a sidecar, from the environment (`LICET_…`); every bad value is reported at once.

Secrets are paths of files, never values. Nothing here has a setting that lets a call through without its
checks.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from licet.identity import TRUST_DOMAIN_DEV, check_server_credentials, subject_token
from licet.log import Level


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not host or not colon or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"`{text}` is no address: use host:port")
    return text


def _name(text: str) -> str:
    return subject_token(text)


Address = Annotated[str, AfterValidator(_address)]
Name = Annotated[str, AfterValidator(_name)]


class SidecarSettings(BaseSettings):
    """Everything a sidecar is told from outside."""

    # An empty variable counts as unset: workers take a port file away from their siblings so.
    model_config = SettingsConfigDict(env_prefix="LICET_", extra="ignore", frozen=True, env_ignore_empty=True)

    environment: Name = Field(description="the environment this door is in; permits of others are refused")
    tool: Name = Field(description="the tool behind the door")
    trust_domain: str = Field(default=TRUST_DOMAIN_DEV, description="SPIFFE trust domain")
    instance: Name = Field(
        default="0", description="tells replicas and workers of one sidecar apart in logs and spools"
    )

    listen: Address = Field(
        default="127.0.0.1:0", description="where callers come in; port 0 chooses a free one"
    )
    port_file: Path | None = Field(default=None, description="where the chosen port is written")
    health_listen: Address = Field(
        default="127.0.0.1:0", description="where /live and /ready answer over HTTP"
    )
    health_port_file: Path | None = Field(default=None, description="where the chosen health port is written")
    workers: int = Field(default=1, ge=1, le=64, description="processes on one port")
    shared_port: bool = Field(
        default=False, description="listen beside other processes; set by the parent of workers"
    )
    dev_identity: bool = Field(
        default=False, description="believe identities that callers on this machine claim; development only"
    )

    reflection: bool = Field(
        default=False, description="show the catalog's services to whoever may connect, by server reflection"
    )

    tls_certificate_file: Path | None = Field(
        default=None, description="certificate chain with one SPIFFE URI SAN, PEM"
    )
    tls_key_file: Path | None = Field(default=None, description="its private key, PEM")
    tls_ca_file: Path | None = Field(
        default=None, description="whom callers' certificates must come from, PEM"
    )

    tool_socket: Path = Field(description="Unix socket of the tool")
    tool_client: Literal["grpcio", "ngh2"] = Field(
        default="grpcio", description="what speaks gRPC to the tool: grpcio, or ngh2, cheaper and young"
    )
    catalog: Path = Field(description="signed catalog of the tool")
    root_key_file: Path = Field(description="public root key: who signs key sets")
    tool_key_file: Path = Field(description="the tool's digest key")
    generation: int = Field(default=1, ge=1, description="generation of the stores that the tool's key is of")
    spend_key_file: Path = Field(description="signs spend records")
    checkpoint_key_file: Path = Field(description="signs checkpoints of the event log")

    decider: Address = Field(description="decider: beacons, artifacts, decide on call")
    nats_url: str = Field(description="NATS servers, comma separated")
    nats_user: str = Field(default="", description="user of the tool's own account")
    nats_password_file: Path | None = Field(default=None, description="its password")
    nats_ca_file: Path | None = Field(
        default=None, description="whom the servers' certificates come from, PEM"
    )
    spool_dir: Path = Field(description="events and outcomes that are not published yet; survives a restart")
    log_level: Level = Field(
        default="info", description="least level of log lines: debug, info, warning, error"
    )
    otlp_endpoint: str | None = Field(
        default=None, description="OTLP/gRPC endpoint for spans; none keeps none"
    )
    metrics_endpoint: str | None = Field(
        default=None, description="OTLP/gRPC endpoint for metrics; none sends none"
    )
    metrics_listen: Address | None = Field(
        default=None, description="where Prometheus may scrape /metrics, without TLS; none serves none"
    )

    quota_per_second: float = Field(default=200.0, gt=0, description="calls a second and caller")
    quota_burst: int = Field(default=400, ge=1, description="calls a caller may make at once")
    tool_timeout_ms: int = Field(default=30_000, ge=1, le=600_000, description="how long the tool may take")
    drain_ms: int = Field(default=25_000, ge=0, description="how long open calls may take to end on SIGTERM")

    @property
    def tls(self) -> bool:
        """Whether callers come over mTLS."""
        return self.tls_certificate_file is not None

    @model_validator(mode="after")
    def _one_way_to_an_identity(self) -> Self:
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_ca_file)
        check_server_credentials(files, development=self.dev_identity, listen=self.listen)
        return self
