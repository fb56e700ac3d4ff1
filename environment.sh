#!/bin/sh
# Creates .venv with everything that the lessons and the tests need, or explains why it cannot.
#
#   ./environment.sh            uses the first Python 3.12, 3.13, 3.11 or 3.10 it finds
#   PYTHON=/path ./environment.sh
#   PYTHON_VERSIONS=3.11 ./environment.sh    that version, wherever it is found, for a new environment
#   VENV=.venv311 ./environment.sh    another folder, to keep several environments
#   PIP_CONSTRAINT=file ./environment.sh    these versions instead of the locked ones
#   EXTRAS=test,ray ./environment.sh    these optional dependencies of pyproject.toml (default: test)
#   INSTALLER=pip ./environment.sh    without uv, although uv is several times as fast
#
# The versions come from locks/<Python>.txt (make update-lock). If there is a folder offline/ (make
# offline), packages are installed only from there.
set -u
cd "$(dirname "$0")" || exit 1
: "${VENV:=.venv}" "${EXTRAS:=test}" "${INSTALLER:=uv}"

say() { printf '%s\n' "$*" >&2; }
# On Debian and Ubuntu, Python has venv, but an environment also needs ensurepip, from a separate package.
suits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && printf '%s' "$PYTHON"
        return
    fi
    # An existing environment keeps its Python.
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
        "Install one and specify it: make PYTHON=/path/to/python3.12 run"
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
    say "Not enough disk space: the environment needs about $NEEDED_MB MB, and $free MB are free in" \
        "$(pwd). Free some space, or clone to another disk."
    exit 1
fi
wheels=offline/$version
if [ -d offline ] && [ ! -d "$wheels" ]; then
    only='' run=Run
    for folder in offline/*/; do
        [ -d "$folder" ] || continue # the pattern itself, if nothing matches
        only="${only:-, only for} $(basename "$folder")"
        run="Use one of these Python versions (PYTHON=/path/to/it), or run"
    done
    say "The folder offline holds no packages for Python $version$only." \
        "$run make offline with Python $version on a machine with internet access, or remove the" \
        "folder to install from the internet."
    exit 1
fi

say "Creating $VENV with $("$python" --version) (a few minutes the first time) ..."
log=$(mktemp "${TMPDIR:-/tmp}/environment.XXXXXX")
# Python takes longer to install pip into an environment than uv takes to install everything. So if this
# Python has a pip that can install into another environment (22.3), that pip is used first. The
# environment's pip is then installed with the other packages.
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
    say "Python could not create $VENV: $(grep '[^[:space:]]' "$log" | tail -n 1) (full log: $log)"
    exit 1
fi

if [ -d "$wheels" ]; then
    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$wheels"
else
    wheels=
    # uv does not read pip's settings.
    index=${PIP_INDEX_URL:-$(pip config get global.index-url 2>/dev/null)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    [ -z "${PIP_EXTRA_INDEX_URL:-}" ] || export UV_INDEX="${UV_INDEX:-$PIP_EXTRA_INDEX_URL}"
    [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
fi
# An installed uv, or one in the environment, otherwise pip.
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
        # The pip of Python 3.10 takes ten minutes to resolve versions, and a current one takes seconds.
        [ -n "$uv" ] || { pip install --upgrade pip && bare=; } && install -e ".[$EXTRAS]"
    fi
}
if ! install_all >"$log" 2>&1; then
    reason=$(grep -iE '^ERROR|^error|No space left|error:|×' "$log" | tail -n 1)
    if grep -qiE 'NewConnectionError|from versions: none|Temporary failure in name|Network is unreachable|ConnectTimeout|Connection refused|ProxyError|error sending request|tcp connect error|dns error|network was disabled' "$log"; then
        say "The packages cannot be downloaded: no package index responds. Connect this machine to the" \
            "internet for the installation, or point pip at a local index (PIP_INDEX_URL)." \
            "Afterwards the lessons need no network."
    elif grep -qiE 'No space left' "$log"; then
        say "The disk became full during the installation. Free some space and try again."
    else
        say "The packages could not be installed."
    fi
    say "The installer's last error: ${reason:-none} (full log: $log)"
    exit 1
fi
rm -f "$log"
# The imports of lesson 1 are compiled now, on two cores. The other two thirds are compiled when they are
# first imported.
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
