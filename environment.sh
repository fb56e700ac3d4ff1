#!/bin/sh
# Makes .venv with everything the lessons and the tests need, or says in a sentence why it cannot.
#
#   ./environment.sh            uses the first Python 3.12, 3.13, 3.11 or 3.10 it finds
#   PYTHON=/path ./environment.sh
#   PYTHON_VERSIONS=3.11 ./environment.sh    that version, wherever it is found, for a new environment
#   VENV=.venv311 ./environment.sh    another folder, so that several stand side by side
#   PIP_CONSTRAINT=file ./environment.sh    the versions to keep to, instead of the locked ones
#   EXTRAS=test,ray ./environment.sh    which of pyproject.toml's optional dependencies; else test
#   INSTALLER=pip ./environment.sh    without uv, which is several times as fast
#
# The versions are those of locks/<Python>.txt (make update-lock). Where there is a folder offline/
# (make offline), nothing else is asked for packages.
set -u
cd "$(dirname "$0")" || exit 1
: "${VENV:=.venv}" "${EXTRAS:=test}" "${INSTALLER:=uv}"

say() { printf '%s\n' "$*" >&2; }
# Debian's and Ubuntu's Python has venv, but makes no environment without ensurepip, a package apart.
suits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && printf '%s' "$PYTHON"
        return
    fi
    # One that is there already stays with its Python.
    suits "$VENV/bin/python" && printf '%s' "$VENV/bin/python" && return
    for version in ${PYTHON_VERSIONS:-3.12 3.13 3.11 3.10 3}; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
            if suits "$candidate"; then
                printf '%s' "$candidate"
                return
            fi
        done
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    say "No suitable Python${PYTHON:+ (PYTHON=$PYTHON)}: the lessons need Python 3.10, 3.11, 3.12 or 3.13" \
        "with the modules venv and ensurepip (on Debian and Ubuntu: sudo apt install python3-venv)." \
        "Install one and say which: make PYTHON=/path/to/python3.12 run"
    exit 1
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
lock=locks/$version.txt
if [ "$EXTRAS" != test ] || [ -n "${PIP_CONSTRAINT:-}" ] || [ ! -f "$lock" ]; then lock=; fi

installed_from() {
    cat pyproject.toml ${lock:+"$lock"} ${PIP_CONSTRAINT:+"$PIP_CONSTRAINT"}
    [ "$EXTRAS" = test ] || echo "$EXTRAS"
}
stamp=$VENV/installed-from
[ -f "$stamp" ] && installed_from | cmp -s - "$stamp" && [ -x "$VENV/bin/python" ] && exit 0

free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')
if [ "$free" -lt "${NEEDED_MB:=3500}" ]; then
    say "Not enough room: the environment needs about $NEEDED_MB MB, and $free MB are free in" \
        "$(pwd). Free some space, or clone to another disk."
    exit 1
fi
wheels=offline/$version
if [ -d offline ] && [ ! -d "$wheels" ]; then
    only='' run=Run
    for folder in offline/*/; do
        [ -d "$folder" ] || continue # the pattern itself, where there is none
        only="${only:-, only for} $(basename "$folder")"
        run="Take one of these Pythons (PYTHON=/path/to/it), or run"
    done
    say "The folder offline holds no packages for Python $version$only." \
        "$run make offline with this one where there is internet; or remove the folder, to install" \
        "from the internet."
    exit 1
fi

say "Making $VENV with $("$python" --version) (a few minutes the first time) ..."
log=$(mktemp "${TMPDIR:-/tmp}/environment.XXXXXX")
# Python takes longer to put a pip into an environment than uv needs for everything; so, where Python has a
# pip that installs into another (22.3), that one begins, and the environment's own comes with the rest.
bare=--without-pip
"$python" -m pip --python "$python" --version >/dev/null 2>&1 || bare=
pip() {
    if [ -n "$bare" ]; then
        "$python" -m pip --python "$VENV/bin/python" --disable-pip-version-check "$@"
    else
        "$VENV/bin/python" -m pip --disable-pip-version-check "$@"
    fi
}
if ! "$python" -m venv $bare "$VENV" >"$log" 2>&1; then
    say "Python could not make $VENV: $(grep '[^[:space:]]' "$log" | tail -n 1) (all of it: $log)"
    exit 1
fi

if [ -d "$wheels" ]; then
    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$wheels"
else
    wheels=
    # uv does not read what pip is told.
    index=${PIP_INDEX_URL:-$(pip config get global.index-url 2>/dev/null)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    [ -z "${PIP_EXTRA_INDEX_URL:-}" ] || export UV_INDEX="${UV_INDEX:-$PIP_EXTRA_INDEX_URL}"
    [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
fi
# The uv that is there, or one in the environment; else pip.
uv=
if [ "$INSTALLER" = uv ]; then
    uv=$(command -v uv) || { pip install -q uv >"$log" 2>&1 && uv=$VENV/bin/uv; } || uv=
fi
install() {
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --python "$VENV/bin/python" \
            ${wheels:+--no-index --offline --find-links "$wheels"} \
            ${PIP_CONSTRAINT:+--constraint "$PIP_CONSTRAINT"} "$@"
    else
        pip install --no-compile "$@"
    fi
}
install_all() {
    if [ -n "$lock" ]; then
        install --no-deps --require-hashes -r "$lock" && install --no-deps --no-build-isolation -e .
    else
        # The pip that comes with Python 3.10 spends ten minutes on choosing versions; today's, seconds.
        [ -n "$uv" ] || { pip install --upgrade pip && bare=; } && install -e ".[$EXTRAS]"
    fi
}
if ! install_all >"$log" 2>&1; then
    reason=$(grep -iE '^ERROR|^error|No space left|error:|×' "$log" | tail -n 1)
    if grep -qiE 'NewConnectionError|from versions: none|Temporary failure in name|Network is unreachable|ConnectTimeout|Connection refused|ProxyError|error sending request|tcp connect error|dns error|network was disabled' "$log"; then
        say "The packages cannot be fetched: no package index answers. Connect this machine to the" \
            "internet for the installation, or point pip at a local index (PIP_INDEX_URL)." \
            "Afterwards the lessons need no network."
    elif grep -qiE 'No space left' "$log"; then
        say "The disk became full during the installation. Free some space and try again."
    else
        say "The packages could not be installed."
    fi
    say "The installer's last word: ${reason:-none} (all of it: $log)"
    exit 1
fi
rm -f "$log"
# What lesson 1 imports is compiled now, on two cores; the rest, two thirds, where it is first imported.
packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
compile_packages() {
    for package in "$@"; do
        "$VENV/bin/python" -m compileall -q -x 'site-packages/.*/tests?/' "$packages/$package"
    done >/dev/null 2>&1
}
compile_packages tensorflow &
compile_packages tf_keras tensorflow_estimator tensorflow_datasets/core numpy matplotlib IPython google PIL
wait
installed_from >"$stamp"
