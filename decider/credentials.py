"""As whom a decider speaks: to NATS, to callers, to sidecars; from the files that its settings name."""

import grpc

from decider.decision.reader import ToolReader
from decider.settings import DeciderSettings
from licet.identity import audience_of
from licet.streams import NatsSettings


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


def channel_credentials(settings: DeciderSettings) -> grpc.ChannelCredentials:
    """Return credentials for calls to sidecars. Raises OSError."""
    key, chain, authority = _pem(settings)
    return grpc.ssl_channel_credentials(authority, key, chain)


def open_reader(settings: DeciderSettings, own_id: str) -> ToolReader:
    """Return what reads facts through sidecars, as `own_id`. Raises OSError."""
    addresses = {
        audience_of(settings.trust_domain, settings.environment, tool): address
        for tool, address in settings.tools.items()
    }
    credentials = channel_credentials(settings) if settings.tls else None
    return ToolReader(addresses, own_id="" if settings.tls else own_id, credentials=credentials)
