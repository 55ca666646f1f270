"""The connections of a server: how many there may be, and which is closed to make room for another."""

import contextlib
import io
import socket
import threading
import time
from collections import Counter
from typing import NamedTuple

from structattn.errors import ConfigError


class Limits(NamedTuple):
    """How many connections a server holds, and for how many seconds it waits for what clients send."""

    #: Connections that may be answered at the same time.
    connections: int = 256
    #: Connections of one address.
    per_address: int = 128
    #: Further connections, which are answered without a model: the state of the server, or that it is busy.
    spare: int = 16
    #: From the connection, or the first byte of a later request, to the end of the headers.
    headers: float = 10.0
    #: For the body.
    body: float = 30.0
    #: Between two requests of a connection.
    idle: float = 60.0
    #: For a client that reads its response.
    response: float = 30.0

    def check(self) -> None:
        """Raise a ``ConfigError`` for a limit that leaves nothing."""
        for name, value in self._asdict().items():
            if not 0 < value <= threading.TIMEOUT_MAX and not (name == "spare" and value == 0):
                raise ConfigError(f"{name}: expected a positive limit, got {value}")


class Connections:
    """The open connections, in the order of their arrival, each with its address.

    If there is no room, the connection that has waited longest for its client makes room, first one of the same
    address: a client that sends slowly, or nothing, keeps no other out. One that is being answered is never closed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, str] = {}
        self._answered: dict[socket.socket, str] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answered)

    def admit(self, connection: socket.socket, address: str) -> bool:
        """Whether there is, or was made, room for a connection."""
        with self._lock:
            limits = self.limits
            if Counter([*self._waiting.values(), *self._answered.values()])[address] >= limits.per_address:
                of_address = next((other for other, its in self._waiting.items() if its == address), None)
                if of_address is None:
                    return False
                self._close(of_address)
            if len(self) >= limits.connections + limits.spare:
                if not self._waiting:
                    return False
                self._close(next(iter(self._waiting)))
            self._waiting[connection] = address
            return True

    def begin(self, connection: socket.socket) -> bool:
        """The request of a connection is complete: whether a model may answer it, or only a spare place is left."""
        with self._lock:
            if (address := self._waiting.pop(connection, None)) is None:
                raise ConnectionAbortedError("closed to make room for another")
            self._answered[connection] = address
            return len(self._answered) <= self.limits.connections

    def end(self, connection: socket.socket) -> None:
        """The request is answered; the connection waits for another."""
        with self._lock:
            if (address := self._answered.pop(connection, None)) is not None:
                self._waiting[connection] = address

    def leave(self, connection: socket.socket) -> None:
        """The connection is closed."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._answered.pop(connection, None)

    def _close(self, connection: socket.socket) -> None:
        del self._waiting[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class TimedReader(io.RawIOBase):
    """What a client sends until a deadline, however slowly; then ``TimeoutError``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = 0.0

    def allow(self, seconds: float) -> None:
        """Set the deadline."""
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what has arrived."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("too slow")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def has_left(connection: socket.socket) -> bool:
    """Whether the client has closed its end."""
    try:
        connection.setblocking(False)
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
