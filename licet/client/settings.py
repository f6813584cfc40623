"""Where an agent finds decider and tools, and who it is: from the environment, never from the model."""

from pathlib import Path
from typing import Annotated, Final, Self

import grpc
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from licet.identity import parse_spiffe_id

EXAMPLE: Final = "finance=127.0.0.1:7001"


class ClientSettings(BaseSettings):
    """`LICET_DECIDER`, `LICET_TOOLS`, `LICET_IDENTITY` (development) or the three `LICET_TLS_*_FILE`."""

    model_config = SettingsConfigDict(env_prefix="LICET_", extra="ignore", frozen=True)

    decider: str = Field(description="address of the decider, host:port")
    tools: Annotated[dict[str, str], NoDecode] = Field(description="sidecars: tool=host:port,…")
    identity: str = Field(default="", description="development identity, a SPIFFE id")
    tls_certificate_file: Path | None = Field(default=None, description="certificate chain, PEM")
    tls_key_file: Path | None = Field(default=None, description="its private key, PEM")
    tls_ca_file: Path | None = Field(default=None, description="whom servers' certificates come from, PEM")
    otlp_endpoint: str | None = Field(default=None, description="OTLP/gRPC endpoint for spans")

    @model_validator(mode="before")
    @classmethod
    def _read_tools(cls, values: dict[str, object]) -> dict[str, object]:
        tools = values.get("tools")
        if not isinstance(tools, str):
            return values
        pairs: dict[str, str] = {}
        for part in filter(None, (piece.strip() for piece in tools.split(","))):
            name, equals, address = part.partition("=")
            if not equals or not address or name in pairs:
                raise ValueError(f"LICET_TOOLS: `{part}` must be tool=host:port, such as `{EXAMPLE}`")
            pairs[name] = address
        return {**values, "tools": pairs}

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_ca_file)
        if any(files) and not all(files):
            raise ValueError("mTLS needs all three of LICET_TLS_CERTIFICATE_FILE, _KEY_FILE and _CA_FILE")
        if not any(files) and parse_spiffe_id(self.identity) is None:
            raise ValueError("set LICET_IDENTITY to a SPIFFE id (development), or the LICET_TLS_*_FILE")
        return self

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return mTLS credentials; None for a development identity. Raises OSError."""
        if self.tls_certificate_file is None or self.tls_key_file is None or self.tls_ca_file is None:
            return None
        return grpc.ssl_channel_credentials(
            self.tls_ca_file.read_bytes(),
            self.tls_key_file.read_bytes(),
            self.tls_certificate_file.read_bytes(),
        )
