"""``structattn serve``: a model behind four HTTP endpoints, under the rules of the explorer's server."""

import logging
from http import HTTPStatus

from structattn.errors import StructAttnError
from structattn.http.requests import RequestError, read_body
from structattn.http.token_server import HOST, Reply, TokenServer, as_json
from structattn.serving.batching import OverloadError
from structattn.serving.service import ModelService

LOGGER = logging.getLogger("structattn.serving")


class ModelServer(TokenServer):
    """An HTTP server for one service; ``/health`` needs no token.

    An invalid request is answered with 400, one that the service has no room for with 503, a failure of the service
    with 500; the body then contains ``error``.

    Args:
        service: the service that answers.
        host: the address to listen on.
        port: the port to listen on; 0 picks a free one.

    Raises:
        ConfigError: if the address is not one of this machine, or the port is in use or not permitted.
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
        """The answer of the service, or an error."""
        return reply_to(self.service, path, body)

    def stop(self) -> None:
        """Answer the requests already received; call it when ``serve_forever`` has returned."""
        self.service.close()
        self.finish()


def reply_to(service: ModelService, path: str, body: bytes) -> Reply:
    """The answer of a service to the body of a request, or an error.

    Args:
        service: the service that answers.
        path: one of the service's ``paths``.
        body: JSON.
    """
    try:
        return Reply(HTTPStatus.OK, as_json(service.answer(path, read_body(body))))
    except OverloadError as error:
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except (RequestError, StructAttnError, ValueError) as error:
        return _error(HTTPStatus.BAD_REQUEST, " ".join(str(error).split()))
    except Exception:  # the client learns that the request was not at fault; the log has the cause
        LOGGER.exception("a request to %s failed", path)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the model failed; the server's log has the reason")


def _error(status: HTTPStatus, message: str) -> Reply:
    return Reply(status, as_json({"error": message}))
