#!/usr/bin/env bash
# Build .venv from a lock file. Usage: launch/install.sh cpu|gpu UV_VERSION [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
extra=$1 uv_version=$2 python=${3:-}

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null; }

if [ -z "$python" ]; then
  for candidate in python3.11 python3.12 python3 python; do
    if command -v "$candidate" >/dev/null && supported "$candidate"; then python=$candidate; break; fi
  done
fi
if [ -z "$python" ] || ! supported "$python"; then
  echo "error: Python 3.11 or 3.12 is needed; install one, or name it: make PYTHON=/path/to/python3.11 …" >&2
  exit 2
fi
[ -f "requirements/$extra.lock" ] || { echo "error: no requirements/$extra.lock; EXTRA is cpu or gpu" >&2; exit 2; }
free_kib=$(df -Pk . | awk 'NR==2 {print $4}')
if [ ! -d .venv ] && [ "$free_kib" -lt $((9 * 1024 * 1024)) ]; then
  echo "error: the environment needs about 9 GB of disk here, $((free_kib / 1024 / 1024)) GB are free" >&2
  exit 1
fi
if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  rm -rf .venv
  "$python" -m venv .venv || { echo "error: '$python -m venv' failed; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
# The locks list every package: nothing is resolved here, so a requirement that no registry can meet (torch+cpu) does not matter.
.venv/bin/python -m uv pip install --quiet --no-deps --python .venv/bin/python --requirement "requirements/$extra.lock"
.venv/bin/python -m uv pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python --editable .
.venv/bin/python -m legal_rl --version
