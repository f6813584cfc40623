"""As whom a decider speaks: to NATS, to callers, to sidecars; from the files that its settings name."""

import grpc

from decider.decision.reader import Door, ToolReader
from decider.settings import DeciderSettings
from licet.identity import audience_of, sidecar_id
from licet.streams import NatsSettings
from licet.tls_relay import CertificateFiles, TlsRelay


def nats_settings(settings: DeciderSettings) -> NatsSettings:
    """Return where NATS is and who we are there."""
    return NatsSettings(
        settings.nats_url, settings.nats_user, settings.nats_password_file, settings.nats_ca_file
    )


def _pem(settings: DeciderSettings) -> tuple[bytes, bytes, bytes]:
    files = (settings.tls_key_file, settings.tls_certificate_file, settings.tls_ca_file)
    try:
        key, chain, authority = (path.read_bytes() if path else b"" for path in files)
    except OSError as error:
        raise OSError(f"cannot read `{error.filename}`: {error.strerror}") from error
    return key, chain, authority


def server_credentials(settings: DeciderSettings) -> grpc.ServerCredentials:
    """Return credentials that demand a certificate of every caller. Raises OSError."""
    key, chain, authority = _pem(settings)
    return grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)


def _relay(settings: DeciderSettings, tool: str) -> TlsRelay | None:
    """Return mTLS to a tool's door and to nobody else; None without certificates. Raises OSError."""
    chain, key, authority = settings.tls_certificate_file, settings.tls_key_file, settings.tls_ca_file
    if chain is None or key is None or authority is None:
        return None
    door = sidecar_id(settings.trust_domain, settings.environment, tool)
    files = CertificateFiles(chain, key, authority)
    return TlsRelay(settings.tools[tool], files, door, called=f"the door of `{tool}`")


def open_reader(settings: DeciderSettings, own_id: str) -> ToolReader:
    """Return what reads facts through sidecars, as `own_id`. Raises OSError."""
    doors = {
        audience_of(settings.trust_domain, settings.environment, tool): Door(address, _relay(settings, tool))
        for tool, address in settings.tools.items()
    }
    return ToolReader(doors, own_id="" if settings.tls else own_id)
