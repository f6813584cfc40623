"""Paths that are no UTF-8: one such call must not end a gRPC server.

The serving task of `grpc.aio` (1.85) decodes the path of each call by itself and ends, with its server and
all calls, at one that is no UTF-8: any caller could close any door with one request. There is no setting and
no hook for it. What can be put in the way is the error handler that a strict decoding asks last.

Guaranteed: within that one task, bytes that are no UTF-8 become U+FFFD, so such a path reaches the handlers
and is no path of any catalog, for those are ASCII. Everywhere else in the process `strict` stays what it is:
the error is raised.
"""

import asyncio
import codecs
from typing import Final

SERVING: Final = "AioServer._server_main_loop"
"""The qualified name of the coroutine that takes calls in grpc.aio."""

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def keep_serving() -> None:
    """Let no path end a `grpc.aio` server of this process; may be called again."""
    codecs.register_error("strict", _strict_but_there)


def _strict_but_there(error: UnicodeError) -> tuple[str, int]:
    if isinstance(error, UnicodeDecodeError) and _is_serving():
        return REPLACEMENT, error.end
    raise error


def _is_serving() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return False
    return task is not None and getattr(task.get_coro(), "__qualname__", "") == SERVING
