"""The explorer with a server on the user's own machine: the page, which holds no data, its data, and its requests.

Whoever has the token may ask the models. It is in the printed address after the #, which no browser sends; the page
keeps it in the browser, removes it from the address bar, and sends it in a header. The server listens on 127.0.0.1
only; ``http/token_server.py`` checks who asks.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from structattn.explorer.explorer_page import live_page, write_policy
from structattn.explorer.protocol import VERSION
from structattn.http.request_checks import RequestError, read_body
from structattn.http.token_server import HOST, Reply, TokenServer, as_json, client_has_left

LOGGER = logging.getLogger("structattn.explorer")
PAGE, BOOT, ASK = "/", "/boot", "/ask"


class ExplorerServer(TokenServer):
    """A server of one page and its requests, which ``ask`` answers one at a time, as ``Answers.ask`` does."""

    def __init__(
        self,
        ask: Callable[[Any], Mapping[str, Any]],
        boot: Mapping[str, Any],
        *,
        port: int = 0,
        token: str | None = None,
    ) -> None:
        guarded = f"{write_policy(chr(39) + 'self' + chr(39))}; frame-ancestors 'none'"
        methods = {PAGE: "GET", BOOT: "POST", ASK: "POST"}
        super().__init__(methods, port=port, headers={"Content-Security-Policy": guarded}, token=token)
        self.page = live_page({"title": "structattn explore"}).encode("utf-8")
        self._boot = as_json({**boot, "host": "server"})
        self._ask = ask
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the page, with the token where it is not sent."""
        return f"http://{HOST}:{self.server_port}/#token={self.token}"

    def get(self, path: str, token: str) -> Reply:
        """The page, which asks for its data with the token."""
        return Reply(HTTPStatus.OK, self.page, "text/html; charset=utf-8")

    def post(self, path: str, body: bytes) -> Reply:
        """The data of the page, or the reply to a request of it; errors are reported in the reply."""
        if path == BOOT:
            return Reply(HTTPStatus.OK, self._boot)
        try:
            request = read_body(body)
        except RequestError as error:
            return _report(None, error)
        with self._lock:
            if client_has_left():  # while others were answered
                return _report(None, RequestError("the client has left"))
            content = self._ask(request)
        try:
            return Reply(HTTPStatus.OK, as_json(content))
        except ValueError as error:  # JSON has no NaN
            LOGGER.exception("the reply to a request is not JSON")
            return _report(content.get("id"), error)


def _report(number: Any, error: Exception) -> Reply:
    record = {"kind": type(error).__name__, "message": str(error), "sentence": None, "word": None}
    return Reply(HTTPStatus.OK, as_json({"v": VERSION, "id": number, "error": record}))
