"""Makes the tiny policy: tokenizer, Qwen3 with random weights, pretraining, one Hugging Face folder.

    build_policy(PolicySettings(), texts, protocol_samples, Path("runs/quickstart/policy"))

The folder loads in transformers (`AutoModelForCausalLM`) and in vLLM like any other Qwen3.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from legal_rl.policy_model.initialise import initialise_for_copying
from legal_rl.policy_model.pretrain import METRICS_FILE, PretrainState, pretrain
from legal_rl.policy_model.settings import PolicySettings
from legal_rl.policy_model.tokenizer import END_OF_TEXT, IM_END, train_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


def build_policy(
    settings: PolicySettings, texts: Iterable[str], protocol_samples: Iterable[str], out_dir: Path
) -> PretrainState:
    """Build the policy into `out_dir`, which appears only when it is complete.

    Args:
        settings: shape and pretraining; `steps=0` gives random weights.
        texts: article texts of the train part only, nothing of the held-out laws.
        protocol_samples: messages of training trajectories; only the tokenizer sees them.
        out_dir: the Hugging Face folder to make; replaced when it exists.

    Raises:
        ModelError: the pretraining diverged.
    """
    texts = list(texts)
    work_dir = out_dir.with_name(out_dir.name + ".work")
    tokenizer = train_tokenizer(texts, protocol_samples, settings.vocab_size)
    model = new_model(settings, tokenizer)
    state = pretrain(model, tokenizer, texts, settings, work_dir)
    save_policy(model, tokenizer, out_dir, extra_files=[work_dir / METRICS_FILE])
    shutil.rmtree(work_dir)
    return state


def new_model(settings: PolicySettings, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights, a function of the seed and the shape."""
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    vocabulary = tokenizer.get_vocab()
    eos, pad = vocabulary[IM_END], vocabulary[END_OF_TEXT]
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.ffn_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=settings.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": settings.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=pad,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(settings.seed)
        model = Qwen3ForCausalLM(config)
        if settings.copying_start:
            initialise_for_copying(model, settings.seed)
    model.generation_config = GenerationConfig(
        eos_token_id=[eos, pad], pad_token_id=pad, do_sample=True, temperature=1.0
    )
    return model


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums are rounded alike on every machine only when one thread makes them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def save_policy(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out_dir: Path, extra_files: Sequence[Path] = ()
) -> None:
    """Write the folder under a temporary name, then rename it into place."""
    temporary = out_dir.with_name(out_dir.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    for file in extra_files:
        if file.is_file():
            shutil.copy(file, temporary / file.name)
    shutil.rmtree(out_dir, ignore_errors=True)
    os.replace(temporary, out_dir)
