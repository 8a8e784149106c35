"""From a verl checkpoint to a Hugging Face folder that is known to load and to give the checkpoint's logits."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legal_rl.training.metrics import TrainingError

SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt$")
LOGIT_TOLERANCE = 1e-3
PROBE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Where the folder lies, and the largest logit difference to the checkpoint that was exported."""

    model_dir: Path
    max_logit_difference: float

    def __str__(self) -> str:
        return f"largest logit difference to the checkpoint {self.max_logit_difference:.2g}"


def export_checkpoint(checkpoint: Path, out: Path) -> ExportResult:
    """Writes `out` from a checkpoint folder `global_step_N` (of SFT or GRPO) and compares logits.

    Raises:
        TrainingError: no checkpoint there, or the exported model gives other logits.
    """
    source = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    if not list(source.glob("model_world_size_*_rank_*.pt")):
        raise TrainingError(f"{checkpoint}: no FSDP checkpoint (model_world_size_*_rank_*.pt)")
    temporary = out.with_name(f"{out.name}.tmp{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    if list((source / "huggingface").glob("*.safetensors")):
        shutil.copytree(source / "huggingface", temporary)
    else:
        _merge(source, temporary)
    _name_stored_dtype(temporary)
    difference = logit_difference(source, temporary)
    if not difference <= LOGIT_TOLERANCE:
        shutil.rmtree(temporary)
        raise TrainingError(f"{checkpoint}: the exported model's logits differ by {difference:.3g}; nothing written")
    shutil.rmtree(out, ignore_errors=True)
    os.replace(temporary, out)
    return ExportResult(out, difference)


STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def _name_stored_dtype(model_dir: Path) -> None:
    """Let config.json name the type the weights are stored in: loaders follow it, and verl leaves bfloat16 there."""
    import json

    from safetensors import safe_open

    file = next(iter(sorted(model_dir.glob("*.safetensors"))))
    with safe_open(str(file), "pt") as tensors:
        stored = tensors.get_slice(next(iter(tensors.keys()))).get_dtype()
    path = model_dir / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    config["dtype"] = STORED_DTYPES.get(stored, config.get("dtype"))
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


def _merge(source: Path, out: Path) -> None:
    """verl's own merger, for checkpoints that hold shards only."""
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(source), "--target_dir", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise TrainingError(f"{source}: merging failed: {done.stderr.strip().splitlines()[-1]}")


def merged_state(source: Path) -> dict[str, Any]:
    """Full tensors of a sharded FSDP2 checkpoint: shards of the ranks put together along their placement."""
    import torch

    # Shards name a device mesh of process groups that are gone; torch warns of it, and only their data is wanted.
    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)
    files = sorted(source.glob("model_world_size_*_rank_*.pt"), key=_rank)
    shards = [torch.load(file, map_location="cpu", weights_only=False) for file in files]
    return {name: _whole([shard[name] for shard in shards]) for name in shards[0]}


def _rank(file: Path) -> int:
    match = SHARD.search(file.name)
    return int(match[2]) if match else 0


def _whole(parts: list[Any]) -> Any:
    import torch

    first = parts[0]
    if not hasattr(first, "_local_tensor"):
        return first
    placement = first.placements[-1]
    local = [part._local_tensor for part in parts]
    return torch.cat(local, dim=placement.dim) if placement.is_shard() else local[0]


def logit_difference(source: Path, model_dir: Path) -> float:
    """Largest absolute difference of the logits of a few fixed tokens, checkpoint against exported folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    exported = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    config = AutoConfig.from_pretrained(model_dir)
    trained = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    trained.load_state_dict(merged_state(source), strict=False)
    trained.tie_weights()
    probe = torch.arange(1, PROBE_TOKENS + 1).unsqueeze(0) % config.vocab_size
    with torch.no_grad():
        return float((exported(probe).logits - trained(probe).logits).abs().max())
