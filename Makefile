# `make demo` and `make test` do all the set-up themselves; they need Python 3.11+ and make.

PYTHON ?= python3
PORT ?= 3000
VENV := .venv
BIN := $(VENV)/bin
SECONDS ?= 600
# How many processes share the tests: a number, or auto for one a processor.
WORKERS ?= auto
PYTEST = "$(BIN)/pytest" -q -n $(WORKERS) --maxprocesses 8
# Toolchains and compiled code of the tests are kept here between runs; any folder will do.
export SVC_TEST_CACHE ?= $(CURDIR)/.svc/test-cache
# What Python made of sources is kept: tests start it some hundred times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test test-tools rust-target check format pictures bench bench-hello bench-body bench-reload bench-sse bench-metering bench-fairness bench-slow bench-tables bench-crash bench-workers bench-flips bench-crash_service bench-console bench-many soak clean

# Programs in a virtual environment name its path, so a folder that was moved or copied needs a new one.
ifneq ($(shell cat '$(VENV)/.installed' 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.installed
ANEW := --clear
endif

demo: install
	@echo "· serving sample-apps/pulse at http://localhost:$(PORT) (ctrl+c stops)"
	@exec "$(BIN)/svc" -C sample-apps/pulse dev --port "$(PORT)"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)" >&2; \
		echo "  hint: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "· making $(VENV)"
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "error: $(PYTHON) comes without the modules venv and ensurepip" >&2; \
		echo "  hint: Debian and Ubuntu have them in a package of their own: apt install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(ANEW) "$(VENV)"
	@echo "· installing svc and what it needs, about half a minute"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable .
	@printf '%s\n' "$(CURDIR)" > "$@"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "· installing what tests and checks need"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch "$@"

test: $(VENV)/.installed-dev test-tools
	@echo "· running all tests; the first run installs the js and go toolchains and compiles them, a few minutes"
	@$(PYTEST) -m "not alone"
	@echo "· running those that measure, one by one"
	@"$(BIN)/pytest" -q -m alone

# The browser and the terminal of the end-to-end tests, and the target of the rust lane. Where one can not be had
# here, its tests say what to do.
test-tools: rust-target
	@if { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "· installing chromium for the browser test, about a minute"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null || \
			echo "  it could not be installed" >&2; \
	else \
		echo "· the browser test will fail: install Chromium and have it on PATH"; \
	fi
	@if command -v tmux >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "· installing tmux for the tests of the Console"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux; } >/dev/null || \
			echo "  it could not be installed" >&2; \
	else \
		echo "· the tests of the Console will fail: install tmux and have it on PATH"; \
	fi

rust-target:
	@if [ -d "$$(rustc --print target-libdir --target wasm32-wasip2 2>/dev/null)" ]; then :; \
	elif command -v apt-get >/dev/null && command -v rustc >/dev/null; then \
		tests/toolchains/rust/setup.sh "$(SVC_TEST_CACHE)/rust-toolchain" || \
			echo "  what is made in rust will fail: rustup target add wasm32-wasip2" >&2; \
	else \
		echo "· what is made in rust will fail: install Rust and run rustup target add wasm32-wasip2"; \
	fi

check: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format --check --quiet .
	@"$(BIN)/ruff" check --quiet .
	@echo "· types"
	@"$(BIN)/mypy" --no-error-summary
	@"$(BIN)/lint-imports" --no-cache --no-logo >/dev/null || { "$(BIN)/lint-imports" --no-cache; exit 1; }
	@$(PYTEST) -m "not slow"

format: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format .
	@"$(BIN)/ruff" check --fix .

bench: bench-hello bench-workers bench-many bench-body bench-reload bench-sse bench-fairness bench-slow bench-tables bench-flips

bench-hello bench-body bench-reload bench-sse bench-metering bench-fairness bench-slow bench-tables bench-crash bench-workers bench-flips bench-crash_service bench-many: bench-%: $(VENV)/.installed-dev rust-target
	@"$(BIN)/python" -m bench.$*

bench-console: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.console $(SECONDS)

# The Console's screens for the README and docs/guides/build/console.md, of the guestbook with traffic.
pictures: $(VENV)/.installed-dev rust-target
	@"$(BIN)/python" -m docs.pictures.draw

soak: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.soak $(SECONDS)

clean:
	@rm -rf "$(VENV)" .svc .mypy_cache .ruff_cache .pytest_cache .hypothesis dist bench-results.json
