# Fumarole: what can be done here. `make` alone lists it.

PYTHON ?= python3
export PYTHON
export UV_SYSTEM_CERTS := 1
# Without stored bytecode each process compiles what it imports: hundreds of processes in the tests, 0.4 s instead of 0.1 s each.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory
BIN := .venv/bin
COMPILED_FROM := $(wildcard src/fumarole/fastpath/*.pyx src/fumarole/fastpath/*.pxd src/fumarole/core/index.py) \
	src/fumarole/protocols/kubemq.proto
QUICK := core exchange protocols sessions cluster fastpath store config bridge
EXTRAS := fast nkeys kubemq bridge
KUBEMQ_TESTS := tests/integration/kubemq
KUBEMQ_CLIENTS := 2.4.0 3.6.0 4.1.5
MQTT_TESTS := tests/integration/mqtt
MQTT_CLIENTS := paho-mqtt aiomqtt gmqtt
WEB_TESTS := tests/integration/http
WEB_CLIENTS := aiohttp 'httpx[http2]' nats-py schemathesis 'uvicorn[standard]' websockets

.PHONY: help setup setup-pipeline setup-test run cluster pipeline test check quick pictures dist dist-test bench soak fuzz sanitize lock clean java others containers docs

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

setup: .venv/.installed ## make .venv with the fumarole command in it

setup-pipeline: setup .venv/.pipeline java ## the same, with Spark

setup-test: setup-pipeline others $(KUBEMQ_CLIENTS:%=build/kubemq/%/.installed) build/web/.installed build/web/node_modules build/console/node_modules build/mqtt/.installed build/mqtt/node_modules ## the same, with what only the tests need

run: setup ## a broker on 127.0.0.1:4222 with a live demonstration; Ctrl-C ends it
	@$(BIN)/fumarole demo

pipeline: setup-pipeline ## broker, stations, recorders, Spark job and report, the whole story; the page is build/pipeline/report.html
	@rm -rf build/pipeline
	@$(BIN)/fumarole pipeline demo --folder build/pipeline

cluster: setup ## three nodes with the demonstration spread over them; kill one and see
	@$(BIN)/fumarole demo --nodes 3

test: ## every check and every test
	@$(MAKE) -j 3 setup-test check
	@$(BIN)/pytest -q -n 2

quick: setup ## the tests that start nothing, with a fifth of the random examples: under a minute
	@$(BIN)/pytest -q -n 2 --hypothesis-profile=quick tests/test_layers.py tests/test_mirror.py $(QUICK:%=tests/%)

check: setup .venv/.pipeline ## format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/test_layers.py tests/test_mirror.py

dist: setup ## sdist and wheels, into dist; with PYTHON=python3.13 the wheel of that Python too
	@scripts/dist

dist-test: dist ## what dist has, installed in environments of its own, one for each extra, and run
	@$(BIN)/pytest -q -m dist tests/packaging

docs: setup .venv/.pipeline build/docs-env/.installed ## the documentation as a site: build/site/index.html
	@scripts/step "Gathering the pages" $(BIN)/python -m scripts.site build/docs
	@scripts/step "Building the site" build/docs-env/bin/zensical build --strict
	@echo "  build/site/index.html"

pictures: setup-test ## the pictures of the console, into docs/pictures
	@$(BIN)/python -m tests.integration.console.pictures

bench: setup-test ## every figure, measured beside its peer
	@$(BIN)/python bench/run.py

soak: setup-test containers ## for long: Spark jobs killed again and again, nodes under every fault, a bridge whose clients come and go, containers
	@$(BIN)/pytest -q -m soak tests
	@$(BIN)/python -m tests.pipeline.live.faults 20
	@$(BIN)/python -m tests.pipeline.live.alarm_faults 20
	@$(BIN)/python tests/integration/cluster/soak.py
	@$(BIN)/python -m tests.integration.bridge.churn

fuzz: setup ## random bytes against every parser and both hot paths, for long
	@$(BIN)/python tests/fuzz/run.py

sanitize: setup ## the fast path built with AddressSanitizer and UBSan, under its tests and the fuzzers
	@scripts/sanitize

lock: .venv/.packages ## choose the newest packages that pyproject.toml allows, into requirements*.lock
	@scripts/step "Choosing versions" $(BIN)/uv pip compile pyproject.toml --group dev $(EXTRAS:%=--extra %) --universal \
		--python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock" -o requirements.lock
	@scripts/step "Choosing versions for the pipeline" $(BIN)/uv pip compile pyproject.toml --group dev --group tables --extra all \
		--constraint requirements.lock --universal --python-version 3.11 --generate-hashes --upgrade --no-annotate \
		--custom-compile-command "make lock" -o requirements-pipeline.lock
	@scripts/step "Choosing versions for the documentation" $(BIN)/uv pip compile --group docs --universal \
		--python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock" -o requirements-docs.lock
	@for version in $(KUBEMQ_CLIENTS); do echo kubemq==$$version | scripts/step "Choosing versions for kubemq $$version" \
		$(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --upgrade \
		--custom-compile-command "make lock" -o $(KUBEMQ_TESTS)/requirements-$$version.lock || exit 1; done
	@printf '%s\n' $(MQTT_CLIENTS) | scripts/step "Choosing versions of MQTT clients" \
		$(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --upgrade \
		--custom-compile-command "make lock" -o $(MQTT_TESTS)/requirements.lock

	@printf '%s\n' $(WEB_CLIENTS) | scripts/step "Choosing versions of web clients" $(BIN)/uv pip compile - --universal \
		--python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock" \
		-o $(WEB_TESTS)/requirements.lock

clean: ## remove everything that was made here
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	rm -f src/fumarole/fastpath/*.so src/fumarole/protocols/*_pb2.py*
	find . -name __pycache__ -prune -exec rm -rf {} +

# Set-up in steps, each repeated only when a file it is made from has changed. Steps that do not wait for each other may
# be done side by side (make -j): two that change the same packages, here or of Debian, are not among them.

.venv/.made:
	@scripts/debian-packages build
	@scripts/step "Making .venv" $(PYTHON) -m venv .venv
	@sed -n '/^uv==/,/# via/p' requirements.lock | \
		scripts/step "Fetching uv" $(BIN)/pip install --disable-pip-version-check -r /dev/stdin
	@touch $@

.venv/.packages: requirements.lock | .venv/.made
	@scripts/step "Fetching Python packages" scripts/packages .venv requirements.lock
	@touch $@

.venv/.pipeline: requirements-pipeline.lock .venv/.packages
	@scripts/step "Fetching Spark and its companions" scripts/packages .venv requirements-pipeline.lock
	@touch $@

.venv/.installed: .venv/.packages pyproject.toml setup.py $(COMPILED_FROM)
	@scripts/step "Building fumarole" \
		$(BIN)/pip install --disable-pip-version-check --verbose --no-deps --no-build-isolation --editable .
	@sed -n 's/^ *fumarole: /  /p' build/setup/Building-fumarole.log
	@touch $@

java: | .venv/.made
	@scripts/debian-packages pipeline

others: | java
	@scripts/debian-packages test

containers: | others
	@scripts/debian-packages container

# What makes a site of the documentation.

build/docs-env/.installed: requirements-docs.lock | .venv/.packages
	@scripts/step "Making an environment for the documentation" $(BIN)/uv venv --clear --python $(BIN)/python build/docs-env
	@scripts/step "Fetching zensical and mkdocstrings" scripts/packages build/docs-env $<
	@touch $@

# Clients of MQTT, to be tried by the tests.

build/mqtt/.installed: $(MQTT_TESTS)/requirements.lock | .venv/.packages
	@scripts/step "Making an environment for MQTT clients" $(BIN)/uv venv --clear --python $(BIN)/python build/mqtt
	@scripts/step "Fetching paho-mqtt, aiomqtt and gmqtt" scripts/packages build/mqtt $<
	@touch $@

build/mqtt/node_modules: $(MQTT_TESTS)/package-lock.json | build/mqtt/.installed others
	@cp $(MQTT_TESTS)/package.json $(MQTT_TESTS)/package-lock.json build/mqtt/
	@scripts/step "Fetching mqtt.js" npm --prefix build/mqtt ci --no-audit --no-fund
	@touch $@

# What drives a browser in the tests of the console.

build/console/node_modules: tests/integration/console/package-lock.json | others
	@mkdir -p build/console && cp tests/integration/console/package.json tests/integration/console/package-lock.json build/console/
	@scripts/step "Fetching playwright-core and axe-core" npm --prefix build/console ci --no-audit --no-fund
	@touch $@

# Clients and peers of the web door, for the tests and the benchmarks.

build/web/.installed: $(WEB_TESTS)/requirements.lock | .venv/.packages
	@scripts/step "Making an environment for web clients" $(BIN)/uv venv --clear --python $(BIN)/python build/web
	@scripts/step "Fetching web clients" scripts/packages build/web $<
	@touch $@

build/web/node_modules: $(WEB_TESTS)/package-lock.json | build/web/.installed others
	@mkdir -p build/web && cp $(WEB_TESTS)/package.json $(WEB_TESTS)/package-lock.json build/web/
	@scripts/step "Fetching nats.js" npm --prefix build/web ci --no-audit --no-fund
	@touch $@

# Clients of KubeMQ, each with the packages it wants, to be tried by the tests.

build/kubemq/%/.installed: $(KUBEMQ_TESTS)/requirements-%.lock | .venv/.packages
	@scripts/step "Making an environment for kubemq $*" $(BIN)/uv venv --clear --python $(BIN)/python build/kubemq/$*
	@scripts/step "Fetching kubemq $*" scripts/packages build/kubemq/$* $<
	@touch $@
