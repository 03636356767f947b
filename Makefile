# `make demo` and `make test` do all the set-up themselves; they need Python 3.11+, make and Node.js 20+.

PYTHON ?= python3
PORT ?= 3000
VENV := .venv
BIN := $(VENV)/bin
# Toolchains and compiled code of the tests are kept here between runs; any folder will do.
export SVC_TEST_CACHE ?= $(CURDIR)/.svc/test-cache

.PHONY: demo install test test-tools check fast format bench bench-hello bench-reload clean

demo: install
	@echo "· serving sample-apps/pulse at http://localhost:$(PORT) (ctrl+c stops)"
	@cd sample-apps/pulse && exec "$(CURDIR)/$(BIN)/svc" dev --port "$(PORT)"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)" >&2; \
		echo "  hint: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "· making $(VENV)"
	@"$(PYTHON)" -m venv "$(VENV)" || { \
		echo "  hint: Debian and Ubuntu have venv in a package of its own: apt install python3-venv" >&2; exit 1; }
	@echo "· installing svc and what it needs, about half a minute"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable .
	@touch "$@"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "· installing what tests and checks need"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch "$@"

test: $(VENV)/.installed-dev test-tools
	@echo "· running all tests; the first run installs the js toolchain and compiles it, a few minutes"
	@"$(BIN)/pytest"

# The browser of the end-to-end test. Where it can not be installed here, that test says what to do.
test-tools:
	@if ! command -v chromium >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		echo "· installing chromium for the browser test, about a minute"; \
		apt-get update -qq >/dev/null && apt-get install -y -qq chromium >/dev/null; \
	fi

check: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format --check --quiet .
	@"$(BIN)/ruff" check --quiet .
	@"$(BIN)/mypy"
	@"$(BIN)/lint-imports" --no-cache | tail -n 3
	@"$(BIN)/pytest" -q -m "not slow"

format: $(VENV)/.installed-dev
	@"$(BIN)/ruff" format .
	@"$(BIN)/ruff" check --fix .

bench: bench-hello bench-reload

bench-hello bench-reload: bench-%: $(VENV)/.installed-dev
	@"$(BIN)/python" -m bench.$*

clean:
	@rm -rf "$(VENV)" .svc .mypy_cache .ruff_cache .pytest_cache .hypothesis dist bench-results.json
