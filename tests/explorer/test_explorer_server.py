"""The server of the explorer, asked as a browser and as an intruder would; and the command that starts it."""

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import structattn as sa
from structattn.cli import main
from structattn.cli.explore_command import _choose_examples, _name_runs, _rate_mistake, _write_door
from structattn.errors import ConfigError
from structattn.explorer.explorer_server import HOST, ExplorerServer
from structattn.http.request_checks import MOST_BYTES

BOOT = {"v": 1, "title": "heads & <b>trees</b>", "models": [], "items": []}
LOOK = {"v": 1, "id": 7, "do": "look"}


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    def ask(request: Any) -> dict[str, Any]:
        return {"v": 1, "id": request.get("id"), "asked": request}

    with ExplorerServer(ask, BOOT) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def send(
    server: ExplorerServer,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    without: tuple[str, ...] = (),
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; headers are those of the page, apart from those that are given."""
    usual = {"Host": server.hosts[0], "X-Token": server.token, "Content-Type": "application/json"}
    given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in given.items():
        if name not in without:
            connection.putheader(name, value)
    if body is not None and "Content-Length" not in without and "Content-Length" not in given:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_page_holds_nothing_and_its_data_need_the_token(server: ExplorerServer) -> None:
    status, headers, body = send(server, "GET", "/", without=("X-Token", "Content-Type"))
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert server.url == f"http://{HOST}:{server.server_port}/#token={server.token}"
    assert server.token.encode() not in body
    assert b"trees" not in body
    assert send(server, "GET", "/", Host=server.hosts[1])[0] == 200
    status, _, body = send(server, "POST", "/boot", b"{}")
    assert (status, json.loads(body)) == (200, {**BOOT, "host": "server"})
    assert send(server, "POST", "/boot", b"{}", X_Token="A" * 32)[0] == 403


def test_a_browser_is_told_to_open_a_page_that_only_its_user_can_read(tmp_path: Path) -> None:
    address = _write_door(tmp_path, "http://127.0.0.1:1/#token=secret")
    assert "secret" not in address
    assert 'content="0;url=http://127.0.0.1:1/#token=secret"' in Path(unquote(urlsplit(address).path)).read_text()


def test_every_answer_is_for_the_page_alone(server: ExplorerServer) -> None:
    for method, path, body in (("GET", "/", None), ("POST", "/ask", b"{}"), ("GET", "/nowhere", None)):
        _, headers, _ = send(server, method, path, body)
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert not [name for name in headers if name.startswith("Access-Control")]
        assert "Python" not in headers["Server"]


def test_a_request_is_answered(server: ExplorerServer) -> None:
    status, headers, body = send(server, "POST", "/ask", json.dumps({**LOOK, "text": ["kätzchen"]}).encode())
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body) == {"v": 1, "id": 7, "asked": {**LOOK, "text": ["kätzchen"]}}
    assert send(server, "POST", "/ask", b"{}", Origin=f"http://{server.hosts[0]}")[0] == 200
    assert send(server, "POST", "/ask", b"{}", Content_Type="application/json; charset=utf-8")[0] == 200


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "wrong token": (403, {"X_Token": "A" * 32}),
    "token of other characters": (403, {"X_Token": "\xe4" * 32}),
    "no token": (403, {"without": ("X-Token",)}),
    "token in the address only": (403, {"path": "/ask?token={token}", "without": ("X-Token",)}),
    "other host": (403, {"Host": "evil.example"}),
    "host that was rebound": (403, {"Host": "evil.example:{port}"}),
    "no host": (403, {"without": ("Host",)}),
    "other port": (403, {"Host": "127.0.0.1:1"}),
    "other origin": (403, {"Origin": "https://evil.example"}),
    "origin of a sandbox": (403, {"Origin": "null"}),
    "data of the page without the token": (403, {"path": "/boot", "without": ("X-Token",)}),
    "file": (404, {"method": "GET", "path": "/etc/passwd"}),
    "path upwards": (404, {"method": "GET", "path": "/../../etc/passwd"}),
    "question by GET": (405, {"method": "GET", "path": "/ask"}),
    "page by POST": (405, {"path": "/"}),
    "DELETE": (405, {"method": "DELETE"}),
    "PUT": (405, {"method": "PUT"}),
    "OPTIONS": (405, {"method": "OPTIONS", "Origin": "http://{host}"}),
    "HEAD": (405, {"method": "HEAD", "path": "/"}),
    "form": (415, {"Content_Type": "application/x-www-form-urlencoded"}),
    "plain text": (415, {"Content_Type": "text/plain"}),
    "no type": (415, {"without": ("Content-Type",)}),
    "no length": (411, {"without": ("Content-Length",), "body": None}),
    "too much": (413, {"body": b" " * (MOST_BYTES + 1)}),
    "length of letters": (413, {"Content_Length": "many"}),
    "negative length": (413, {"Content_Length": "-5"}),
    "length of many digits": (413, {"Content_Length": "9" * 5000}),
    "length of other digits": (413, {"Content_Length": "\xb2"}),
    "broken origin": (400, {"Origin": "http://["}),
    "broken address": (400, {"method": "GET", "path": "http://["}),
    "pieces": (413, {"Transfer_Encoding": "chunked", "Content_Length": "2"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused(name: str, server: ExplorerServer) -> None:
    status, fields = REFUSED[name]
    known = {"token": server.token, "port": server.server_port, "host": server.hosts[0]}
    filled = {key: value.format(**known) if isinstance(value, str) else value for key, value in fields.items()}
    method, path = filled.pop("method", "POST"), filled.pop("path", "/ask")
    body = filled.pop("body", b"{}")
    found, headers, text = send(server, method, path, body, **filled)
    assert found == status
    assert text.count(b"\n") == (0 if method == "HEAD" else 1)
    assert server.token.encode() not in text
    assert headers["Cache-Control"] == "no-store"
    assert send(server, "POST", "/ask", b"{}")[0] == 200  # the server goes on


@pytest.mark.parametrize(("body", "message"), [(b"[]", "expected a JSON object, got []"), (b"{", "expected JSON: ")])
def test_a_body_that_is_no_request_gets_an_error(body: bytes, message: str, server: ExplorerServer) -> None:
    status, _, answer = send(server, "POST", "/ask", body)
    assert status == 200
    assert json.loads(answer)["error"]["message"].startswith(message)


def test_a_reply_that_is_no_json_is_an_error() -> None:
    with ExplorerServer(lambda request: {"v": 1, "id": request["id"], "ms": float("nan")}, BOOT) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        status, _, answer = send(server, "POST", "/ask", json.dumps(LOOK).encode())
        server.shutdown()
        thread.join()
    found = json.loads(answer)
    assert (status, found["id"]) == (200, LOOK["id"])
    assert "not JSON compliant" in found["error"]["message"]


def test_the_largest_request_is_heard(server: ExplorerServer) -> None:
    body = json.dumps({**LOOK, "padding": ""}).encode()
    assert send(server, "POST", "/ask", body + b" " * (MOST_BYTES - len(body)))[0] == 200


def test_several_requests_on_one_connection(server: ExplorerServer) -> None:
    connection = http.client.HTTPConnection(*server.hosts[0].split(":"), timeout=20)  # type: ignore[arg-type]
    headers = {"X-Token": server.token, "Content-Type": "application/json"}
    for number in range(3):
        connection.request("POST", "/ask", json.dumps({**LOOK, "id": number}), headers)
        assert json.loads(connection.getresponse().read())["id"] == number
    connection.close()


def test_models_answer_one_request_at_a_time() -> None:
    busy, met = threading.Event(), []

    def ask(request: Any) -> dict[str, Any]:
        met.append(busy.is_set())
        busy.set()
        threading.Event().wait(0.05)
        busy.clear()
        return {}

    with ExplorerServer(ask, BOOT) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threads = [threading.Thread(target=send, args=(server, "POST", "/ask", b"{}")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.shutdown()
    assert met == [False] * 4


def test_tokens_are_new_and_ports_are_checked() -> None:
    with ExplorerServer(lambda request: {}, BOOT) as first, ExplorerServer(lambda request: {}, BOOT) as second:
        assert first.token != second.token
        assert first.server_address[0] == second.server_address[0] == "127.0.0.1"
        assert first.server_port != second.server_port


def test_a_port_that_is_taken_is_said() -> None:
    with ExplorerServer(lambda request: {}, BOOT) as first:
        first.allow_reuse_address = False
        with pytest.raises(
            ConfigError, match=rf"^port {first.server_port} of 127\.0\.0\.1: address already in use; --port 0"
        ):
            ExplorerServer(lambda request: {}, BOOT, port=first.server_port)


def test_runs_are_named_by_what_tells_them_apart() -> None:
    assert _name_runs(["runs/ms_san"]) == ["ms_san"]
    assert _name_runs(["runs/ms_san", "runs/disan/"]) == ["ms_san", "disan"]
    assert _name_runs(["a/ms_san", "b/ms_san"]) == ["a/ms_san", "b/ms_san"]
    with pytest.raises(ConfigError, match=r"expected different runs, got a \./a"):
        _name_runs(["a", "./a"])


def test_how_wrong_a_prediction_is() -> None:
    assert _rate_mistake("singular", "plural") == 1
    assert _rate_mistake("singular", "singular") == 0
    assert _rate_mistake(2.5, 4.0) == 1.5
    assert _rate_mistake(None, "plural") == _rate_mistake("plural", None) == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored")
    lines = ["1 a fine film", "0 a dull film", "1 fine", "0 dull"] * 3 + ["0 a fine film"]
    (folder / "data.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--options.dim", "8", "--optimization.epochs", "20", "--optimization.learning_rate", "0.05"]
    places = ["--data.train", "data.txt", "--data.dev", "data.txt", "--out", "run", "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "--task", "cr", "--encoder", "emb_s2t", *options, *places]) == 0
    return folder


def test_what_the_model_gets_wrong_comes_first(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    model = sa.load("run")
    of_run = _choose_examples("run", model, None, {})
    given = _choose_examples("run", model, "data.txt", {})
    elsewhere = _choose_examples("run/best", model, "data.txt", {})
    for found in (of_run, given, elsewhere):
        assert [example.sentences[0].text for example in found[:2]] == ["a fine film", "a fine film"]
        assert [example.label for example in found[:3]] == ["0", "1", "0"]
        assert len(found) == 13
    assert _choose_examples("run/best", model, None, {}) == []


def test_a_run_whose_data_are_gone_shows_the_texts_of_its_predictions(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    moved = shutil.copytree(run / "run", tmp_path / "moved")
    environment = json.loads((moved / "environment.json").read_text(encoding="utf-8"))
    (moved / "environment.json").write_text(json.dumps({**environment, "directory": str(tmp_path)}), encoding="utf-8")
    chosen = _choose_examples(str(moved), sa.load(moved), None, {})
    there = _choose_examples(str(run / "run"), sa.load(moved), None, {})
    assert {example.sentences[0].words for example in chosen} <= {example.sentences[0].words for example in there}
    assert len(chosen) > 0
    shutil.rmtree(moved / "predictions")
    assert _choose_examples(str(moved), sa.load(moved), None, {}) == []
    assert "no examples to choose from: data.txt: cannot read this file" in caplog.text


def boot_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """What the page of the command is born with."""
    born: list[dict[str, Any]] = []

    class Server(ExplorerServer):
        def __init__(self, ask: Any, boot: Any, **options: Any) -> None:
            super().__init__(ask, boot, **options)
            born.append(boot)

        def serve_forever(self, poll_interval: float = 0.5) -> None:
            pass

    monkeypatch.setattr("structattn.explorer.explorer_server.ExplorerServer", Server)
    assert main(["explore", *arguments, "--no-browser", "--device", "cpu"]) == 0
    return born[0]


def test_the_command_opens_with_the_example_the_text_or_the_state_that_was_asked_for(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(run)
    for options in (["--split", "dev"], ["--data", "data.txt"], ["--split", "train"]):
        boot = boot_of(monkeypatch, "run", "--example", "3", *options)
        assert (boot["items"][0]["name"], len(boot["items"]), boot["view"]["item"]) == ("dull", 13, 0)
        assert boot["items"][0]["replies"]
    boot = boot_of(monkeypatch, "run", "--text", "a very fine film")
    assert (boot["items"][0]["sentences"][0]["words"], len(boot["items"])) == (["a", "very", "fine", "film"], 14)
    state = tmp_path / "state.json"
    saved = {"v": 1, "sentences": [{"words": ["fine"], "heads": [0]}], "view": {"mode": "change"}}
    state.write_text(json.dumps(saved), encoding="utf-8")
    boot = boot_of(monkeypatch, "run", "--state", str(state))
    assert (boot["items"][0]["sentences"][0]["words"], json.loads(boot["state"])) == (["fine"], saved)


def test_the_command_serves_until_it_is_interrupted(run: Path) -> None:
    command = [sys.executable, "-m", "structattn", "explore", "run", "--no-browser", "--device", "cpu"]
    # A shell lets its background jobs ignore Ctrl-C, and so what they start.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=run, preexec_fn=heeds, **pipes) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{32})", url)
            assert found, url
            connection = http.client.HTTPConnection(HOST, int(found[1]), timeout=20)
            headers = {"X-Token": found[2], "Content-Type": "application/json"}
            connection.request("POST", "/boot", b"{}", headers)
            boot = json.loads(connection.getresponse().read())
            assert boot["title"] == "structattn explore: run"
            # The example with the wrong label comes first: nothing could learn it.
            assert (boot["items"][0]["name"], boot["items"][0]["expected"]) == ("a fine film", "0")
            assert len(boot["items"]) == 13
            asked = {**LOOK, "models": ["run"], "sentences": boot["items"][0]["sentences"]}
            connection.request("POST", "/ask", json.dumps(asked), headers)
            reply = json.loads(connection.getresponse().read())
            assert reply["looks"][0]["answer"]["label"] == "1"
            assert reply["looks"] == boot["items"][0]["replies"]["look"]["looks"]
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "13 examples to choose from; Ctrl-C ends the server" in err
    assert "Traceback" not in err
