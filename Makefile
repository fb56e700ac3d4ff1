# The commands people type. `make run` and `make test` do all set-up on a fresh machine.
LESSON_LANG ?= en
LESSON ?= 01
WORKERS ?= 2
VENV ?= .venv
export LESSON_LANG WORKERS VENV
# What is not compiled yet would be compiled again by every process that a lesson starts.
unexport PYTHONDONTWRITEBYTECODE

PY := $(VENV)/bin/python
DIST ?= worksteal
JOBS ?= 2
.PHONY: run test quick pictures catalogs english units record-answers site serve jupyterlab app lint environment \
	update-lock offline extract update build check

run: environment  ## execute a lesson: make run LESSON_LANG=ko LESSON=01 WORKERS=4
	@$(PY) -m tools.lessons.run --lesson $(LESSON) --lang $(LESSON_LANG)

.PHONY: assignments grade slides release test-latest
SUBMISSIONS ?= submissions
assignments: environment  ## exercises for a class: make assignments LESSON_LANG=es; see docs/TEACHING.md
	@$(PY) -m tools.teaching.course release --lang $(LESSON_LANG)

grade: environment  ## mark a folder of submissions: make grade LESSON_LANG=es SUBMISSIONS=submissions
	@$(PY) -m tools.teaching.course grade --lang $(LESSON_LANG) "$(SUBMISSIONS)"

slides: environment  ## slides of the lessons: make slides LESSON_LANG=es LESSONS="01 10"; see docs/COURSE.md
	@$(PY) -m tools.teaching.slides $(LESSONS) --lang $(LESSON_LANG) $(if $(DEST),--output "$(DEST)")

test: environment  ## what must hold after every change; tests/README.md has the lanes
	@$(MAKE) --no-print-directory --jobs=3 $(SYNC) lint catalogs english
	@$(PY) -m pytest -n $(JOBS) --dist $(DIST) --durations=30

# macOS has make 3.81, which prints what three jobs say as it comes.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync)
quick: environment  ## for someone who changed a line: style, types, imports, catalogs, English, units
	@$(MAKE) --no-print-directory --jobs=3 $(SYNC) lint catalogs english units

catalogs: environment
	@$(PY) -m tools.l10n check

english: environment  ## at most as many findings as tools/english/baseline.csv allows; CONTRIBUTING.md
	@$(PY) -m tools.english check

units: environment
	@$(PY) -m pytest -q --lane=unit

