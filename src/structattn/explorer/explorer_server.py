"""The explorer with a server on the user's own machine: two paths, the page and its requests.

Whoever has the token may ask the models; it is sent in the address of the page, then in a header. The server listens on
127.0.0.1 only; ``http/token_server.py`` checks who asks.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from structattn.explorer.explorer_page import live_page, write_policy
from structattn.explorer.protocol import VERSION
from structattn.http.request_checks import RequestError, read_body
from structattn.http.token_server import HOST, Reply, TokenServer, as_json, refusal

LOGGER = logging.getLogger("structattn.explorer")
PAGE, ASK = "/", "/ask"


class ExplorerServer(TokenServer):
    """A server of one page and its requests, which ``ask`` answers one at a time, as ``Answers.ask`` does."""

    def __init__(self, ask: Callable[[Any], Mapping[str, Any]], boot: Mapping[str, Any], *, port: int = 0) -> None:
        guarded = f"{write_policy(chr(39) + 'self' + chr(39))}; frame-ancestors 'none'"
        super().__init__({PAGE: "GET", ASK: "POST"}, port=port, headers={"Content-Security-Policy": guarded})
        self.page = live_page({**boot, "token": self.token}).encode("utf-8")
        self._ask = ask
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def get(self, path: str, token: str) -> Reply:
        """The page, if the token is the right one."""
        if self.is_token(token):
            return Reply(HTTPStatus.OK, self.page, "text/html; charset=utf-8")
        return refusal(HTTPStatus.FORBIDDEN, "expected the token: open the address that structattn explore printed")

    def post(self, path: str, body: bytes) -> Reply:
        """The reply to a request of the page; errors are reported in the reply."""
        try:
            request = read_body(body)
        except RequestError as error:
            return _report(None, error)
        with self._lock:
            content = self._ask(request)
        try:
            return Reply(HTTPStatus.OK, as_json(content))
        except ValueError as error:  # JSON has no NaN
            LOGGER.exception("the reply to a request is not JSON")
            return _report(content.get("id"), error)


def _report(number: Any, error: Exception) -> Reply:
    record = {"kind": type(error).__name__, "message": str(error), "sentence": None, "word": None}
    return Reply(HTTPStatus.OK, as_json({"v": VERSION, "id": number, "error": record}))
