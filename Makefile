# `make demo` and `make test` do all the set-up themselves; they need Python 3.11+ and make.

PYTHON ?= python3
PORT ?= 3000
VENV := .venv
BIN := $(VENV)/bin
SECONDS ?= 600
# Duration of `make fuzz` and `make soak`; without it, soak takes SECONDS.
HOURS ?=
SEED ?=
FAULTS ?=
# Number of test processes, or auto for one per processor.
WORKERS ?= auto
# cargo would look for the job server of make.
PYTEST = MAKEFLAGS= "$(BIN)/pytest" -q
PYTESTS = $(PYTEST) -n $(WORKERS) --maxprocesses 8
PIP = "$(BIN)/python" -m pip install --quiet --disable-pip-version-check
# uv installs in a tenth of pip's time. Where uv fails, pip installs, or prints the error.
UV = "$(BIN)/uv" pip install --quiet --python "$(BIN)/python"
ifndef UV_DEFAULT_INDEX
export UV_DEFAULT_INDEX := $(shell "$(PYTHON)" -m pip config get global.index-url 2>/dev/null)
endif
# Cache for the toolchains and compiled components of the tests. Any folder works.
export SVC_TEST_CACHE ?= $(CURDIR)/.svc/test-cache
# Tests start Python several hundred times, so bytecode files pay off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test test-all toolchains bytecode js-and-go rust-target chromium-and-tmux lint check format lines docs pictures bench bench-hello bench-body bench-reload bench-sse bench-metering bench-fairness bench-slow bench-tables bench-fleet bench-crash bench-workers bench-deploys bench-crash_service bench-console bench-many bench-fleet_service bench-tls bench-pauses bench-density bench-jobs compat soak fuzz fleet-faults backup-faults job-faults clean

