# make demo: three transformers trained in four minutes. make test: lint, types and all tests. Both set everything up first, once.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo test lint format clean

demo: $(INSTALLED)
	$(BIN)/transalg demo

test: $(INSTALLED) lint
	$(BIN)/pytest --numprocesses 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info trace.html demo

# Installed again only when pyproject.toml changed.
$(INSTALLED): pyproject.toml
	@echo "Setting up .venv (a few minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --upgrade "pip>=24"
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[test]"
	@touch $@
