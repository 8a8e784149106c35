"""Rollout -> named reward terms -> total (paper, section 3.3). Light: no torch, Ray, verl or vLLM."""

from rewards.compute import compute_reward
from rewards.presets import PRESETS, RewardPreset
from rewards.types import TERM_NAMES, RewardBreakdown, RewardTerm, RewardWeights
from rewards.verdict import JudgeVerdict

__all__ = [
    "PRESETS",
    "TERM_NAMES",
    "JudgeVerdict",
    "RewardBreakdown",
    "RewardPreset",
    "RewardTerm",
    "RewardWeights",
    "compute_reward",
]
