"""No TLS handshake below 1.3. A module of its own: grpcio reads this once, when it is imported.

Guaranteed: with `require_tls_13` called before the first `import grpc`, no TLS 1.2 handshake of this process
succeeds; a test holds a real one against it. A peer that came in below 1.3 all the same has no identity
(`licet.peer`).
"""

import os
from typing import Final

CIPHERS_VARIABLE: Final = "GRPC_SSL_CIPHER_SUITES"
"""Where grpcio takes its TLS 1.2 cipher list from; TLS 1.3 has its own, which cannot be weakened."""

ONLY_TLS_13: Final = "ECDHE-PSK-CHACHA20-POLY1305"
"""A cipher that needs a pre-shared key, of which there is none: no TLS 1.2 handshake finds a common one.

grpcio has no setting for the lowest version.
"""


def require_tls_13() -> None:
    """Make every TLS handshake of this process 1.3."""
    os.environ[CIPHERS_VARIABLE] = ONLY_TLS_13
