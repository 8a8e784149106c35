#!/usr/bin/env bash
# Run the tests with coverage of the light packages; arguments go to pytest.
# hypothesis draws the same examples on every run here (profile ci); plain `pytest` draws new ones.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
exec .venv/bin/python -m pytest --hypothesis-profile=ci --cov --cov-report=term:skip-covered --cov-fail-under=90 "$@"
