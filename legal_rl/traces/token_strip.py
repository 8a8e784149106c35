"""The tokens of a rollout by who wrote them: prompt, policy or environment.

With the model's tokenizer every token stands alone, the policy's with their log-probabilities; without it, or for
rollouts without tokens, the same colours lie over the messages' text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.types import Provenance, Rollout, TokenRecord

WRITERS = {Provenance.PROMPT: "prompt", Provenance.POLICY: "policy", Provenance.ENVIRONMENT: "environment"}
_ROLES = {"system": "prompt", "user": "prompt", "assistant": "policy"}


@dataclass(frozen=True, slots=True)
class Piece:
    """One token, or the few that make one character; `logprob` is the sampler's, None where it sampled nothing."""

    text: str
    logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of tokens by one writer in one turn (-1 = the opening). `tokens` is False when it is plain text.

    Example: Segment("policy", 0, (Piece("<think>", -0.01), Piece("查", -0.3)), tokens=True).
    """

    writer: str
    turn: int
    pieces: tuple[Piece, ...]
    tokens: bool
    evidence: bool = False

    @property
    def text(self) -> str:
        """The segment's text."""
        return "".join(piece.text for piece in self.pieces)


class TokenReader:
    """Decodes token by token with a model's `tokenizer.json`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def from_folder(cls, folder: Path) -> TokenReader | None:
        """The tokenizer of a Hugging Face folder; None when there is none, or no library to read it."""
        file = folder / "tokenizer.json"
        if not file.is_file():
            return None
        try:
            from tokenizers import Tokenizer
        except ImportError:  # the light installation reads pages without it
            return None
        return cls(Tokenizer.from_file(str(file)))

    def pieces(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> tuple[Piece, ...]:
        """One piece per token; tokens that are parts of one character's bytes become one piece."""
        found: list[Piece] = []
        open_ids: list[int] = []
        total = 0.0
        for position, token in enumerate(ids):
            open_ids.append(token)
            total += logprobs[position] if logprobs else 0.0
            text = self._tokenizer.decode(open_ids, skip_special_tokens=False)
            if text.endswith("�") and len(open_ids) < 4 and position < len(ids) - 1:
                continue
            found.append(Piece(text, total if logprobs else None))
            open_ids, total = [], 0.0
        return tuple(found)


def segments(rollout: Rollout, reader: TokenReader | None) -> tuple[Segment, ...]:
    """The whole rollout in order."""
    if rollout.tokens is None or reader is None:
        return _message_segments(rollout)
    return tuple(_token_segments(rollout.tokens, reader))


def _token_segments(record: TokenRecord, reader: TokenReader) -> list[Segment]:
    evidence = record.evidence or (False,) * len(record.token_ids)
    keys = list(zip(record.provenance, record.turn, evidence, strict=True))
    found: list[Segment] = []
    start = 0
    for end in range(1, len(keys) + 1):
        if end < len(keys) and keys[end] == keys[start]:
            continue
        who, turn, is_evidence = keys[start]
        logprobs = record.logprobs[start:end] if who == Provenance.POLICY else None
        pieces = reader.pieces(record.token_ids[start:end], logprobs)
        found.append(Segment(WRITERS[Provenance(who)], turn, pieces, True, is_evidence))
        start = end
    return found


def _message_segments(rollout: Rollout) -> tuple[Segment, ...]:
    found, turn = [], -1
    for message in rollout.messages:
        writer = _ROLES.get(message["role"], "environment")
        turn += writer == "policy"
        pieces = (Piece(message["content"]),)
        found.append(Segment(writer, turn, pieces, False, writer == "environment"))
    return tuple(found)
