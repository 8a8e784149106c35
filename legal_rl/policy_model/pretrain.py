"""Pretraining of the tiny policy on reading exercises: a plain PyTorch loop, bounded in steps and time, resumable.

    pretrain(model, tokenizer, texts, settings, work_dir) -> PretrainReport(steps=…, tokens=…, loss=…)

Batches are a function of (seed, step), so a run that was killed goes on exactly where its last checkpoint was.
Losses are weighted per token: what must be copied counts fully, the context a little. Metrics go to
`pretrain.jsonl`, one line each `log_steps`."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legal_rl.errors import ModelError
from legal_rl.policy_model.exercises import Exercise, ExerciseMaker
from legal_rl.policy_model.settings import PolicySettings
from legal_rl.policy_model.tokenizer import END_OF_TEXT

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

METRICS_FILE = "pretrain.jsonl"
CHECKPOINT_FILE = "pretrain_checkpoint.pt"
_MAX_MISSES = 2
"""A batch is full when this many exercises found no place."""
_HOPELESS = 200


@dataclass
class PretrainState:
    """What a checkpoint holds beside weights and optimizer."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = float("nan")
    copy_accuracy: float = float("nan")
    """Share of the fully weighted tokens of the last batch that were predicted right."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one length: `ids_BT`, `weights_BT` (weight of predicting the token there from those before it)."""

    ids_BT: torch.Tensor
    weights_BT: torch.Tensor


def encode(tokenizer: PreTrainedTokenizerFast, exercise: Exercise) -> tuple[list[int], list[float]]:
    """Token ids and loss weights of an exercise."""
    text = "".join(segment.text for segment in exercise)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ends, position = [], 0
    for segment in exercise:
        position += len(segment.text)
        ends.append(position)
    weights, at = [], 0
    for start, _ in encoded["offset_mapping"]:
        while start >= ends[at]:
            at += 1
        weights.append(exercise[at].weight)
    return encoded["input_ids"], weights


def plain_words(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The vocabulary's entries of Chinese characters only, in the order of their ids."""
    words = (str(tokenizer.decode([index])) for index in range(len(tokenizer)))
    return [word for word in words if word and all("一" <= character <= "鿿" for character in word)]


def make_batch(maker: ExerciseMaker, tokenizer: PreTrainedTokenizerFast, settings: PolicySettings, step: int) -> Batch:
    """The batch of a step: whole exercises packed into rows, first fit; the rest of a row is padding of weight 0."""
    import torch

    maker.rng.seed(f"{settings.seed}/{step}")
    count, length = max(1, settings.tokens_per_step // settings.max_length), settings.max_length
    rows: list[tuple[list[int], list[float]]] = [([], []) for _ in range(count)]
    misses = 0
    while misses < _MAX_MISSES or not any(ids for ids, _ in rows):
        if misses > _HOPELESS:
            raise ModelError(f"policy.max_length: {length} tokens are too few for an exercise")
        ids, weights = encode(tokenizer, maker.make())
        row = next((row for row in rows if len(row[0]) + len(ids) <= length), None)
        if row is None:
            misses += 1
            continue
        row[0].extend(ids)
        row[1].extend(weights)
    longest = max(len(ids) for ids, _ in rows)
    padding = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    ids_BT = torch.tensor([ids + [padding] * (longest - len(ids)) for ids, _ in rows])
    weights_BT = torch.tensor([weights + [0.0] * (longest - len(weights)) for _, weights in rows])
    return Batch(ids_BT, weights_BT)


def learning_rate(settings: PolicySettings, step: int, progress: float) -> float:
    """Linear warm-up, constant, then a cosine to a tenth over the last 40 %."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    decay = max(0.0, (progress - 0.6) / 0.4)
    return settings.learning_rate * warm * (0.55 + 0.45 * math.cos(math.pi * min(1.0, decay)))


def weighted_loss(model: Qwen3ForCausalLM, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, share of the fully weighted tokens predicted right); logits are made only where a weight is."""
    import torch
    import torch.nn.functional as F

    targets_BT, weights_BT = batch.ids_BT[:, 1:], batch.weights_BT[:, 1:]
    chosen_BT = weights_BT > 0
    hidden_BTH = model.model(input_ids=batch.ids_BT, use_cache=False).last_hidden_state[:, :-1]
    logits_NV = model.lm_head(hidden_BTH[chosen_BT]).float()
    targets_N, weights_N = targets_BT[chosen_BT], weights_BT[chosen_BT]
    losses_N = F.cross_entropy(logits_NV, targets_N, reduction="none")
    copied_N = weights_N >= 1.0
    with torch.no_grad():
        right = (logits_NV[copied_N].argmax(-1) == targets_N[copied_N]).float().sum() / copied_N.sum().clamp(min=1)
    return (losses_N * weights_N).sum() / weights_N.sum(), right


def pretrain(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    settings: PolicySettings,
    work_dir: Path,
) -> PretrainState:
    """Train `model` in place.

    Args:
        texts: article texts of the train part only.
        work_dir: receives the metrics and the checkpoint; an existing checkpoint of the same settings is gone on from.

    Raises:
        ModelError: the loss became NaN.
    """
    import torch

    threads = settings.threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    maker = ExerciseMaker(
        texts, settings.seed, plain_words(tokenizer), settings.nonsense_share, settings.context_weight
    )
    optimizer = make_optimizer(model, settings)
    state = load_checkpoint(work_dir, model, optimizer, settings)
    model.train()
    with _progress_bar() as bar:
        task = bar.add_task("pretraining", total=1.0, completed=progress_of(settings, state))
        while (progress := progress_of(settings, state)) < 1.0:
            started = time.monotonic()
            maker.progress = progress
            batch = make_batch(maker, tokenizer, settings, state.step)
            train_step(model, optimizer, batch, settings, state, progress)
            state.step += 1
            state.tokens += batch.ids_BT.numel()
            state.seconds += time.monotonic() - started
            bar.update(task, completed=progress, description=f"pretraining: copied right {state.copy_accuracy:.0%}")
            after_step(work_dir, model, optimizer, settings, state)
    return state


def progress_of(settings: PolicySettings, state: PretrainState) -> float:
    """Share of the training that is done: by steps or by time, whichever is further."""
    by_steps = state.step / settings.steps if settings.steps else 1.0
    by_time = state.seconds / (60 * settings.minutes) if settings.minutes else 0.0
    return min(1.0, max(by_steps, by_time))


def make_optimizer(model: Qwen3ForCausalLM, settings: PolicySettings) -> torch.optim.AdamW:
    """AdamW; no decay on norms and on the embedding, which is the output layer too."""
    import torch

    named = list(model.named_parameters())
    embedding = [p for name, p in named if "embed" in name]
    matrices = [p for name, p in named if p.dim() == 2 and "embed" not in name]
    gains = [p for name, p in named if p.dim() != 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay, "factor": 1.0},
        {"params": gains, "weight_decay": 0.0, "factor": 1.0},
        {"params": embedding, "weight_decay": 0.0, "factor": settings.embedding_rate_factor},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, settings.beta2), fused=True)