# Downloads and compilations of the toolchains run at the same time.
ifneq ($(filter test test-all,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=5
endif

# Scripts in a virtual environment contain its path, so a moved or copied checkout needs a new one.
ifneq ($(shell cat '$(VENV)/.python' 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.python
CLEAR := --clear
endif

demo: install
	@echo "· serving sample-apps/pulse at http://localhost:$(PORT) (ctrl+c stops)"
	@exec "$(BIN)/svc" -C sample-apps/pulse dev --port "$(PORT)"

install: $(VENV)/.installed

$(VENV)/.python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Python 3.11 or newer is required; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)" >&2; \
		echo "  hint: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "· creating $(VENV)"
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "error: $(PYTHON) has no venv or ensurepip module" >&2; \
		echo "  hint: on Debian and Ubuntu, run: apt install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(CLEAR) "$(VENV)"
	@$(PIP) --no-compile uv || true
	@printf '%s\n' "$(CURDIR)" > "$@"

$(VENV)/.installed: $(VENV)/.python pyproject.toml
	@echo "· installing svc and its dependencies"
	@$(UV) --editable . 2>/dev/null || $(PIP) --editable .
	@touch "$@"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "· installing the development tools"
	@$(UV) --editable '.[dev]' 2>/dev/null || $(PIP) --editable '.[dev]'
	@touch "$@"

# `test-all` also runs the long tests of what rarely changes.
test test-all: toolchains bytecode
	@echo "· running the tests"
	@$(PYTESTS) -m "not alone$(if $(filter test,$@), and not nightly)"
	@echo "· running the tests that measure, one by one"
	@$(PYTEST) -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

# What the tests need besides Python packages. Where a part cannot be installed, the tests that need it are skipped or
# fail, and say so.
toolchains: chromium-and-tmux rust-target js-and-go

# Collecting the tests stores their bytecode, which each test process would compile for itself.
bytecode: $(VENV)/.installed-dev
	@$(PYTEST) --collect-only >/dev/null

js-and-go: $(VENV)/.installed
	@echo "· installing the js and go toolchains for the tests, once"
	@"$(BIN)/python" -m tests.toolchains.install "$(SVC_TEST_CACHE)"

rust-target:
	@if [ -d "$$(rustc --print target-libdir --target wasm32-wasip2 2>/dev/null)" ]; then :; \
	elif command -v apt-get >/dev/null && command -v rustc >/dev/null; then \
		echo "· building the Rust target wasm32-wasip2 for the tests, once"; \
		MAKEFLAGS= tests/toolchains/rust/setup.sh "$(SVC_TEST_CACHE)/rust-toolchain" || \
			echo "  Rust tests will be skipped: run rustup target add wasm32-wasip2" >&2; \
	else \
		echo "· Rust tests will be skipped: install Rust and run rustup target add wasm32-wasip2"; \
	fi

# The browser and the terminal of the end-to-end tests, and the linter of install.sh.
chromium-and-tmux:
	@packages=; \
	{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || packages=chromium; \
	command -v tmux >/dev/null || packages="$$packages tmux"; \
	command -v shellcheck >/dev/null || packages="$$packages shellcheck"; \
	if [ -z "$$packages" ]; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "· installing $$packages for the end-to-end tests, about a minute"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$packages; } >/dev/null || \
			echo "  $$packages: installation failed" >&2; \
	else \
		echo "· end-to-end tests will fail: install $$packages and put it on PATH"; \
	fi

lint: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format --check --quiet .
	@"$(BIN)/ruff" check --quiet .
	@"$(BIN)/lint-imports" --no-cache --no-logo >/dev/null || { "$(BIN)/lint-imports" --no-cache; exit 1; }
	@echo "· types"
	@"$(BIN)/mypy" --no-error-summary

check: lint
	@$(PYTESTS) -m "not slow and not nightly"

format: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format .
	@"$(BIN)/ruff" check --fix .

# Lines and modules of the product, of which tests/size.txt has the maximum.
lines:
	@"$(PYTHON)" -m tests.support.size

bench: bench-hello bench-workers bench-many bench-body bench-reload bench-sse bench-fairness bench-slow bench-tables bench-deploys

bench-hello bench-body bench-reload bench-sse bench-metering bench-fairness bench-slow bench-tables bench-fleet bench-crash bench-workers bench-deploys bench-crash_service bench-many bench-fleet_service bench-tls: bench-%: $(VENV)/.installed-dev rust-target
	@"$(BIN)/python" -m bench.$*

# All figures of a fleet.
bench-fleet: bench-fleet_service

# Pauses after kills, TIMES (10) each.
bench-pauses: $(VENV)/.installed-dev js-and-go
	@"$(BIN)/python" -m bench.pauses $(if $(TIMES),--times $(TIMES))

bench-console: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.console $(SECONDS)

# Memory, disk, start and requests of a service with N projects.
bench-density: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.density $(N)

# Visitors beside N jobs (default: 10,000) that are due at once.
bench-jobs: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.jobs $(N)

# npm packages, frameworks and web APIs in js resources, for docs/reference/compatibility.md; modules of Go, crates, and
# components of other tools, behaviors beside wasmtime. WPT= names a checkout of the web platform tests; CASES= limits
# the run to some of the former.
compat: $(VENV)/.installed-dev chromium-and-tmux js-and-go rust-target
	@WPT='$(WPT)' "$(BIN)/python" -m bench.compat $(CASES)
	@$(if $(CASES),,$(PYTEST) tests/lanes/go/test_packages.py tests/lanes/rust/test_packages.py tests/lanes/test_component_tools.py tests/conformance/test_wasmtime.py)

# The reference pages that come from the code.
docs: $(VENV)/.installed-dev
	@"$(BIN)/python" -m docs.generate

# The Console's screens for the README and docs/guides/build/console.md, of the guestbook with traffic.
pictures: $(VENV)/.installed-dev rust-target
	@PATH="$(SVC_TEST_CACHE)/rust-toolchain/bin:$$PATH" "$(BIN)/python" -m docs.pictures.draw

soak: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.soak $(if $(HOURS),$$(awk 'BEGIN { print $(HOURS) * 3600 }'),$(SECONDS)) $(SEED)

fuzz: $(VENV)/.installed-dev
	@"$(BIN)/python" -m tests.fuzz $(or $(HOURS),1) $(SEED)

# Harms the nodes of a fleet under writes. FAULTS= names some faults; SEED= repeats a run; HOURS= chooses at random.
fleet-faults: $(VENV)/.installed-dev js-and-go rust-target
	@"$(BIN)/python" -m tests.faults $(FAULTS) $(if $(SEED),--seed $(SEED)) $(if $(HOURS),--hours $(HOURS))

# Kills a service with a backup under writes, and restores it each time. KILLS= is 500; SEED= repeats a run.
backup-faults: $(VENV)/.installed-dev js-and-go rust-target
	@"$(BIN)/python" -m tests.faults.backup_kills $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

# Kills a service while jobs are added and run. KILLS= is 1,000; SEED= repeats a run.
job-faults: $(VENV)/.installed-dev js-and-go rust-target
	@"$(BIN)/python" -m tests.faults.job_kills $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

clean:
	@rm -rf "$(VENV)" .svc .mypy_cache .ruff_cache .pytest_cache .hypothesis dist bench-results.json
