"""Sampler against trainer: the log-probabilities that the sampler recorded, and those the model's weights give.

A gap means that rollouts were sampled by other weights, another precision or another chat template than the trainer
sees; importance ratios are then wrong from the first update on.

    meter = GapMeter.from_folder(Path("runs/quickstart/grpo/model"))
    meter.gaps(rollout.tokens)      # one float per policy token: recorded - recomputed
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envs.types import TokenRecord
from legal_rl.errors import ModelError


class GapMeter:
    """Recomputes log-probabilities with a model's weights in float32."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def from_folder(cls, folder: Path) -> GapMeter:
        """Load a Hugging Face folder; raises `ModelError` when it is none."""
        from legal_rl.evaluation.local_engine import check_model_dir

        check_model_dir(folder)
        import torch
        from transformers import AutoModelForCausalLM

        try:
            return cls(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval())
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"{folder}: cannot be loaded ({' '.join(str(error).split())[:200]})") from error

    def gaps(self, record: TokenRecord) -> tuple[float, ...]:
        """recorded - recomputed for every policy token, in order (nats)."""
        import torch

        with torch.inference_mode():
            logits = self._model(input_ids=torch.tensor([record.token_ids])).logits[0, :-1].float()
            chosen = torch.tensor(record.token_ids[1:])
            logprobs_T = torch.log_softmax(logits, -1).gather(1, chosen[:, None])[:, 0].tolist()
        mask = record.policy_mask
        return tuple(record.logprobs[t] - logprobs_T[t - 1] for t in range(1, len(mask)) if mask[t])
