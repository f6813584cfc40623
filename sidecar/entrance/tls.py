"""mTLS at the door: callers' certificates demanded, files read again when they change.

Guaranteed: no handshake without a certificate of the given authority succeeds, and
a new certificate is used from the next handshake on, without a restart. A file that cannot be read leaves
the one before in use, loudly. Not guaranteed: that a connection which stands ends when its certificate is
replaced or revoked; that is why authority is bound to the peer's id and asked for anew at every call.
"""

import logging
from typing import Any, Final

import grpc

from licet.log import log
from licet.tls_relay import CertificateFiles

__all__ = ["CertificateFiles", "server_credentials"]

LOG: Final = logging.getLogger(__name__)


def server_credentials(files: CertificateFiles) -> Any:
    """Return credentials that demand a certificate and follow the files; raises OSError."""

    def fetch() -> Any:
        if not files.changed():
            return None
        try:
            fetched = _configuration(files)
        except OSError as error:
            log(LOG, logging.ERROR, "tls.reload_failed", error=str(error))
            return None
        log(LOG, logging.INFO, "tls.reloaded", certificate=str(files.certificate))
        return fetched

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files), fetch, require_client_authentication=True
    )


def _configuration(files: CertificateFiles) -> Any:
    certificate, key, authority = files.read()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)
