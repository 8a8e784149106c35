"""A first guess for the attention heads that lets copying begin at once.

Copying from the context needs heads of two kinds that find each other: one that hands a token the tokens before it,
and one in a later layer that looks for the place where the present token was handed on. Random weights find this
pair only after millions of tokens. Here the heads of the first layer begin as "the token k places before" (through
the rotary embedding, on a constant direction of the embedding), and those of the later layers compare what a token
is with what others were handed. Everything stays trainable, and the architecture is an ordinary Qwen3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM

_OFFSETS = (1, 2, 1, 2)
"""Which earlier token each head of the first layer hands on."""
_CONSTANT = 0.16
"""Size of the embedding's constant direction; the rest of a token has a norm of about 0.02 * sqrt(hidden size)."""
_SHARPNESS = 2.0
"""Start of the q and k norms' gains: attention logits reach sharpness² * sqrt(head_dim)."""
_HAND_GAIN = 0.04
"""How strongly the first layer writes the earlier token."""
_COPY_GAIN = 0.4
"""How strongly a matching head writes the token it found."""
_FAST_PAIRS = 3
"""Rotary pairs that turn fast enough to tell neighbours apart."""


def initialise_for_copying(model: Qwen3ForCausalLM, seed: int) -> None:
    """Overwrite the attention weights of a fresh model in place; the seed fixes the random projections."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = _CONSTANT
        layers: Any = model.model.layers
        reads, writes = _positional_layer(model, layers[0].self_attn, generator)
        for layer in layers[1:]:
            _matching_layer(model, layer.self_attn, reads, writes, generator)
        for layer in layers:
            layer.self_attn.q_norm.weight.fill_(_SHARPNESS)
            layer.self_attn.k_norm.weight.fill_(_SHARPNESS)


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Random orthonormal rows, as many as there can be; the rest are zero."""
    import torch

    basis = torch.zeros(rows, columns)
    count = min(rows, columns)
    basis[:count] = torch.linalg.qr(torch.randn(columns, count, generator=generator))[0].T
    return basis


def _positional_layer(
    model: Qwen3ForCausalLM, attention: Any, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """First layer: head h hands on the token `_OFFSETS[h]` before. Returns what heads read and where they write it."""
    import torch

    config: Any = model.config
    dim, hidden, heads, groups = (
        config.head_dim,
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
    )
    angles = config.rope_parameters["rope_theta"] ** (-torch.arange(0, dim, 2).float() / dim)
    pair = (torch.arange(dim // 2) < _FAST_PAIRS).float()
    reads, writes = _orthonormal(groups * dim, hidden, generator), _orthonormal(groups * dim, hidden, generator)
    reads[:, 0] = 0.0
    attention.v_proj.weight.copy_(reads)
    for head in range(groups):
        offset = _OFFSETS[head % len(_OFFSETS)]
        rows = slice(head * dim, (head + 1) * dim)
        attention.k_proj.weight[rows, 0] = torch.cat(
            [pair * torch.cos(angles * offset), pair * torch.sin(angles * offset)]
        )
    for head in range(heads):
        rows, source = slice(head * dim, (head + 1) * dim), head * groups // heads
        attention.q_proj.weight[rows, 0] = torch.cat([pair, torch.zeros(dim // 2)])
        attention.o_proj.weight[:, rows] = _HAND_GAIN * groups / heads * writes[source * dim : (source + 1) * dim].T
    return reads, writes


def _matching_layer(
    model: Qwen3ForCausalLM,
    attention: Any,
    reads: torch.Tensor,
    writes: torch.Tensor,
    generator: torch.Generator,
) -> None:
    """Later layers: queries read what the token is, keys what it was handed, on the slowly turning rotary pairs."""
    import torch

    config: Any = model.config
    dim, heads, groups = config.head_dim, config.num_attention_heads, config.num_key_value_heads
    nearest = [head for head in range(groups) if _OFFSETS[head % len(_OFFSETS)] == 1]
    rows = torch.cat([torch.arange(head * dim, (head + 1) * dim) for head in nearest])
    slow = (torch.arange(dim) % (dim // 2) >= _FAST_PAIRS).float()[:, None]
    values = _orthonormal(groups * dim, config.hidden_size, generator)
    attention.v_proj.weight.copy_(values)
    for head in range(groups):
        mix = slow * _orthonormal(dim, len(rows), generator)
        keys = slice(head * dim, (head + 1) * dim)
        attention.k_proj.weight[keys] += mix @ writes[rows]
        for query_head in range(head * heads // groups, (head + 1) * heads // groups):
            queries = slice(query_head * dim, (query_head + 1) * dim)
            attention.q_proj.weight[queries] += mix @ reads[rows]
            attention.o_proj.weight[:, queries] += _COPY_GAIN * groups / heads * values[keys].T
