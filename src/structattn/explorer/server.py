"""The explorer beside a server of one's own machine: two addresses, the page and its questions, and a token.

Whoever has the token may ask the models; it travels in the address of the page, then in a header. The server listens on
127.0.0.1 only, and a page of another site cannot ask it: the name of the host is checked (DNS rebinding), answers are
not shared across origins, and requests are JSON by POST.
"""

import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from structattn.explorer.checks import RequestError
from structattn.explorer.page import live_page, policy
from structattn.explorer.protocol import MOST_BYTES, VERSION, read_body
from structattn.syntax.errors import ConfigError

LOGGER = logging.getLogger("structattn.explorer")
HOST = "127.0.0.1"
PAGE, ASK = "/", "/ask"

_METHODS = {PAGE: "GET", ASK: "POST"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{policy(chr(39) + 'self' + chr(39))}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_DRAINED = 16 * MOST_BYTES


class ExplorerServer(ThreadingHTTPServer):
    """A server of one page and its requests.

    Args:
        ask: from a request to a reply, as ``Answers.ask``; called for one request at a time.
        boot: what the page is born with, as ``Answers.boot`` returns it.
        port: where it listens; 0 takes a free one.

    Attributes:
        token: what requests must carry.

    Raises:
        ConfigError: if the port is taken, or not ours to take.

    Example:
        >>> with ExplorerServer(lambda request: {}, {"title": "t", "models": [], "items": []}) as server:
        ...     server.url.startswith("http://127.0.0.1:"), len(server.token)
        (True, 32)
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, ask: Callable[[Any], Mapping[str, Any]], boot: Mapping[str, Any], *, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"port {port} of {HOST}: {reason.lower()}") from None
        self.token = secrets.token_urlsafe(24)
        self.page = live_page({**boot, "token": self.token}).encode("utf-8")
        self._ask = ask
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which a browser may call this server."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    def is_token(self, given: str | None) -> bool:
        """Whether a token is the right one, in a time that says nothing about where it differs."""
        return hmac.compare_digest((given or "").encode("utf-8", "replace"), self.token.encode("ascii"))

    def reply(self, body: bytes) -> bytes:
        """The reply to the body of a request, as JSON."""
        try:
            request = read_body(body)
        except RequestError as error:
            record = {"kind": type(error).__name__, "message": str(error), "sentence": None, "word": None}
            return _json({"v": VERSION, "id": None, "error": record})
        with self._lock:
            return _json(self._ask(request))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it waited is no error."""
        LOGGER.debug("a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer  # type: ignore[assignment]  # the one that made this handler
    server_version, sys_version = "structattn", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle_one_request(self) -> None:
        """One request, whatever its method: the base class looks for ``do_`` and its name."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif len(self.raw_requestline) > 65536:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            self._answer()
            self.wfile.flush()

    def _answer(self) -> None:
        address = urlsplit(self.path)
        body = self._body()
        origin, method = self.headers.get("Origin"), _METHODS.get(address.path)
        if self.headers.get("Host") not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "this server has another name")
        elif origin is not None and urlsplit(origin).netloc not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers its own page only")
        elif method is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there are / and /ask")
        elif self.command != method:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"expected {method}", Allow=method)
        elif address.path == PAGE:
            self._page(parse_qs(address.query).get("token", [""])[0])
        else:
            self._reply(body)

    def _page(self, token: str) -> None:
        if self.server.is_token(token):
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        else:
            self._refuse(HTTPStatus.FORBIDDEN, "expected the token: open the address that structattn explore printed")

    def _reply(self, body: bytes | None) -> None:
        if not self.server.is_token(self.headers.get("X-Token")):
            self._refuse(HTTPStatus.FORBIDDEN, "expected the token in the header X-Token")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        elif self.headers.get("Content-Length") is None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        elif body is None:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MOST_BYTES:,} bytes")
        else:
            self._send(HTTPStatus.OK, "application/json", self.server.reply(body))

    def _body(self) -> bytes | None:
        """What was sent; ``None`` if that is too much. It is read to its end, or the reply would not be heard."""
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isascii() and length.isdigit() else MOST_BYTES + 1
        if size <= MOST_BYTES and "Transfer-Encoding" not in self.headers:
            return self.rfile.read(size)
        self.close_connection = True
        left = min(size, _DRAINED) if length.isdigit() else 0
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536))) or left
        return None

    def _refuse(self, status: HTTPStatus, message: str, **headers: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{message}\n".encode(), **headers)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        LOGGER.debug(format, *values)


def _json(reply: Mapping[str, Any]) -> bytes:
    return json.dumps(reply, allow_nan=False, separators=(",", ":")).encode("ascii")
