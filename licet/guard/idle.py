"""Connections that are kept open between transactions: as many as there were transactions at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A connection of either driver."""

    def close(self) -> None:
        """Close it."""
        ...


ConnectionT = TypeVar("ConnectionT", bound=Closable)


class Idle(Generic[ConnectionT]):
    """Hands each borrower a connection of its own. Safe to use from several threads at once."""

    def __init__(self, connect: Callable[[], ConnectionT], usable: Callable[[ConnectionT], bool]) -> None:
        self._connect, self._usable = connect, usable
        self._idle: list[ConnectionT] = []

    @contextmanager
    def borrow(self) -> Iterator[ConnectionT]:
        """Lend a connection; one that is not usable afterwards is closed, the others are kept."""
        connection = self._take()
        try:
            yield connection
        finally:
            if self._usable(connection):
                self._idle.append(connection)
            else:
                connection.close()

    def _take(self) -> ConnectionT:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if self._usable(connection):
                return connection
            connection.close()
        return self._connect()

    def close(self) -> None:
        """Close what is idle; a connection that is lent comes back and stays."""
        while self._idle:
            self._idle.pop().close()
