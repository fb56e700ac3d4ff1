# The commands people type. `make run` and `make test` do all set-up on a fresh machine.
IN ?= en
LESSON ?= 01
WORKERS ?= 2
export WORKERS

PY := .venv/bin/python
.PHONY: run test lab lint environment extract update build check

run: environment  ## execute a lesson: make run IN=ko LESSON=01 WORKERS=4
	@$(PY) -m notebooks.run --lesson $(LESSON) --language $(IN)

test: environment lint  ## everything that must hold
	@$(PY) -m pytest

lab: environment  ## open JupyterLab on the lessons of a language
	@$(PY) -m jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=notebooks/$(IN)

lint: environment
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

environment:
	@./environment.sh

extract update build check: environment  ## translations; see locales/TRANSLATING.md
	@$(PY) -m locales $@
