"""``structattn serve``: a trained model over HTTP, with predictions, trees and attention as JSON."""

import json
import logging
import signal
import threading
from collections.abc import Iterator

from structattn.cli.command_inputs import check_at_least, check_inputs, check_port
from structattn.errors import ConfigError
from structattn.http.token_server import read_token
from structattn.options.hardware import Hardware
from structattn.parsing.parsers import DEFAULT_PARSER, check_parser, load_parser
from structattn.training.run_folder import RunFolder

LOGGER = logging.getLogger("structattn.cli")


def command(
    run: str,
    *,
    parser: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    max_batch: int = 32,
    max_wait: float = 0.0,
    capacity: int = 256,
    token_file: str | None = None,
    hardware: Hardware,
    trust_code: bool = False,
) -> Iterator[str]:
    """Serve a trained model: POST /predict, /parse and /attention with {"texts": [...]}, and GET /health.

    The first line printed contains the address and the token that every POST must carry in the header X-Token, unless
    you give the token, in a file or as STRUCTATTN_TOKEN. Ctrl-C or SIGTERM ends the server once the requests already
    accepted are answered.

    Args:
        run: a run folder, or the folder of a saved model.
        parser: the parser for /parse and for the model's input, as for structattn parse; by default the one saved with
            the run for the model, and en for /parse.
        host: the address to listen on; any other than the default makes the server reachable from other machines.
        port: the port to listen on; a free one by default.
        max_batch: maximum number of texts computed together; 1 turns batching off.
        max_wait: milliseconds that a text waits for others while nothing is computed; texts that arrive during a
            computation are computed together in any case.
        capacity: maximum number of waiting texts; a request that does not fit is answered with 503 immediately.
        token_file: a file with the token, of at least 16 characters; a random one by default, or STRUCTATTN_TOKEN.
        hardware: where the model runs, and the precision.
        trust_code: import and run an encoder module:function that the folder names.
    """
    check_inputs(run, None, trust_code=trust_code)
    if parser is not None:
        check_parser(parser)
    check_port(port)
    check_at_least(1, max_batch=max_batch, capacity=capacity)
    check_at_least(0, max_wait=max_wait)
    token = read_token(token_file)
    if max_wait / 1000 > threading.TIMEOUT_MAX:
        raise ConfigError(f"--max_wait: expected at most {1000 * threading.TIMEOUT_MAX:.0f}, got {max_wait}")

    from structattn.serving import ModelServer, ModelService
    from structattn.training.models import load_task_model

    model = hardware.move(load_task_model(run, parser=parser, trust_code=trust_code))
    service = ModelService(
        model,
        load_parser(parser or DEFAULT_PARSER),
        hardware=hardware,
        max_batch=max_batch,
        max_wait=max_wait / 1000,
        capacity=capacity,
        name=RunFolder(run).path.resolve().name,
    )
    with ModelServer(service, host=host, port=port, token=token) as server:
        # From another thread: shutdown waits until this one has stopped serving.
        previous = signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=server.shutdown).start())
        try:
            yield json.dumps({"url": server.url, **({"token": server.token} if token is None else {})})
            LOGGER.info("Ctrl-C ends the server")
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            server.stop()
            signal.signal(signal.SIGTERM, previous)
        LOGGER.info("the server has ended")
