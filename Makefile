# Two commands: `make serve` runs edgebox as shipped, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: serve test lint types unit machine-test bench gigabit faults deb image image-test clean

serve: $(STAMP)
	$(BIN)/edgebox serve -c edgebox.toml

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not alone'
	$(BIN)/python -m pytest -m alone

# The package and its units under a real systemd; takes root and mmdebstrap, and some minutes.
machine-test: $(STAMP)
	$(BIN)/python -m pytest tests/box/machine

bench: $(STAMP)
	$(BIN)/python -m perf.bench

# Takes root, for network namespaces. PHASE is the seconds that each crowd downloads.
PHASE ?= 15
gigabit: $(STAMP)
	$(BIN)/python -m perf.gigabit --phase $(PHASE)

# Takes gcc and wrk, and root for a small disk to fill. SECONDS is for how long processes are killed.
SECONDS ?= 120
faults: $(STAMP)
	$(BIN)/python -m perf.faults --seconds $(SECONDS)

# Takes Debian's Python with its venv module. Writes build/edgebox_VERSION_ARCHITECTURE.deb.
deb:
	packaging/build-deb build

# Takes root, and what docs/appliance.md names. Writes build/edgebox.{qcow2,raw,slot}.
image:
	image/build build

# Boots what `image` built. CUTS is how often the power goes while it writes.
CUTS ?= 5
image-test:
	image/test --build build --cuts $(CUTS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
