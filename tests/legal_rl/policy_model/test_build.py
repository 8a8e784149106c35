"""The policy folder: loads, generates, is a function of its seed, and begins with heads that copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from legal_rl.policy_model.build import build_policy, new_model
from legal_rl.policy_model.settings import PolicySettings
from legal_rl.policy_model.tokenizer import load_tokenizer, train_tokenizer

torch = pytest.importorskip("torch")


def _load(folder: Path):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


def test_loads_in_transformers_and_generates(policy_dir):
    model, tokenizer = _load(policy_dir), load_tokenizer(policy_dir)
    assert model.config.model_type == "qwen3"
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "刑法第五条"}], add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    out = model.generate(prompt, max_new_tokens=5, do_sample=False)
    assert out.shape[0] == 1 and out.shape[1] > prompt.shape[1]
    assert model.generation_config.eos_token_id[0] == tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_saved_weights_are_the_trained_ones_and_tied(policy_dir, settings, texts, samples, tmp_path):
    build_policy(settings, texts, samples, tmp_path / "again")
    first, again = _load(policy_dir), _load(tmp_path / "again")
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert first.lm_head.weight is first.model.embed_tokens.weight


def test_other_seed_other_weights(settings, texts, samples):
    tokenizer = train_tokenizer(texts, samples, 700)
    one, two = (new_model(settings.model_copy(update={"seed": seed}), tokenizer) for seed in (0, 1))
    assert not torch.equal(one.model.embed_tokens.weight, two.model.embed_tokens.weight)
    again = new_model(settings, tokenizer)
    assert torch.equal(one.model.embed_tokens.weight, again.model.embed_tokens.weight)


def test_nothing_is_left_behind(policy_dir):
    assert {path.name for path in policy_dir.parent.iterdir()} == {policy_dir.name}
    assert (policy_dir / "pretrain.jsonl").is_file()


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
def test_first_layer_begins_as_previous_token_heads_and_the_second_finds_copies(texts, samples, heads, kv_heads):
    tokenizer = train_tokenizer(texts, samples, 700)
    model = new_model(PolicySettings(vocab_size=700, heads=heads, kv_heads=kv_heads, layers=2), tokenizer)
    model.config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(0)
    half = torch.stack([torch.randperm(len(tokenizer), generator=generator)[:20] for _ in range(8)])
    with torch.no_grad():
        first, second = model(torch.cat([half, half], 1), output_attentions=True).attentions
    places = torch.arange(20, 39)
    assert first[:, 0, places, places - 1].mean() > 0.8
    assert second[:, 0, places, places - 19].mean() > 0.2
    plain = new_model(PolicySettings(vocab_size=700, layers=2, copying_start=False), tokenizer)
    plain.config._attn_implementation = "eager"
    with torch.no_grad():
        attention = plain(torch.cat([half, half], 1), output_attentions=True).attentions[0]
    assert attention[:, 0, places, places - 1].mean() < 0.1


@pytest.mark.slow
def test_loads_in_vllm_with_the_same_greedy_tokens(policy_dir):
    """In a process of its own: vLLM's CPU workers outlive their caller otherwise."""
    import subprocess
    import sys

    script = """
import sys
from vllm import LLM, SamplingParams
llm = LLM(model=sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=256, disable_log_stats=True)
sampling = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
out = llm.generate([{"prompt_token_ids": [1, 40, 41, 42, 43, 44]}], sampling)
print("TOKENS", *out[0].outputs[0].token_ids)
"""
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(policy_dir)], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tokens = [int(t) for t in done.stdout.split("TOKENS")[1].split()]
    prompt = torch.tensor([[1, 40, 41, 42, 43, 44]])
    out = _load(policy_dir).generate(prompt, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert out[0, 6:].tolist()[:1] == tokens[:1]
