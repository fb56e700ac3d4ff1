# The commands people type. `make run` and `make test` do all set-up on a fresh machine.
IN ?= en
LESSON ?= 01
WORKERS ?= 2
export IN WORKERS

PY := .venv/bin/python
.PHONY: run test test-browser lab app lint environment extract update build check

run: environment  ## execute a lesson: make run IN=ko LESSON=01 WORKERS=4
	@$(PY) -m notebooks.run --lesson $(LESSON) --language $(IN)

test: environment lint  ## everything that must hold, but for what needs a browser
	@$(PY) -m locales check
	@$(PY) -m pytest -m "not browser"

test-browser: environment  ## the panel in a real Chromium, in JupyterLab and Voila
	@$(PY) -m pytest -m browser

lab: environment  ## open JupyterLab on the lessons of a language
	@$(PY) -m jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=notebooks/$(IN)

app: environment  ## the panel alone, as a page
	@$(PY) -m voila --Voila.ip=127.0.0.1 helpers/app/panel.ipynb

lint: environment
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

environment:
	@./environment.sh

extract update build check: environment  ## translations; see locales/TRANSLATING.md
	@$(PY) -m locales $@
