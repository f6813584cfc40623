"""The way from a person's command line to a decider: over mTLS in production, without it in development.

`LICET_TLS_CERTIFICATE_FILE`, `LICET_TLS_KEY_FILE` and `LICET_TLS_CA_FILE` name the caller's certificate, its
key and whom the decider's comes from: all three, or none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc

FILES: Final = ("LICET_TLS_CA_FILE", "LICET_TLS_KEY_FILE", "LICET_TLS_CERTIFICATE_FILE")


MAX_LIST_BYTES: Final = 16 << 20
"""A thousand holds, each with all its answers; gRPC's own limit of 4 MiB would end a long list of them."""

_OPTIONS: Final = (("grpc.max_receive_message_length", MAX_LIST_BYTES),)


class ChannelError(Exception):
    """There is no way to the decider; `str()` says what to change."""


def open_channel(decider: str, environment: Mapping[str, str]) -> grpc.Channel:
    """Return a channel to a decider. Raises `ChannelError`."""
    named = [environment.get(name, "") for name in FILES]
    if not any(named):
        return grpc.insecure_channel(decider, _OPTIONS)
    missing = [name for name, value in zip(FILES, named, strict=True) if not value]
    if missing:
        raise ChannelError(f"mTLS needs all of {', '.join(FILES)}; missing: {', '.join(missing)}")
    try:
        authority, key, certificate = (Path(value).read_bytes() for value in named)
    except OSError as error:
        raise ChannelError(f"cannot read `{error.filename}`: {error.strerror}") from None
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.secure_channel(decider, credentials, _OPTIONS)