# The lanes: tests/support/lanes.py lists them, tests/README.md describes them. SMOKE=1 runs the short
# form of those that have one.
SHORT := $(if $(SMOKE),--smoke)
PARALLEL := grading answers benchmarks faults programs training
SERIAL := browser slow soak degraded slurm docker
HELPERS := $(filter-out tests/l10n/% tests/benchmarks/% tests/project/% tests/lessons/test_colab.py \
	tests/lessons/test_lessons.py, $(wildcard tests/*/test_*.py))
WHOLE := --lane=main --lane=grading --lane=answers --lane=faults --lane=keras_3 --lane=programs --lane=training
RUN_LESSONS := tests/lessons/test_lessons.py
.PHONY: $(addprefix test-,$(PARALLEL) $(SERIAL) lessons keras-3 colab tf215 python ray jupyterhub release site)

$(addprefix test-,$(PARALLEL)): test-%: environment
	@$(PY) -m pytest -n $(JOBS) --dist $(DIST) --lane=$* $(SHORT)

$(addprefix test-,$(SERIAL)): test-%: environment
	@$(PY) -m pytest --lane=$* $(if $(filter browser,$*),,$(SHORT))

test-keras-3: environment
	@$(PY) -m pytest -n $(JOBS) --dist $(DIST) --lane=keras_3

# All lessons but the first, or some: make test-lessons LESSONS="en-05 ko-07"
ONE_LESSON := $(RUN_LESSONS)::test_the_lesson_runs_and_prints_what_is_stored
test-lessons: environment
	@$(PY) -m pytest -n $(JOBS) --dist $(DIST) \
		$(if $(LESSONS),--lane=all $(foreach lesson,$(LESSONS),"$(ONE_LESSON)[$(lesson)]"),--lane=lessons)

record-answers: environment  ## what wrong answers do, for make test: tests/exercises/recorded
	@$(PY) -m pytest --lane=answers --record tests/exercises

# Those below have their own environments beside .venv.
test-colab:
	@PYTHON_VERSIONS=3.12 PIP_CONSTRAINT=tests/lessons/colab.txt VENV=.venv-colab ./environment.sh
	@.venv-colab/bin/python -m pytest -n $(JOBS) --lane=english $(SHORT) $(RUN_LESSONS)
	@.venv-colab/bin/python -m pytest -n $(JOBS) tests/estimator
	@.venv-colab/bin/python -m pytest --lane=browser $(SHORT)
	@.venv-colab/bin/python -m pytest --lane=colab $(SHORT)

TF215 := tests/estimator/tf215.txt
test-tf215: environment
	@PYTHON_VERSIONS="3.11 3.10" PIP_CONSTRAINT=$(TF215) VENV=.venv-tf215 ./environment.sh
	@.venv-tf215/bin/python -m pytest -n $(JOBS) --lane=english $(SHORT) $(RUN_LESSONS)
	@.venv-tf215/bin/python -m pytest -n $(JOBS) $(WHOLE) $(if $(SMOKE),tests/estimator,$(HELPERS))
	@$(PY) -m benchmarks.compatibility --python .venv-tf215/bin/python --python $(PY) \
		--output .venv-tf215/compatibility

PYTHON_VERSION ?= 3.10
test-python:
	@PYTHON_VERSIONS=$(PYTHON_VERSION) VENV=.venv-$(PYTHON_VERSION) ./environment.sh
	@.venv-$(PYTHON_VERSION)/bin/python -m pytest -n $(JOBS) $(WHOLE) $(RUN_LESSONS) $(HELPERS)

test-ray:
	@EXTRAS=test,ray VENV=.venv-ray ./environment.sh
	@.venv-ray/bin/python -m pytest --lane=ray $(SHORT)

test-jupyterhub:
	@EXTRAS=test,jupyterhub VENV=.venv-jupyterhub ./environment.sh
	@[ -d .venv-jupyterhub/proxy ] || PATH="$$PWD/.venv-jupyterhub/bin:$$PATH" npm install --silent --no-fund --no-audit \
		--prefix .venv-jupyterhub/proxy configurable-http-proxy@5.3.0
	@.venv-jupyterhub/bin/python -m pytest --lane=jupyterhub $(SHORT)

test-release:
	@EXTRAS=test,release VENV=.venv-release ./environment.sh
	@.venv-release/bin/python -m pytest --lane=release tests/project tests/l10n

test-site:
	@EXTRAS=site VENV=.venv-site ./environment.sh
	@[ -d .venv-site/lighthouse ] || PATH="$$PWD/.venv-site/bin:$$PATH" npm install --silent --no-fund --no-audit \
		--prefix .venv-site/lighthouse lighthouse@12.8.2
	@.venv-site/bin/python -m pytest --lane=site $(SHORT)

site:  ## the course as a web site, into .artefacts/site
	@EXTRAS=site VENV=.venv-site ./environment.sh
	@.venv-site/bin/python -m tools.site build

serve:  ## show the site on this machine: make serve PORT=8000
	@EXTRAS=site VENV=.venv-site ./environment.sh
	@.venv-site/bin/python -m tools.site serve --port $(or $(PORT),0)

pictures: environment  ## figures and stored pictures, in five languages, light and dark; the README's
	@$(PY) -m tools.check_figures
	@$(PY) -m tools.screenshots

jupyterlab: environment  ## open JupyterLab on the lessons of a language
	@$(PY) -m jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=notebooks/$(LESSON_LANG) \
		$$([ "$$(id -u)" -ne 0 ] || echo --ServerApp.allow_root=True)

# A page that was left leaves its kernel (Voila's farewell to it is refused, 403): it goes soon after.
CULL := --MappingKernelManager.cull_interval=20 --MappingKernelManager.cull_idle_timeout=60
app: environment  ## the panel alone, as a page: make app LESSON_LANG=ko, or ?lang=ko behind its address
	@$(PY) -m voila --Voila.ip=127.0.0.1 $(CULL) notebooks/panel.ipynb

lint: environment
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-cache --no-logo

environment:
	@./environment.sh

# Names, versions and hashes, of each supported Python; environment.sh installs them.
update-lock: environment  ## the newest versions that pyproject.toml admits, into locks/
	@for version in 3.10 3.11 3.12 3.13; do \
		$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version $$version \
			--extra test --generate-hashes --no-emit-index-url --no-header --no-annotate \
			--output-file locks/$$version.txt pyproject.toml || exit 1; \
	done

offline: environment  ## every package into offline/, for a room without internet; docs/TEACHING.md
	@version=$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		$(PY) -m pip download --quiet --no-deps --no-build-isolation --require-hashes \
			--dest "$(or $(DEST),offline)/$$version" -r locks/$$version.txt && \
		du -sh "$(or $(DEST),offline)/$$version"

release: environment  ## wheel, sdist, site, offline bundle and checksums into .artefacts/release
	@$(PY) -m tools.release build

SUITES ?=
test-latest: environment  ## what breaks with the newest packages: make test-latest LESSONS=01 SUITES=none
	@$(PY) -m tools.test_latest_deps $(if $(LESSONS),--lessons $(LESSONS)) $(if $(SUITES),--suites $(SUITES))

extract update build check: environment  ## translations; see locales/TRANSLATING.md
	@$(PY) -m tools.l10n $@
