"""The widget in a real JupyterLab, in a real browser: an arc that is moved there reaches the kernel and comes back.

JupyterLab is large and in no extra; it needs no structattn of its own, only ``anywidget`` for its front end:

    python -m venv lab && lab/bin/pip install jupyterlab anywidget
    STRUCTATTN_JUPYTERLAB=lab/bin/jupyter-lab pytest tests/explorer/test_explorer_jupyterlab.py
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from explorer_pages import browser, missing
from small_models import sentence_model
from structattn.data import Vocabulary
from structattn.tasks import SENTIMENT

LAB = os.environ.get("STRUCTATTN_JUPYTERLAB") or shutil.which("jupyter-lab")
NO_LAB = None if LAB else "needs JupyterLab: STRUCTATTN_JUPYTERLAB=lab/bin/jupyter-lab"
pytestmark = pytest.mark.skipif((missing() or NO_LAB) is not None, reason=missing() or NO_LAB or "")

FIRST = """import structattn as sa
model = sa.load("model")
tree = sa.DependencyTree([2, 0, 5, 5, 2])
widget = sa.explore(model, sa.Sentence(["the", "keys", "near", "a", "cabinet"], dependency=tree))
answer, asked = widget._answers.ask, []
widget._answers.ask = lambda request: asked.append(request) or answer(request)
widget"""
SECOND = """looks = [request for request in asked if request["do"] == "look"]
print("heads:", looks[-1]["sentences"][0]["heads"])
edited = sa.Sentence(looks[-1]["sentences"][0]["words"], dependency=sa.DependencyTree([2, 0, 2, 5, 2]))
(answer,) = model.predict([edited])
print("answer:", answer.label, f"{100 * answer.probabilities[answer.label]:.1f}")"""


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab in a folder, whose kernels are this Python."""
    kernel = folder / "jupyter" / "kernels" / "here"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    environment = {
        **os.environ,
        "JUPYTER_PATH": str(folder / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={folder}"]
    command = [
        str(LAB),
        *options,
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            address = next(found[0] for line in lines if (found := re.search(r"http://127\S+token=\w+", line)))
            yield address
        finally:
            process.terminate()
            process.stderr.close()


def test_an_arc_that_is_moved_in_jupyterlab_reaches_the_kernel_and_comes_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary(["a", "cabinet", "keys", "near", "the"])
    model = sentence_model("dependency_tree_lstm", SENTIMENT, vocabulary=vocabulary, options={"dim": 12})
    model.save_pretrained(tmp_path / "model")
    cells = [nbformat.v4.new_code_cell(source) for source in (FIRST, SECOND)]
    kernel = {"kernelspec": {"name": "here", "display_name": "here", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "trees.ipynb")
    with lab(tmp_path) as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(address.replace("/lab", "/lab/tree/trees.ipynb"))
        page.locator(".jp-Notebook .jp-Cell").nth(1).wait_for(timeout=60_000)
        run_cell(page, 0)
        explorer = page.locator(".explorer:not([aria-busy])")
        explorer.wait_for(timeout=60_000)
        before = explorer.locator(".classes").inner_text()
        # By keyboard alone, with all of JupyterLab's own shortcuts around: near from cabinet to keys.
        explorer.locator(".word").nth(0).focus()
        for keys in ("ArrowRight", "Enter", "ArrowRight", "Enter"):
            page.keyboard.press(keys)
        explorer.locator("[role=status]").filter(has_text="keys → near").wait_for(timeout=30_000)
        after = explorer.locator(".classes").inner_text()
        picture(page, "edited")
        run_cell(page, 1)
        printed = page.locator(".jp-Cell").nth(1).locator(".jp-OutputArea-output").first
        printed.get_by_text("answer:").wait_for(timeout=30_000)
        text = printed.inner_text()
        picture(page, "printed")
    assert "heads: [2, 0, 2, 5, 2]" in text
    label, share = text.split("answer:")[1].split()
    assert before != after
    assert share in after
    assert label in after


def run_cell(page: Any, number: int) -> None:
    page.locator(".jp-Cell").nth(number).locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")


def picture(page: Any, name: str) -> None:
    """A screenshot, where STRUCTATTN_SCREENSHOTS names a folder."""
    folder = os.environ.get("STRUCTATTN_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"jupyterlab-{name}.png"))
