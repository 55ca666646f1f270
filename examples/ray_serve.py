"""A trained model behind Ray Serve: replicas on the machines of a cluster, each with dynamic batches of its own.

    pip install 'structattn[serve]'
    python examples/ray_serve.py RUN --replicas 4 [--port 8000] [--address auto]
    curl -H 'Content-Type: application/json' -d '{"texts": ["a fine film"]}' http://127.0.0.1:8000/predict

Requests and answers are those of `structattn serve`, and a replica that has too much to do answers 503 at once. Ray's
proxy asks for no token: it listens on 127.0.0.1, and what lets others in, such as a gateway, must know them.
"""

import argparse
import asyncio
import threading

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

import structattn as sa
from structattn.parsing import load_parser
from structattn.serving import ModelService, reply_to


# More requests than texts may wait, so that it is the service that refuses, and says why.
@serve.deployment(max_ongoing_requests=512)
class Replica:
    """One copy of the model."""

    def __init__(self, run: str) -> None:
        self.service = ModelService(sa.load(run), load_parser("en"))

    async def __call__(self, request: Request) -> Response:
        if request.url.path not in self.service.paths or request.method != "POST":
            return Response(f"expected POST to one of {', '.join(self.service.paths)}\n", 404)
        # The service waits for its batch; Ray's event loop must not.
        reply = await asyncio.to_thread(reply_to, self.service, request.url.path, await request.body())
        return Response(reply.content, reply.status, media_type=reply.kind)


def start(run: str, *, replicas: int = 1, port: int = 8000, address: str | None = None, cores: int = 1) -> None:
    """Start the replicas, in a cluster that exists or in one of this machine, and wait until they answer."""
    ray.init(address or "local", include_dashboard=False, num_cpus=None if address else replicas * cores)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(Replica.options(num_replicas=replicas, ray_actor_options={"num_cpus": cores}).bind(run))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--address", help="of a cluster that exists, such as auto")
    options = parser.parse_args()
    start(options.run, replicas=options.replicas, port=options.port, address=options.address)
    threading.Event().wait()


if __name__ == "__main__":
    main()
