"""mTLS at the door: callers' certificates demanded, files read again when they change.

Guaranteed: no handshake without a certificate of the given authority succeeds, and
a new certificate is used from the next handshake on, without a restart. A file that cannot be read leaves
the one before in use, loudly. Not guaranteed: that a connection which stands ends when its certificate is
replaced or revoked; that is why authority is bound to the peer's id and asked for anew at every call.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from licet.log import log

LOG: Final = logging.getLogger(__name__)


@dataclass
class CertificateFiles:
    """Certificate chain, key and authority, as they are now.

    Args:
        certificate: PEM chain.
        key: PEM private key.
        authority: PEM of whom the other side's certificate must come from.
    """

    certificate: Path
    key: Path
    authority: Path
    _stamp: tuple[tuple[int, int, int], ...] = field(default=(), init=False)

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Return certificate, key and authority; raises OSError."""
        self._stamp = self._stamps()
        return self.certificate.read_bytes(), self.key.read_bytes(), self.authority.read_bytes()

    def changed(self) -> bool:
        """Whether a file is another than at the last `read`; False when one cannot be looked at."""
        try:
            return self._stamps() != self._stamp
        except OSError:
            return False

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        found = [path.stat() for path in (self.certificate, self.key, self.authority)]
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)


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
