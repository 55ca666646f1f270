"""``structattn serve``: a model behind four addresses, under the rules of the explorer's server."""

import logging
from http import HTTPStatus

from structattn.explorer.checks import RequestError
from structattn.explorer.http import HOST, Reply, TokenServer, as_json
from structattn.explorer.protocol import read_body
from structattn.serving.batching import OverloadError
from structattn.serving.service import ModelService
from structattn.syntax.errors import StructAttnError

LOGGER = logging.getLogger("structattn.serving")


class ModelServer(TokenServer):
    """A server of one service; ``/health`` needs no token.

    A wrong request is answered with 400, one that the service has no room for with 503, a failure of the service
    with 500; the body then holds ``error``.

    Args:
        service: what answers.
        host: the address where it listens.
        port: where it listens; 0 takes a free one.

    Raises:
        ConfigError: if the address is not ours, or the port is taken or not ours to take.
    """

    def __init__(self, service: ModelService, *, host: str = HOST, port: int = 0) -> None:
        super().__init__({"/health": "GET", **dict.fromkeys(service.paths, "POST")}, host=host, port=port)
        self.service = service

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://{self.host}:{self.server_port}"

    def get(self, path: str, token: str) -> Reply:
        """The state of the service."""
        return Reply(HTTPStatus.OK, as_json(self.service.about))

    def post(self, path: str, body: bytes) -> Reply:
        """The answer of the service, or why there is none."""
        return reply_to(self.service, path, body)

    def stop(self) -> None:
        """Answer what was heard; call it when ``serve_forever`` has returned."""
        self.service.close()
        self.finish()


def reply_to(service: ModelService, path: str, body: bytes) -> Reply:
    """The answer of a service to the body of a request, or why there is none.

    Args:
        service: what answers.
        path: one of the service's ``paths``.
        body: JSON.
    """
    try:
        return Reply(HTTPStatus.OK, as_json(service.answer(path, read_body(body))))
    except OverloadError as error:
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except (RequestError, StructAttnError, ValueError) as error:
        return _error(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
    except Exception:  # the client learns that it is not to blame, the log what happened
        LOGGER.exception("a request to %s failed", path)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the model failed; the server's log has the reason")


def _error(status: HTTPStatus, message: str) -> Reply:
    return Reply(status, as_json({"error": message}))
