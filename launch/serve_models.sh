#!/usr/bin/env bash
# The two model servers of the paper's node on its last GPU, with the shares of configs/h20_4gpu.yaml:
#   the Legal Assistant's LLM on port 8001 (0.40 of the memory), the reward judge's on port 8002 (0.50).
# Usage: launch/serve_models.sh [MODEL]      GPU=3 picks the card; Ctrl-C ends both.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-Qwen/Qwen3-8B}
export CUDA_VISIBLE_DEVICES=${GPU:-3}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

serve() { # PORT SHARE: start one server and wait until it answers; two at once would each count the other's memory
  .venv/bin/python -m vllm.entrypoints.openai.api_server --model "$model" --host 127.0.0.1 --port "$1" \
    --gpu-memory-utilization "$2" --max-model-len 32768 &
  local pid=$!
  until curl --silent --fail --output /dev/null "http://127.0.0.1:$1/health"; do
    kill -0 "$pid" 2>/dev/null || { echo "error: the model server on port $1 ended; its last lines are above" >&2; exit 1; }
    sleep 2
  done
  echo "== $model answers on http://127.0.0.1:$1/v1"
}

serve 8001 0.40
serve 8002 0.50
wait -n
