"""mTLS for the server: as grpcio's, but TLS 1.3 alone."""

import ssl
from pathlib import Path


def mutual_tls(chain: Path | None, key: Path | None, authority: Path | None) -> ssl.SSLContext:
    """Return TLS 1.3 that demands of every caller a certificate which comes from `authority`.

    Raises:
        OSError: a file cannot be read, or is no PEM of its kind.
        ValueError: a file is not named.
    """
    if chain is None or key is None or authority is None:
        raise ValueError("TLS takes a certificate chain, its key and an authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(str(authority))
    context.load_cert_chain(str(chain), str(key))
    context.set_alpn_protocols(["h2"])
    return context
