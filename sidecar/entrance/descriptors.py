"""How many files and connections this process may have open: what a flood of half-made connections may cost.

Guaranteed: with `bound_descriptors` called at the start, open connections are at most `MAX_DESCRIPTORS`,
whatever the machine allows; a half-made one takes about 45 KiB and ends by `grpc_door.HANDSHAKE_MS`.
Not guaranteed: that a new caller comes in at once while a flood holds them all; it waits in the kernel's
queue until some end. Connections that stand are not touched.
"""

import resource
from typing import Final

MAX_DESCRIPTORS: Final = 4_096
"""About 200 MB of half-made connections."""


def bound_descriptors(limit: int = MAX_DESCRIPTORS) -> None:
    """Take `limit` descriptors for this process, or as many as the machine lets it have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
