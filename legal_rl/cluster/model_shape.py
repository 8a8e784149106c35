"""Sizes of a decoder-only transformer from its configuration: parameters, key-value cache, activations.

ModelShape.named("Qwen/Qwen3-8B").parameters        # 8,190,735,360
ModelShape.of("exported/legal-r1")                  # from its config.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legal_rl.errors import ModelError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the arithmetic needs; names as in Hugging Face's config.json."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    tied: bool
    max_positions: int = 40_960
    qk_norm: bool = True
    """Qwen3 normalises queries and keys per head; Llama and Qwen2 do not."""

    @classmethod
    def of(cls, model: str) -> ModelShape | None:
        """Of a Hugging Face folder, or of a known hub name; None for a hub name that is not known here.

        Raises:
            ModelError: the folder's config.json is missing or damaged.
        """
        folder = Path(model)
        if model and folder.is_dir():
            return cls.of_config(_read(folder / "config.json"), str(folder))
        return _KNOWN.get(model.rpartition("/")[2].removesuffix("-FP8").removesuffix("-Base"))

    @classmethod
    def named(cls, name: str) -> ModelShape:
        """Of a known model; raises `KeyError` for any other."""
        return _KNOWN[name.rpartition("/")[2]]

    @classmethod
    def of_config(cls, config: dict[str, Any], where: str) -> ModelShape:
        """Of the content of a config.json."""
        try:
            heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
            return cls(
                layers=int(config["num_hidden_layers"]),
                hidden_size=hidden,
                heads=heads,
                kv_heads=int(config.get("num_key_value_heads") or heads),
                head_dim=int(config.get("head_dim") or hidden // heads),
                ffn_size=int(config["intermediate_size"]),
                vocab_size=int(config["vocab_size"]),
                tied=bool(config.get("tie_word_embeddings", False)),
                max_positions=int(config.get("max_position_embeddings", 0)) or 2**31,
                qk_norm="qwen3" in str(config.get("model_type", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{where}: config.json lacks what a transformer's size needs ({error})") from None

    @property
    def layer_parameters(self) -> int:
        """Of one layer: attention, gated feed-forward, norms."""
        attention = self.hidden_size * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)
        return attention + 3 * self.hidden_size * self.ffn_size + norms

    @property
    def parameters(self) -> int:
        """All weights; a tied embedding counts once."""
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied else 2)
        return embeddings + self.layers * self.layer_parameters + self.hidden_size

    def kv_bytes_per_token(self, bytes_per_value: int = 2) -> int:
        """Keys and values of one token over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value

    def activation_bytes(self, tokens: int, checkpointing: bool, bytes_per_value: int = 2) -> int:
        """Peak of one micro-batch of `tokens`: kept activations, the working set of a layer, and the logits.

        With checkpointing only each layer's input is kept and one layer is alive at a time; without, all layers are.
        Per token and layer about 16 hidden and 4 feed-forward vectors are alive under FlashAttention (after
        Korthikanti et al., Reducing Activation Recomputation, section 4, attention scores not materialised). Logits and
        their gradient are float32: with vocabularies of 150,000 they are the largest part.
        """
        layer = tokens * (16 * self.hidden_size + 4 * self.ffn_size) * bytes_per_value
        kept = tokens * self.hidden_size * bytes_per_value * self.layers
        logits = 2 * tokens * self.vocab_size * 4
        return logits + (kept + layer if checkpointing else layer * self.layers)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]})") from None


def _qwen3(layers: int, hidden: int, heads: int, ffn: int, tied: bool) -> ModelShape:
    return ModelShape(layers, hidden, heads, 8, 128, ffn, 151_936, tied)


_KNOWN = {
    "Qwen3-0.6B": _qwen3(28, 1024, 16, 3072, True),
    "Qwen3-1.7B": _qwen3(28, 2048, 16, 6144, True),
    "Qwen3-4B": _qwen3(36, 2560, 32, 9728, True),
    "Qwen3-8B": _qwen3(36, 4096, 32, 12288, False),
    "Qwen3-14B": _qwen3(40, 5120, 40, 17408, False),
    "Qwen3-32B": _qwen3(64, 5120, 64, 25600, False),
}
"""The published configurations, so that a plan needs neither the hub nor the weights."""
