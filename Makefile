# Each target sets up .venv by itself; nothing else on the machine is touched.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

FAULTS := tests/faults tests/test_hostile.py tests/test_text.py tests/data/test_hostile_files.py tests/data/test_bombs.py tests/runs/test_numbers.py
# make CPU=1 demo: torch without CUDA, 190 MB in place of 2.8 GB on Linux; torch alone comes from there
CPU_TORCH := $(if $(CPU),--index-url https://download.pytorch.org/whl/cpu torch)

ORDERS := tests/operators/test_convergence.py tests/operators/test_tno.py tests/operators/test_fano.py tests/operators/test_vitno.py

.PHONY: help demo reproduce test test-kernels test-pages test-slow test-faults orders house words walk package docs pictures lint format benchmark clean

help:           ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## */\t/' | sort

demo: $(VENV)/installed            ## train a TNO on Lorenz 63 and write runs/demo/report.html (about three minutes)
	$(BIN)/operformer demo

reproduce: $(VENV)/installed       ## every table and figure of the paper at smoke scale, in runs/reproduction (a quarter of an hour on two cores)
	$(BIN)/python -m pip install --quiet --editable '.[baselines]' || echo "without neuraloperator: rows of FNO say 'not run'"
	$(BIN)/python -m paper reproduce all --out runs/reproduction

test: $(VENV)/installed-dev        ## the fast test suite (about four minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-kernels: $(VENV)/installed-dev ## the fused kernels, without a GPU in an interpreter (about a minute on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m kernels || [ $$? = 5 ]  # none, where there is no Triton

test-pages: $(VENV)/installed-dev  ## build the site, and carry out what README, docs and examples print (about two minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m pages

test-slow: $(VENV)/installed-dev   ## the checks that take minutes
	$(BIN)/python -m pytest -m slow

test-faults: $(VENV)/installed-dev ## kill, starve, mislead and overfeed the library, and count what comes through
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'faults or not slow' $(FAULTS)

orders: $(VENV)/installed-dev      ## the observed orders of convergence, and the same operator on different grids
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -s $(ORDERS) | grep -E 'order|spread|error|passed|failed'

house: $(BIN)/python              ## rooms, edges, files, lines, functions and constructors, now and before
	$(BIN)/python .ci/house.py

words: $(BIN)/python              ## words, long sentences and listed words of every page, now and before
	$(BIN)/python .ci/words.py

walk: $(VENV)/installed            ## files entered on the way of one sample through a training, a forward pass and a prediction
	OMP_NUM_THREADS=1 $(BIN)/python .ci/walk.py

package: $(VENV)/installed-dev     ## build wheel and sdist, install the wheel by itself and run it (ten seconds)
	$(BIN)/python .ci/check_package.py

docs: $(VENV)/installed-dev        ## the documentation in site/, to be opened from there (twenty seconds)
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/python -m mkdocs build --strict
	@echo "documentation: file://$(CURDIR)/site/index.html"

pictures: $(VENV)/installed        ## the pictures of README, from a model that comes along and from the records (half a minute)
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python docs/making/pictures.py

lint: $(VENV)/installed-dev        ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev      ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/installed       ## every script under benchmarks/
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:                             ## remove the environment, what the demo wrote and the built documentation
	rm -rf $(VENV) runs site

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "operformer needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	$(if $(CPU_TORCH),$(BIN)/python -m pip install --quiet $(CPU_TORCH))
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
