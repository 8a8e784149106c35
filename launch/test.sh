#!/usr/bin/env bash
# Run the tests with coverage of the light packages; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
exec .venv/bin/python -m pytest --cov --cov-report=term:skip-covered --cov-fail-under=90 "$@"
