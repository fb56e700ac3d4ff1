#!/bin/sh
# Makes .venv with everything the lessons and the tests need, or says in a sentence why it cannot.
#
#   ./environment.sh            uses the first Python 3.11, 3.10, 3.12 or 3.13 it finds
#   PYTHON=/path ./environment.sh
#   PYTHON_VERSIONS=3.12 ./environment.sh    that version, wherever it is found
#   VENV=.venv312 ./environment.sh    another folder, so that several stand side by side
#   PIP_CONSTRAINT=file ./environment.sh    the versions that pip must keep to
#   EXTRAS=test,ray ./environment.sh    which of pyproject.toml's optional dependencies; else test
set -u
cd "$(dirname "$0")" || exit 1
: "${VENV:=.venv}" "${EXTRAS:=test}"

say() { printf '%s\n' "$*" >&2; }
suits() { "$1" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

# TensorFlow's own tf.estimator ends with Python 3.11, so that one comes first.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && printf '%s' "$PYTHON"
        return
    fi
    # One that is there already stays with its Python.
    suits "$VENV/bin/python" && printf '%s' "$VENV/bin/python" && return
    for version in ${PYTHON_VERSIONS:-3.11 3.10 3.12 3.13 3}; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
            if suits "$candidate"; then
                printf '%s' "$candidate"
                return
            fi
        done
    done
}

installed_from() {
    cat pyproject.toml ${PIP_CONSTRAINT:+"$PIP_CONSTRAINT"}
    [ "$EXTRAS" = test ] || echo "$EXTRAS"
}
stamp=$VENV/installed-from
[ -f "$stamp" ] && installed_from | cmp -s - "$stamp" && [ -x "$VENV/bin/python" ] && exit 0

python=$(find_python)
if [ -z "$python" ]; then
    say "No suitable Python${PYTHON:+ (PYTHON=$PYTHON)}: the lessons need Python 3.10, 3.11, 3.12 or 3.13" \
        "with the venv module. Install one and say which: make PYTHON=/path/to/python3.11 run"
    exit 1
fi
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')
if [ "$free" -lt "${NEEDED_MB:=3500}" ]; then
    say "Not enough room: the environment needs about $NEEDED_MB MB, and $free MB are free in" \
        "$(pwd). Free some space, or clone to another disk."
    exit 1
fi

say "Making $VENV with $("$python" --version) (a few minutes the first time) ..."
log=$(mktemp)
if ! "$python" -m venv "$VENV" >"$log" 2>&1; then
    say "Python could not make $VENV: $(tail -n 1 "$log") (all of it: $log)"
    exit 1
fi
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }
# The pip that comes with Python 3.10 spends ten minutes on choosing versions; today's, seconds.
if ! { pip install --upgrade pip && pip install -e ".[$EXTRAS]"; } >"$log" 2>&1; then
    reason=$(grep -E '^ERROR|No space left|error:' "$log" | tail -n 1)
    if grep -qE 'NewConnectionError|from versions: none|Temporary failure in name|Network is unreachable|ConnectTimeout|Connection refused|ProxyError' "$log"; then
        say "The packages cannot be fetched: no package index answers. Connect this machine to the" \
            "internet for the installation, or point pip at a local index (PIP_INDEX_URL)." \
            "Afterwards the lessons need no network."
    elif grep -q 'No space left' "$log"; then
        say "The disk became full during the installation. Free some space and try again."
    else
        say "pip could not install the packages."
    fi
    say "pip's last word: ${reason:-none} (all of it: $log)"
    exit 1
fi
rm -f "$log"
installed_from >"$stamp"
