"""Settings of a decider, from the environment (`LICET_…`); every bad value is reported at once.

Secrets are paths of files, never values. Nothing here lets a call through that the rules do not allow.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from licet.identity import TRUST_DOMAIN_DEV, check_server_credentials, subject_token
from licet.intake import HALF_SENT_MS
from licet.log import Level


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not host or not colon or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"`{text}` is no address: use host:port")
    return text


def _tools(value: object) -> object:
    """Read `finance=127.0.0.1:7001,crm=127.0.0.1:7002`."""
    if not isinstance(value, str):
        return value
    pairs: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        name, equals, address = part.partition("=")
        if not equals or name in pairs:
            raise ValueError(f"`{part}` must be tool=host:port, each tool once")
        pairs[subject_token(name)] = _address(address)
    return pairs


def _served(value: object) -> object:
    """Read `finance=served/finance.binpb,github=served/github.json`."""
    if not isinstance(value, str):
        return value
    pairs: dict[str, Path] = {}
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        name, equals, file = part.partition("=")
        if not equals or not file or name in pairs:
            raise ValueError(f"`{part}` must be tool=file, each tool once")
        pairs[subject_token(name)] = Path(file)
    return pairs


def _tenants(value: object) -> object:
    """Read the tenants of applications, `app/desk=t1+t2,app/ops=*`."""
    if not isinstance(value, str):
        return value
    pairs: dict[str, frozenset[str]] = {}
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        name, equals, tenants = part.partition("=")
        listed = frozenset(filter(None, (tenant.strip() for tenant in tenants.split("+"))))
        if not equals or not name or not listed or name in pairs:
            raise ValueError(f"`{part}` must be application=tenant+tenant, each application once")
        pairs[name] = listed
    return pairs


def _paths(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(Path(part.strip()) for part in value.split(",") if part.strip())


Address = Annotated[str, AfterValidator(_address)]
Name = Annotated[str, AfterValidator(subject_token)]


class DeciderSettings(BaseSettings):
    """Everything a decider is told from outside."""

    model_config = SettingsConfigDict(env_prefix="LICET_", extra="ignore", frozen=True)

    environment: Name = Field(description="the one environment it decides for")
    trust_domain: str = Field(default=TRUST_DOMAIN_DEV, description="SPIFFE trust domain")
    instance: Name = Field(default="0", description="tells several deciders apart in spools and subjects")

    listen: Address = Field(default="127.0.0.1:0", description="where callers come in; port 0: a free one")
    server: Literal["grpcio", "ngh2"] = Field(
        default="grpcio",
        description="what speaks gRPC to callers: grpcio, or ngh2, cheaper and young",
    )
    port_file: Path | None = Field(default=None, description="where the chosen port is written")
    dev_identity: bool = Field(
        default=False, description="believe identities that callers on this machine claim; development only"
    )
    tls_certificate_file: Path | None = Field(
        default=None, description="certificate chain with one SPIFFE URI SAN, PEM"
    )
    tls_key_file: Path | None = Field(default=None, description="its private key, PEM")
    tls_ca_file: Path | None = Field(default=None, description="whom certificates must come from, PEM")

    keys_dir: Path = Field(
        description="decider.key, beacon.key, checkpoint-decider.key, and task.key to register tasks"
    )
    root_key_file: Path = Field(description="public root key: who signs key sets")
    master_key_file: Path = Field(description="the environment's digest master key")
    catalogs: Annotated[tuple[Path, ...], NoDecode] = Field(description="signed catalogs, comma separated")
    tasks_file: Path = Field(description="the tasks, tasks.yaml")
    tasks_begin_anew: bool = Field(
        default=False,
        description="tasks without `started` begin anew with each start of this decider; development only",
    )
    issuers_file: Path | None = Field(
        default=None, description="issuers of user tokens, issuers.yaml; none: a call with a token is denied"
    )
    registrars: Annotated[dict[str, frozenset[str]], NoDecode] = Field(
        default_factory=dict,
        description="who may register tasks, and for which tenants: app/desk=t1+t2,…; `*` is every",
    )
    desks: Annotated[dict[str, frozenset[str]] | None, NoDecode] = Field(
        default=None,
        description="who sees and answers holds, and of which tenants: app/desk=t1+t2,…; `*` is every;"
        " none set: every known peer, of all",
    )
    webhooks_file: Path | None = Field(
        default=None, description="who is told of holds by signed webhooks, webhooks.yaml; none: nobody"
    )
    relations_file: Path | None = Field(
        default=None, description="what people are to resources, relations.yaml; none: rules that ask fail"
    )
    tools: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict, description="sidecars that facts are read through: tool=host:port,…"
    )
    served: Annotated[dict[str, Path], NoDecode] = Field(
        default_factory=dict,
        description="what tools serve: tool=file,… of descriptors, or *.json of MCP tools; drift is held",
    )

    nats_url: str = Field(description="NATS servers, comma separated")
    nats_user: str = Field(default="", description="user in the hub account")
    nats_password_file: Path | None = Field(default=None, description="its password")
    nats_ca_file: Path | None = Field(default=None, description="whom the servers' certificates come from")
    spool_dir: Path = Field(description="events that are not published yet; survives a restart")
    log_level: Level = Field(
        default="info", description="least level of log lines: debug, info, warning, error"
    )
    otlp_endpoint: str | None = Field(default=None, description="OTLP/gRPC endpoint for spans")
    metrics_endpoint: str | None = Field(
        default=None, description="OTLP/gRPC endpoint for metrics; none sends none"
    )
    metrics_listen: Address | None = Field(
        default=None, description="where Prometheus may scrape /metrics, without TLS; none serves none"
    )
    escalate_to: str = Field(
        default="", description="whom callers can ask while no bundle that says so is in force"
    )
    quota_per_second: float = Field(default=500.0, gt=0, description="decisions a second and caller")
    quota_burst: int = Field(default=1_000, ge=1, description="decisions a caller may ask for at once")
    half_sent_ms: int = Field(
        default=HALF_SENT_MS,
        ge=100,
        description="from a call's headers to its whole message, where its deadline is not sooner",
    )
    drain_ms: int = Field(default=10_000, ge=0, description="how long open calls may take on SIGTERM")

    def who_registers(self) -> dict[str, frozenset[str]]:
        """Return the tenants by SPIFFE id of the applications that may register tasks."""
        return self._by_id(self.registrars)

    def whose_desks(self) -> dict[str, frozenset[str]] | None:
        """Return the tenants by SPIFFE id of the peers that holds are shown to; None: of all to all."""
        return None if self.desks is None else self._by_id(self.desks)

    def _by_id(self, named: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        base = f"spiffe://{self.trust_domain}/{self.environment}/"
        return {name if "://" in name else base + name: found for name, found in named.items()}

    @property
    def tls(self) -> bool:
        """Whether callers come over mTLS."""
        return self.tls_certificate_file is not None

    @model_validator(mode="before")
    @classmethod
    def _read_lists(cls, values: dict[str, object]) -> dict[str, object]:
        read = dict(values)
        if "tools" in read:
            read["tools"] = _tools(read["tools"])
        if "registrars" in read:
            read["registrars"] = _tenants(read["registrars"])
        if "desks" in read:
            read["desks"] = _tenants(read["desks"])
        if "served" in read:
            read["served"] = _served(read["served"])
        if "catalogs" in read:
            read["catalogs"] = _paths(read["catalogs"])
        return read

    @model_validator(mode="after")
    def _one_way_to_an_identity(self) -> Self:
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_ca_file)
        check_server_credentials(files, development=self.dev_identity, listen=self.listen)
        if self.tasks_begin_anew and not self.dev_identity:
            raise ValueError("LICET_TASKS_BEGIN_ANEW is for development: it needs LICET_DEV_IDENTITY")
        return self
