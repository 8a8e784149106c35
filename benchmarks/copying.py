"""How well a policy copies: share of tokens right when a sequence of uniformly random tokens is shown twice.

    python benchmarks/copying.py runs/quickstart/policy/model runs/quickstart/sft/model

Rare tokens count like frequent ones here, which is what a tiny policy fails at first: 16 sequences of 20 and of
80 tokens, seed 0, teacher forcing.
"""

from __future__ import annotations

import sys
from pathlib import Path

SEQUENCES = 16
FIRST_PLAIN_TOKEN = 3
"""Ids below it are the chat format's special tokens."""


def copy_accuracy(folder: Path, length: int) -> float:
    """Share of the second copy's tokens, its first one aside, that are the most likely ones."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    generator = torch.Generator().manual_seed(0)
    once_BT = torch.randint(FIRST_PLAIN_TOKEN, model.config.vocab_size, (SEQUENCES, length), generator=generator)
    twice_BT = torch.cat([once_BT, once_BT], dim=1)
    with torch.no_grad():
        logits_BTV = model(twice_BT).logits[:, length:-1]
    return float((logits_BTV.argmax(-1) == twice_BT[:, length + 1 :]).float().mean())


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        figures = ", ".join(f"{length} tokens {copy_accuracy(Path(name), length):.3f}" for length in (20, 80))
        print(f"{name}: {figures}")


if __name__ == "__main__":
    main()
