"""A JSON server for clients that have its token: the common part of the explorer and ``structattn serve``.

The token is sent in a header. On a loopback address the host name is checked (against DNS rebinding); responses are not
shared across origins, and requests are JSON by POST of bounded size, received within a deadline. The number of
connections is bounded, too, and some are kept for the state of the server; ``http/connections.py`` makes room.
"""

import contextlib
import hmac
import io
import json
import logging
import os
import re
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from structattn.errors import ConfigError
from structattn.http.connections import Connections, Limits, TimedReader, has_left
from structattn.http.request_checks import MOST_BYTES

LOGGER = logging.getLogger("structattn.http")
HOST = "127.0.0.1"
_LOOPBACK = (HOST, "localhost")
_DRAINED = 16 * MOST_BYTES
_MOST_DIGITS = 18
_LEAST_TOKEN = 16
TOKEN = "STRUCTATTN_TOKEN"
"""The environment variable that may hold the token."""
_ONCE = ("Host", "Content-Length", "Content-Type", "X-Token", "Origin")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BUSY_MESSAGE = "the server is busy; try again in a moment"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CURRENT = threading.local()
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Reply(NamedTuple):
    """A response: its status, its body, and the body's media type."""

    status: HTTPStatus
    content: bytes
    kind: str = "application/json"


