"""The Ray Serve deployment of the examples, started as a user starts it: two replicas, right and wrong requests."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import structattn as sa
from repository import ROOT
from structattn.explorer.reply_records import answer_to_json

HAS_SERVE = all(importlib.util.find_spec(name) for name in ("ray", "starlette", "uvicorn", "fastapi"))
EXAMPLE = ROOT / "examples" / "ray_serve.py"
TEXTS = ["a fine film", "dull", "so fine"]


def ask(port: int, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.headers.get_content_type() == "application/json" else {}
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SERVE, reason="needs pip install 'structattn[serve]'")
def test_replicas_answer_as_the_model_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vocabulary = sa.Vocabulary(["dull", "fine", "film"])
    encoder = sa.encoders.build("disan", vocab_size=len(vocabulary), dim=8)
    model = sa.tasks.SentenceModel(encoder, sa.tasks.SENTIMENT, vocabulary=vocabulary).eval()
    model.save_pretrained(tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "model"), "--replicas", "2", "--port", str(port)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 180
        while True:
            try:
                status, reply = ask(port, "/predict", {"texts": TEXTS})
                if status == 200:
                    break
            except OSError:
                pass
            assert process.poll() is None, "the example has ended"
            assert time.monotonic() < until, "nothing answers"
            time.sleep(0.5)
        expected = [answer_to_json(prediction) for prediction in model.predict(TEXTS)]
        for served, local in zip(reply["predictions"], expected, strict=True):
            assert served["probabilities"] == pytest.approx(local["probabilities"], abs=1e-5)
        assert ask(port, "/parse", {"texts": ["Kids wash."]})[1]["texts"][0][0]["heads"] == [2, 0, 2]
        assert ask(port, "/predict", {"texts": []})[0] == 400
        assert ask(port, "/nowhere", {"texts": TEXTS})[0] == 404
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