def train_step(
    model: Qwen3ForCausalLM,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    settings: PolicySettings,
    state: PretrainState,
    progress: float,
) -> None:
    """One update; stores loss and accuracy in `state`."""
    import torch

    for group in optimizer.param_groups:
        group["lr"] = group["factor"] * learning_rate(settings, state.step, progress)
    with torch.autocast("cpu", torch.bfloat16, enabled=uses_bfloat16(settings.precision)):
        loss, right = weighted_loss(model, batch)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    state.loss, state.copy_accuracy = loss.item(), right.item()
    if not math.isfinite(state.loss):
        raise ModelError(f"pretraining: loss is {state.loss} at step {state.step}; lower policy.learning_rate")


@cache
def uses_bfloat16(precision: str) -> bool:
    """True for `bfloat16`, and for `auto` on a CPU with instructions for it (AVX512-BF16 or AMX)."""
    import torch

    if precision != "auto":
        return precision == "bfloat16"
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def after_step(
    work_dir: Path,
    model: Qwen3ForCausalLM,
    optimizer: torch.optim.Optimizer,
    settings: PolicySettings,
    state: PretrainState,
) -> None:
    """Metrics and checkpoint, when due."""
    if state.step % settings.log_steps == 0:
        with (work_dir / METRICS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(state)) + "\n")
    if settings.checkpoint_steps and state.step % settings.checkpoint_steps == 0:
        save_checkpoint(work_dir, model, optimizer, settings, state)


def save_checkpoint(
    work_dir: Path,
    model: Qwen3ForCausalLM,
    optimizer: torch.optim.Optimizer,
    settings: PolicySettings,
    state: PretrainState,
) -> None:
    """Write weights, optimizer and state under a temporary name, then rename."""
    import torch

    payload = {
        "settings": settings.model_dump_json(),
        "state": asdict(state),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    temporary = work_dir / (CHECKPOINT_FILE + ".tmp")
    torch.save(payload, temporary)
    os.replace(temporary, work_dir / CHECKPOINT_FILE)


def load_checkpoint(
    work_dir: Path, model: Qwen3ForCausalLM, optimizer: torch.optim.Optimizer, settings: PolicySettings
) -> PretrainState:
    """Fill model and optimizer from the checkpoint; a fresh state when there is none or it has other settings."""
    import torch

    work_dir.mkdir(parents=True, exist_ok=True)
    path = work_dir / CHECKPOINT_FILE
    payload: dict[str, Any] | None = torch.load(path, weights_only=True) if path.is_file() else None
    if payload is None or payload["settings"] != settings.model_dump_json():
        (work_dir / METRICS_FILE).unlink(missing_ok=True)
        return PretrainState()
    model.load_state_dict(payload["model"])
    optimizer.load_state_dict(payload["optimizer"])
    return PretrainState(**payload["state"])


def _progress_bar() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn()
    )