class TokenServer(ThreadingHTTPServer, ABC):
    """A server of some paths, each with its method; subclasses answer in ``get`` and ``post``.

    The token is checked for ``POST``. Port 0 takes a free one.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        methods: Mapping[str, str],
        *,
        host: str = HOST,
        port: int = 0,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        token: str | None = None,
    ) -> None:
        self.connections = Connections(limits or Limits())
        self.connections.limits.check()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"port {port} of {host}: {reason.lower()}; --port 0 takes a free one") from None
        self.host = host
        self.methods = methods
        self.headers = _HEADERS | dict(headers or {})
        self.token = secrets.token_urlsafe(24) if token is None else token
        self.is_draining = False
        self._answering = 0
        self._answered = threading.Condition()

    @abstractmethod
    def get(self, path: str, token: str) -> Reply:
        """The response to ``GET``; the token in the address is unchecked."""

    @abstractmethod
    def post(self, path: str, body: bytes) -> Reply:
        """The response to ``POST`` from a client that has the token; the body is declared as JSON, not too large."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which this server may be called on this machine."""
        return tuple(dict.fromkeys(f"{name}:{self.server_port}" for name in (self.host, *_LOOPBACK)))

    def is_host(self, name: str | None) -> bool:
        """Whether a request names this server; if it listens to other machines, its names are not known here."""
        return name in self.hosts if self.host in _LOOPBACK else bool(name)

    def is_token(self, token: str | None) -> bool:
        """Whether a token is the right one, in a time that does not depend on where it differs."""
        return hmac.compare_digest((token or "").encode("utf-8", "replace"), self.token.encode("ascii"))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, if there is room."""
        if not self.is_draining and self.connections.admit(request, client_address[0]):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle the connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """A context for a response that ``finish`` waits for."""
        with self._answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._answered:
                self._answering -= 1
                self._answered.notify_all()

    def refuse_connections(self) -> None:
        """Listen no longer: from now on a client is refused, and turns to another server."""
        self.is_draining = True
        self.server_close()

    def finish(self, seconds: float = 10.0) -> bool:
        """Wait until every request received has its response; return whether that was in time."""
        self.refuse_connections()
        with self._answered:
            return self._answered.wait_for(lambda: not self._answering, seconds)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not report a client that disconnected while it waited."""
        LOGGER.debug("a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer  # type: ignore[assignment]  # the one that made this handler
    server_version, sys_version = "structattn", ""
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Handle the requests of a connection; those after the first may be waited for longer."""
        limits = self.server.connections.limits
        self.close_connection = False
        self._source.allow(limits.headers)
        while not self.close_connection and not self.server.is_draining:
            self.handle_one_request()
            self._source.allow(limits.idle)

    def handle_one_request(self) -> None:
        """Handle one request of any method; the base class would look for a method of the name ``do_...``."""
        if self.rfile.peek(1):  # type: ignore[attr-defined]  # of a BufferedReader
            self._source.allow(self.server.connections.limits.headers)
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif len(self.raw_requestline) > 65536:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            with self.server.answering():
                self._answer()
                self.wfile.flush()
            self.server.connections.end(self.connection)

    def setup(self) -> None:
        """Send without delay: each response is one piece, so there is nothing to wait for."""
        super().setup()
        self._source = TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._source)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _answer(self) -> None:
        self._source.allow(self.server.connections.limits.body)
        problem = _header_problem(self.headers)
        body = None if problem else self._body()
        may_compute = self.server.connections.begin(self.connection)
        self.connection.settimeout(self.server.connections.limits.response)
        if problem or self.server.is_draining:
            self.close_connection = True
        if problem:
            self._refuse(HTTPStatus.BAD_REQUEST, problem)
            return
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        try:
            address, asker = urlsplit(self.path), urlsplit(origin or "").netloc
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"expected an address and an origin: {error}")
            return
        method = self.server.methods.get(address.path)
        if not self.server.is_host(host):
            self._refuse(HTTPStatus.FORBIDDEN, "this server has another name")
        elif origin is not None and asker not in (*self.server.hosts, host):
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers its own page only")
        elif method is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"there are {', '.join(self.server.methods)}")
        elif self.command != method:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"expected {method}", Allow=method)
        elif method == "GET":
            self._send(self.server.get(address.path, parse_qs(address.query).get("token", [""])[0]))
        elif not may_compute:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY_MESSAGE, **{"Retry-After": "1"})
        else:
            self._reply(address.path, body)

    def _reply(self, path: str, body: bytes | None) -> None:
        if not self.server.is_token(self.headers.get("X-Token")):
            self._refuse(HTTPStatus.FORBIDDEN, "expected the token in the header X-Token")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        elif self.headers.get("Content-Length") is None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        elif body is None:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MOST_BYTES:,} bytes")
        else:
            _CURRENT.connection = self.connection
            reply = self.server.post(path, body)
            self.connection.settimeout(self.server.connections.limits.response)
            self._send(reply)

    def _body(self) -> bytes | None:
        """The body; ``None`` if it is too large. It is read to its end, or the client would miss the response."""
        length = self.headers.get("Content-Length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS
        size = int(length) if is_number else MOST_BYTES + 1
        if size <= MOST_BYTES and "Transfer-Encoding" not in self.headers:
            return self.rfile.read(size)
        self.close_connection = True
        left = min(size, _DRAINED) if is_number else 0
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536))) or left
        return None

    def _refuse(self, status: HTTPStatus, message: str, **headers: str) -> None:
        self._send(refusal(status, message), **headers)

    def _send(self, reply: Reply, **headers: str) -> None:
        self.send_response(reply.status)
        closing = {"Connection": "close"} if self.close_connection else {}
        for name, value in (self.server.headers | closing | headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.content)

    def log_message(self, format: str, *values: Any) -> None:
        LOGGER.debug(format, *values)


def _header_problem(headers: Message) -> str | None:
    """Why the headers of a request could mean one thing here and another to a proxy; ``None`` if they cannot."""
    if headers.defects:
        return "expected headers with a colon each"
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or "\n" in value or "\r" in value:
            return f"expected a header of one line with a name of letters, digits and hyphens, got {name!r}"
    repeated = [name for name in _ONCE if len(headers.get_all(name, [])) > 1]
    return f"expected one {repeated[0]}, got several" if repeated else None


def client_has_left() -> bool:
    """Whether the client whose request this thread answers has closed its connection; then nobody reads the answer."""
    connection = getattr(_CURRENT, "connection", None)
    return connection is not None and has_left(connection)


def read_token(file: str | os.PathLike[str] | None = None) -> str | None:
    """The token in a file, or else in the environment; ``None`` if there is none, so that a random one is made.

    A ``ConfigError`` for one that is short or cannot be sent in a header.
    """
    if file is None:
        source, content = TOKEN, os.environ.get(TOKEN)
    else:
        source = os.fspath(file)
        try:
            content = Path(file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source}: cannot read a token: {getattr(error, 'strerror', None) or error}") from None
    if content is None:
        return None
    token = content.strip()
    if len(token) < _LEAST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise ConfigError(
            f"{source}: expected a token of at least {_LEAST_TOKEN} letters, digits and signs without spaces, "
            f"got {len(token)} characters"
        )
    return token


def refusal(status: HTTPStatus, message: str) -> Reply:
    """A refusal in one line."""
    return Reply(status, f"{message}\n".encode(), "text/plain; charset=utf-8")


def as_json(content: Mapping[str, Any]) -> bytes:
    """An object as the body of a response."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
