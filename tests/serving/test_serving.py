"""A model behind a server: dynamic batches, what is refused and what is never lost, and the command that starts it."""

import contextlib
import http.client
import json
import math
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from repository import ROOT
from structattn.cli.serve_command import command as serve_command
from structattn.errors import ConfigError
from structattn.explorer.reply_records import answer_to_json
from structattn.http.connections import Connections, Limits
from structattn.http.token_server import read_token
from structattn.options.hardware import Hardware
from structattn.serving import ModelServer, ModelService, OverloadError
from structattn.serving.dynamic_batching import Batcher

pytestmark = pytest.mark.integration

TEXTS = ["a fine film", "dull", "so fine , so dull", "it never ends", "fine"]


@pytest.fixture(scope="module")
def model() -> sa.tasks.SentenceModel:
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary(["a", "dull", "fine", "film", "so"])
    encoder = sa.encoders.build("disan", vocab_size=len(vocabulary), dim=8)
    return sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary).eval()


@pytest.fixture(scope="module")
def server(model: sa.tasks.SentenceModel) -> Iterator[ModelServer]:
    with ModelServer(ModelService(model, sa.parsing.load_parser("en"))) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        found.stop()
        thread.join()


def send(
    server: ModelServer, path: str, body: Any = None, *, method: str = "POST", **headers: str
) -> tuple[int, dict[str, Any] | str]:
    """Status and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=300)
    given = {"X-Token": server.token, "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, given)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(text) if is_json else text


@pytest.mark.parametrize(("max_batch", "max_wait"), [(1, 0.0), (3, 0.0), (8, 0.02)])
def test_every_item_gets_its_own_result(max_batch: int, max_wait: float) -> None:
    seen: list[int] = []

    def work(name: str, items: list[int]) -> list[tuple[str, int]]:
        seen.append(len(items))
        return [(name, item) for item in items]

    kinds = {name: lambda items, name=name: work(name, items) for name in "ab"}
    draw = random.Random(max_batch)
    asked = [(draw.choice("ab"), [draw.randrange(99) for _ in range(draw.randint(1, 4))]) for _ in range(60)]
    with Batcher(kinds, max_batch=max_batch, max_wait=max_wait) as batcher, ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda one: batcher.submit(*one), asked))
    assert found == [[(name, item) for item in items] for name, items in asked]
    assert sum(seen) == sum(len(items) for _, items in asked)
    assert max(seen) <= max_batch


def test_items_that_wait_are_computed_together() -> None:
    started, go, batches = threading.Event(), threading.Event(), []

    def work(items: list[int]) -> list[int]:
        batches.append(items)
        started.set()
        assert go.wait(300)
        return items

    with Batcher({"x": work}, max_batch=4, max_wait=0.0) as batcher, ThreadPoolExecutor(9) as clients:
        waiting = [clients.submit(batcher.submit, "x", [0])]
        assert started.wait(300)
        waiting.append(clients.submit(batcher.submit, "x", [1, 2, 3, 4, 5]))
        while batcher._count("x") < 5:
            time.sleep(0.001)
        go.set()
        assert [one.result() for one in waiting] == [[0], [1, 2, 3, 4, 5]]
    assert batches == [[0], [1, 2, 3, 4], [5]]


def test_a_wrong_item_spoils_no_other() -> None:
    def work(items: list[int]) -> list[float]:
        return [1 / item for item in items]

    with Batcher({"x": work}, max_wait=0.05) as batcher, ThreadPoolExecutor(3) as clients:
        right = clients.submit(batcher.submit, "x", [1, 2])
        wrong = clients.submit(batcher.submit, "x", [4, 0])
        assert right.result() == [1, 0.5]
        with pytest.raises(ZeroDivisionError):
            wrong.result()
    with Batcher({"x": lambda items: []}) as batcher, pytest.raises(RuntimeError, match="expected 1 results, got 0"):
        batcher.submit("x", [1])


def test_what_was_taken_is_done_and_what_is_not_taken_is_said_at_once() -> None:
    started, go = threading.Event(), threading.Event()

    def work(items: list[int]) -> list[int]:
        started.set()
        assert go.wait(300)
        return items

    batcher = Batcher({"x": work}, max_batch=1, max_wait=0.0, capacity=3)
    with ThreadPoolExecutor(9) as clients:
        running = clients.submit(batcher.submit, "x", [0])
        assert started.wait(300)
        waiting = clients.submit(batcher.submit, "x", [1, 2])
        while batcher._count("x") < 2:
            time.sleep(0.001)
        with pytest.raises(OverloadError, match="2 of at most 3 items are waiting"):
            batcher.submit("x", [3, 4])
        closing = clients.submit(batcher.close)
        while not batcher._closed:
            time.sleep(0.001)
        with pytest.raises(OverloadError):
            batcher.submit("x", [5])
        go.set()
        assert running.result() == [0]
        assert waiting.result() == [1, 2]
        closing.result()


@pytest.mark.parametrize(
    "sizes",
    [
        *({"max_batch": 0}, {"capacity": 0}),
        *({"max_wait": wait} for wait in (-1.0, math.inf, math.nan, 1e13)),
    ],
)
def test_sizes_are_checked(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected a batch and a queue of at least 1"):
        Batcher({}, **sizes)


@pytest.mark.parametrize("wait", [".inf", ".nan", "1e16"])
def test_the_command_waits_no_longer_than_a_thread_can(
    wait: str, model: sa.tasks.SentenceModel, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match="--max_wait: expected at "):
        list(serve_command(str(tmp_path / "model"), max_wait=float(wait.lstrip(".")), hardware=Hardware("cpu")))


def test_whoever_waits_hears_that_the_thread_has_failed() -> None:
    started, go = threading.Event(), threading.Event()

    def work(items: list[int]) -> list[int]:
        started.set()
        assert go.wait(300)
        raise SystemExit("gone")

    with Batcher({"x": work}) as batcher, ThreadPoolExecutor(2) as clients:
        waiting = [clients.submit(batcher.submit, "x", [0])]
        assert started.wait(300)
        waiting.append(clients.submit(batcher.submit, "x", [1, 2]))
        while batcher._count("x") < 2:
            time.sleep(0.001)
        go.set()
        for one in waiting:
            with pytest.raises(RuntimeError, match="the batching thread has failed: gone"):
                one.result(300)
        with pytest.raises(OverloadError):
            batcher.submit("x", [3])


def assert_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


def test_answers_are_those_of_the_model(server: ModelServer, model: sa.tasks.SentenceModel) -> None:
    expected = [answer_to_json(one) for one in model.predict(TEXTS)]
    status, found = send(server, "/predict", {"texts": TEXTS})
    assert status == 200
    assert_same(found["predictions"], expected)
    with ThreadPoolExecutor(6) as clients:
        order = [place % len(TEXTS) for place in range(30)]
        answers = list(clients.map(lambda place: send(server, "/predict", {"texts": [TEXTS[place]]}), order))
    assert_same([one["predictions"][0] for _, one in answers], [expected[place] for place in order])


def test_the_model_keeps_its_mode(model: sa.tasks.SentenceModel) -> None:
    expected = [answer_to_json(one) for one in model.predict(TEXTS)]
    model.train()
    service = ModelService(model, sa.parsing.load_parser("en"))
    found = service.answer("/predict", {"texts": TEXTS})["predictions"]
    service.answer("/attention", {"texts": TEXTS[:1]})
    service.close()
    assert all(module.training for module in model.modules())
    model.eval()
    assert_same(found, expected)


def test_trees_and_attention(server: ModelServer) -> None:
    status, found = send(server, "/parse", {"texts": ["Kids wash. They don't.", "hush"]})
    expected = sa.parse("Kids wash. They don't.")
    assert status == 200
    assert [[tuple(one["heads"]) for one in text] for text in found["texts"]] == [
        [one.dependency.heads for one in expected],
        [(0,)],
    ]
    status, found = send(server, "/attention", {"texts": ["fine film"]})
    (look,) = found["looks"]
    assert (status, look["sentences"][0]["words"]) == (200, ["fine", "film"])
    assert look["maps"]
    status, about = send(server, "/health", method="GET")
    assert (status, [about[name] for name in ("status", "task", "parser", "model")]) == (
        200,
        ["ok", "sentiment", "en", "model"],
    )


def test_counts_are_text_that_prometheus_reads_and_answers_name_the_model(server: ModelServer) -> None:
    before = server._requests["/predict", 200], server._requests["/predict", 400]
    send(server, "/predict", {"texts": ["fine film"]})
    send(server, "/predict", {"texts": []})
    with urllib.request.urlopen(f"{server.url}/metrics") as reply:
        text, headers = reply.read().decode(), reply.headers
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert headers["X-Model"] == f"model@{server.service.version}"
    lines = text.splitlines()
    assert f'structattn_requests_total{{path="/predict",status="200"}} {before[0] + 1}' in lines
    assert f'structattn_requests_total{{path="/predict",status="400"}} {before[1] + 1}' in lines
    assert "structattn_waiting_texts 0" in lines
    sample = re.compile(r'structattn_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [\d.]+')
    assert all(line.startswith("# TYPE structattn_") or sample.fullmatch(line) for line in lines)


def test_names_in_counts_are_escaped_as_prometheus_expects(model: sa.tasks.SentenceModel) -> None:
    with serving(model, name='modèle "a\\b"\n') as server, urllib.request.urlopen(f"{server.url}/metrics") as reply:
        text = reply.read().decode()
    assert r'structattn_model_info{model="modèle \"a\\b\"\n",version=' in text


REFUSED = {
    "garbage": (400, "/predict", b"\x00\xff{", {}),
    "a list": (400, "/predict", [1], {}),
    "no texts": (400, "/predict", {"texts": []}, {}),
    "too many texts": (400, "/predict", {"texts": ["a"] * 65}, {}),
    "a number": (400, "/parse", {"texts": [3]}, {}),
    "an empty text": (400, "/parse", {"texts": [" "]}, {}),
    "a long text": (400, "/predict", {"texts": ["a" * 20_001]}, {}),
    "a pair": (400, "/predict", {"texts": [["a", "b"]]}, {}),
    "many words": (400, "/attention", {"texts": ["a " * 257]}, {}),
    "another key": (400, "/predict", {"text": "a"}, {}),
    "wrong token": (403, "/predict", {"texts": ["a"]}, {"X_Token": "x"}),
    "wrong host": (403, "/predict", {"texts": ["a"]}, {"Host": "evil.example"}),
    "another site": (403, "/predict", {"texts": ["a"]}, {"Origin": "https://evil.example"}),
    "no address": (404, "/train", {"texts": ["a"]}, {}),
    "wrong method": (405, "/predict", None, {"method": "GET"}),
    "a form": (415, "/predict", {"texts": ["a"]}, {"Content_Type": "text/plain"}),
    "ten megabytes": (413, "/predict", b" " * 10_000_000, {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, server: ModelServer) -> None:
    status, path, body, headers = REFUSED[name]
    found, content = send(server, path, body, **headers)
    assert found == status
    text = content["error"] if isinstance(content, dict) else content
    assert text
    assert "\n" not in text.strip()
    assert send(server, "/health", method="GET")[0] == 200


def test_a_client_that_hangs_up_disturbs_nobody(server: ModelServer) -> None:
    head = f"POST /predict HTTP/1.1\r\nHost: {server.hosts[0]}\r\nX-Token: {server.token}\r\n"
    body = json.dumps({"texts": TEXTS}).encode()
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for sent in (b"", head.encode()[:40], head.encode() + body[:9], head.encode() + body):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.sendall(sent)
    assert send(server, "/predict", {"texts": TEXTS})[0] == 200


def test_overload_is_said_at_once_and_nothing_is_lost(model: sa.tasks.SentenceModel) -> None:
    computing, go = threading.Event(), threading.Event()
    service = ModelService(model, sa.parsing.load_parser("en"), max_batch=1, max_wait=0.0, capacity=2)
    answer = service._batches.work["/predict"]

    def slowly(items: list[Any]) -> Sequence[Any]:
        computing.set()
        assert go.wait(300)
        return answer(items)

    service._batches.work["/predict"] = slowly
    with ModelServer(service) as server, ThreadPoolExecutor(16) as clients:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = [clients.submit(send, server, "/predict", {"texts": ["fine"]})]
        # Until its work begins the first text waits, too, and takes the place of another.
        assert computing.wait(300)
        asked += [clients.submit(send, server, "/predict", {"texts": ["fine"]}) for _ in range(11)]
        while sum(one.done() for one in asked) < 9:
            time.sleep(0.005)
        # One is computed and two wait; the others know already.
        assert {one.result()[0] for one in asked if one.done()} == {503}
        assert sum(one.done() for one in asked) == 9
        server.shutdown()
        stopping = clients.submit(server.stop)
        go.set()
        stopping.result()
        answers = [one.result() for one in asked]
    assert sorted(status for status, _ in answers) == [200] * 3 + [503] * 9
    assert all("predictions" in content for status, content in answers if status == 200)


def test_a_failure_of_the_model_is_not_the_clients(model: sa.tasks.SentenceModel) -> None:
    service = ModelService(model, sa.parsing.load_parser("en"))
    service._batches.work["/predict"] = lambda items: [1 / 0]
    with ModelServer(service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status, content = send(server, "/predict", {"texts": ["fine"]})
        assert (status, content) == (500, {"error": "the model failed; the server's log has the reason"})
        server.shutdown()
        server.stop()


@contextmanager
def serving(model: sa.tasks.SentenceModel, work: Any = None, **options: Any) -> Iterator[ModelServer]:
    """A server of its own; ``work`` replaces the predictions."""
    limits = options.pop("limits", None)
    service = ModelService(model, sa.parsing.load_parser("en"), **options)
    if work is not None:
        service._batches.work["/predict"] = work
    with ModelServer(service, limits=limits) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.stop()
            thread.join()


def connect(server: ModelServer, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)
    connection.sendall(sent)
    return connection


HEAD = b"POST /predict HTTP/1.1\r\nHost: "
REQUEST = "POST /predict HTTP/1.1\r\nHost: {host}\r\nX-Token: {token}\r\nContent-Type: application/json\r\n"


def test_slow_clients_make_room_for_others(model: sa.tasks.SentenceModel) -> None:
    """Four times as many slow connections as there may be, of one address: every valid request is answered."""
    with serving(model, limits=Limits(connections=8, per_address=6, spare=2)) as server:
        slow = [connect(server, HEAD) for _ in range(24)]
        for _ in range(5):
            assert send(server, "/health", method="GET")[0] == 200
            assert send(server, "/predict", {"texts": ["fine"]})[0] == 200
            slow.append(connect(server, HEAD))
        assert len(server.connections) <= 6
        assert slow[0].recv(1) == b"", "the first of them was closed"
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("sent", [b"", HEAD, b"head and a part of the body"])
def test_headers_and_bodies_have_a_deadline_however_slowly_they_come(
    model: sa.tasks.SentenceModel, sent: bytes
) -> None:
    with serving(model, limits=Limits(headers=0.3, body=0.3)) as server:
        if b"body" in sent:
            head = REQUEST.format(host=server.hosts[0], token=server.token)
            sent = f"{head}Content-Length: 99\r\n\r\n".encode() + b'{"texts"'
        with connect(server, sent) as connection:
            stop = threading.Event()

            def trickle() -> None:
                with contextlib.suppress(OSError):
                    while not stop.wait(0.05):
                        connection.sendall(b" ")

            sender = threading.Thread(target=trickle)
            sender.start()
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b"", "closed, though a byte came every 0.05 seconds"
            stop.set()
            sender.join()


def test_a_server_whose_places_are_taken_by_requests_still_tells_its_state(model: sa.tasks.SentenceModel) -> None:
    go = threading.Event()

    def work(items: list[Any]) -> Sequence[Any]:
        assert go.wait(300)
        return [{"label": "x"}] * len(items)

    with serving(model, work, limits=Limits(connections=3, spare=1)) as server, ThreadPoolExecutor(3) as clients:
        asked = [clients.submit(send, server, "/predict", {"texts": ["fine"]}) for _ in range(3)]
        while len(server.connections._answered) < 3:
            time.sleep(0.001)
        try:
            assert send(server, "/health", method="GET")[0] == 200
            while len(server.connections) > 3:  # until the server, too, has seen its end
                time.sleep(0.001)
            status, text = send(server, "/predict", {"texts": ["fine"]})
        finally:
            go.set()
        assert (status, text) == (503, "the server is busy; try again in a moment\n")
        assert [one.result()[0] for one in asked] == [200] * 3


def test_one_address_cannot_take_all_places() -> None:
    sockets = [socket.socket() for _ in range(6)]
    connections = Connections(Limits(connections=4, per_address=2, spare=0))
    assert [connections.admit(one, "a") for one in sockets[:2]] == [True, True]
    for one in sockets[:2]:
        connections.begin(one)
    assert not connections.admit(sockets[2], "a")
    assert [connections.admit(one, "b") for one in sockets[2:4]] == [True, True]
    assert connections.admit(sockets[4], "c"), "a connection of b that waits for its client makes room"
    with pytest.raises(ConnectionAbortedError):
        connections.begin(sockets[2])
    connections.end(sockets[0])
    assert connections.admit(sockets[5], "a")
    assert len(connections) == 4
    for one in sockets:
        connections.leave(one)
        one.close()
    assert len(connections) == 0


def test_an_answer_has_a_time_and_what_is_late_is_dropped(model: sa.tasks.SentenceModel) -> None:
    seen: list[int] = []
    go = threading.Event()

    def work(items: list[Any]) -> Sequence[Any]:
        seen.append(len(items))
        assert go.wait(300)
        return [{"label": "x"}] * len(items)

    with serving(model, work, max_batch=1, max_seconds=0.3) as server:
        status, content = send(server, "/predict", {"texts": ["a", "b", "c"]})
        assert (status, content) == (503, {"error": "no answer within 0.3 seconds; what was not begun is dropped"})
        go.set()
    assert seen == [1], "the text that was begun; the other two were dropped"


def test_the_work_of_a_client_that_has_left_is_dropped(model: sa.tasks.SentenceModel) -> None:
    seen: list[int] = []
    started, go = threading.Event(), threading.Event()

    def work(items: list[Any]) -> Sequence[Any]:
        seen.append(len(items))
        started.set()
        assert go.wait(300)
        return [{"label": "x"}] * len(items)

    with serving(model, work, max_batch=1) as server:
        body = json.dumps({"texts": ["a", "b", "c"]}).encode()
        head = REQUEST.format(host=server.hosts[0], token=server.token)
        connection = connect(server, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert started.wait(300)
        connection.close()
        while server.service._batches._jobs and not all(
            job.result.cancelled() for job in server.service._batches._jobs
        ):
            time.sleep(0.01)
        go.set()
        assert send(server, "/predict", {"texts": ["d"]})[0] == 200
    assert seen == [1, 1]


@pytest.mark.parametrize("path", ["/predict", "/parse", "/attention"])
def test_a_request_has_a_budget_of_words(model: sa.tasks.SentenceModel, path: str) -> None:
    with serving(model, max_words=12) as server:
        assert send(server, path, {"texts": ["a film ."] * 4})[0] == 200
        status, content = send(server, path, {"texts": ["a film ."] * 4 + ["a"]})
    assert (status, content) == (400, {"error": "texts: expected at most 12 words in a request, got 13"})


AMBIGUOUS = {
    "two lengths": "Content-Length: {size}\r\nContent-Length: {size}\r\n",
    "two other lengths": "Content-Length: {size}\r\nContent-Length: 0\r\n",
    "two hosts": "Content-Length: {size}\r\nHost: {host}\r\n",
    "two tokens": "Content-Length: {size}\r\nX-Token: x\r\n",
    "no colon": "Content-Length: {size}\r\nno colon\r\n",
    "no colon first": "no colon\r\nContent-Length: {size}\r\n",
    "space before the colon": "Content-Length : {size}\r\n",
    "two lines": "Content-Length: {size}\r\nX-Note: a\r\n b\r\n",
    "no name": "Content-Length: {size}\r\n: x\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_headers_that_two_readers_may_understand_differently_are_refused(name: str, server: ModelServer) -> None:
    body = b'{"texts": ["fine"]}'
    head = REQUEST.format(host=server.hosts[0], token=server.token)
    head += AMBIGUOUS[name].format(size=len(body), host=server.hosts[0])
    with connect(server, f"{head}\r\n".encode() + body) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1, "what follows is no second request"
    assert b"Connection: close" in received


def test_a_server_that_ends_refuses_new_connections_and_answers_the_old(model: sa.tasks.SentenceModel) -> None:
    started, go = threading.Event(), threading.Event()

    def work(items: list[Any]) -> Sequence[Any]:
        started.set()
        assert go.wait(300)
        return [{"label": "x"}] * len(items)

    with serving(model, work) as server, ThreadPoolExecutor(2) as clients:
        asked = clients.submit(send, server, "/predict", {"texts": ["fine"]})
        assert started.wait(300)
        server.shutdown()
        port = server.server_port
        stopping = clients.submit(server.stop)
        is_refused = False
        # The thread that stops the server may not have closed its socket yet.
        while not is_refused and not stopping.done():
            try:
                socket.create_connection(("127.0.0.1", port), timeout=10).close()
                time.sleep(0.01)  # rather than fill the queue of a socket that nobody accepts from
            except ConnectionRefusedError:
                is_refused = True
        go.set()
        assert is_refused, "before the answer in progress is sent"
        stopping.result()
        assert asked.result() == (200, {"predictions": [{"label": "x"}]})


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRUCTATTN_TOKEN", raising=False)
    assert read_token() is None
    monkeypatch.setenv("STRUCTATTN_TOKEN", "from-the-environment")
    assert read_token() == "from-the-environment"
    file = tmp_path / "token"
    file.write_text("from-the-file-0123\n")
    assert read_token(file) == "from-the-file-0123"
    for content in ("short", "with a space in the middle", "", "\u00e4" * 20):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: "):
            read_token(file)
    with pytest.raises(ConfigError, match="cannot read a token: No such file"):
        read_token(tmp_path / "none")


def test_the_command_serves_until_it_is_told_to_end(model: sa.tasks.SentenceModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "structattn", "serve", str(tmp_path / "model"), "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        printed = json.loads(line)
        host, port = printed["url"].removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=300)
        headers = {"X-Token": printed["token"], "Content-Type": "application/json"}
        connection.request("POST", "/predict", json.dumps({"texts": ["fine"]}), headers)
        assert json.loads(connection.getresponse().read())["predictions"][0]["label"] in ("negative", "positive")
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0


def test_the_command_takes_a_token_and_does_not_print_it(model: sa.tasks.SentenceModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "token").write_text("a token that is long".replace(" ", "-") + "\n")
    lines = serve_command(str(tmp_path / "model"), token_file=str(tmp_path / "token"), hardware=Hardware("cpu"))
    printed = json.loads(next(lines))
    assert list(printed) == ["url"]
    lines.close()  # type: ignore[attr-defined]  # a generator


def test_the_responses_of_the_docs_have_the_keys_of_the_server(server: ModelServer) -> None:
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)]
    _, predicted = send(server, "/predict", {"texts": ["a fine film", "dull"]})
    _, parsed = send(server, "/parse", {"texts": ["Kids wash."]})
    assert parsed == shown[1]
    assert [list(one) for one in shown[0]["predictions"]] == [list(one) for one in predicted["predictions"]]
