"""Rollouts as they may be kept: personal data masked in every text; tokens, which spell the same text, left out."""

from __future__ import annotations

from typing import Any

from envs.records import rollout_from_dict, rollout_to_dict
from envs.types import Rollout
from legal_rl.serving.hygiene import redact


def redacted_rollout(rollout: Rollout) -> Rollout:
    """The same rollout without identity numbers, phone numbers, cards and mail addresses."""
    record = rollout_to_dict(rollout)
    record.pop("tokens", None)
    for turn in record["turns"]:
        turn["completion"] = {"text": turn["completion"]["text"]}
    return rollout_from_dict(_masked(record))


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _masked(inner) for key, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list) else value
