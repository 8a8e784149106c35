#!/usr/bin/env bash
# Submit a run to a Ray cluster as a Ray job, and follow its log. The nodes need this environment (requirements/gpu.lock)
# and a file system that they share for run_dir.
# Usage: launch/ray_job.sh CONFIG [section.key=value …]      ADDRESS=http://head:8265 names the cluster's dashboard.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: launch/ray_job.sh CONFIG [section.key=value …]" >&2; exit 2; }
config=$1
shift
.venv/bin/python -m legal_rl plan "$config" "$@" # what does not fit is refused here, before it waits in a queue
exec .venv/bin/python -m ray.scripts.scripts job submit --address "${ADDRESS:-http://127.0.0.1:8265}" --working-dir . \
  -- python -m legal_rl quickstart --config "$config" "$@"
