"""Names to addresses, within a time: the system's resolver has none that a caller could set.

Guaranteed: nobody waits longer than asked for, and a name that is being looked up is looked up once, whoever
waits for it, so a name server that never answers takes one thread for each name of the configuration. Not
guaranteed: that such a thread ends before the system gives up; the process ends all the same.
"""

import socket
import threading
from concurrent.futures import Future
from typing import Any, Final

Place = tuple[int, tuple[str, int]]
"""An address family, and address and port."""


class Resolver:
    """Looks names up for the threads of a process."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._running: dict[tuple[str, int], Future[list[Place]]] = {}

    def places(self, host: str, port: int, timeout_s: float) -> list[Place]:
        """Return where a name leads. Raises OSError, where it is late TimeoutError."""
        key = (host, port)
        with self._lock:
            found = self._running.get(key)
            if found is None:
                found = self._running[key] = Future()
                threading.Thread(target=self._look, args=(key, found), daemon=True).start()
        return found.result(timeout_s)

    def _look(self, key: tuple[str, int], found: Future[list[Place]]) -> None:
        try:
            listed = socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
            places: list[Place] | BaseException = [_place(entry) for entry in listed]
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            places = error
        with self._lock:
            del self._running[key]
        if isinstance(places, BaseException):
            found.set_exception(places)
        else:
            found.set_result(places)


def _place(entry: Any) -> Place:
    family, _, _, _, (address, port, *_) = entry
    return family, (str(address), int(port))
