"""Who plays the Lawyer: the policy protocol and the two policies that need no model on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.tokens import Dialogue
from envs.types import Completion


@dataclass(frozen=True, slots=True)
class Budget:
    """What one turn may cost."""

    max_tokens: int
    turn: int = 0
    forced: bool = False
    """True for the one turn that must be an answer."""
    deadline_s: float = 60.0
    """Seconds left to the rollout."""


class Policy(Protocol):
    """Writes the Lawyer's next turn.

    Token policies continue `dialogue.token_ids` (a `TokenDialogue`) and return the sampled ids with the end-of-turn token;
    text policies read `dialogue.messages` and return text only.

    Raises:
        envs.errors.PolicyError: the policy could not be asked.
    """

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion: ...


class ScriptedPolicy:
    """Plays given turns in order, for tests and demonstrations; the last turn repeats when the script is over."""

    def __init__(self, turns: Sequence[str | Completion]) -> None:
        if not turns:
            raise ValueError("a scripted policy needs at least one turn")
        self.turns = [turn if isinstance(turn, Completion) else Completion(text=turn) for turn in turns]
        self.budgets: list[Budget] = []

    async def act(self, dialogue: Dialogue, budget: Budget) -> Completion:
        self.budgets.append(budget)
        return self.turns[min(len(self.budgets), len(self.turns)) - 1]
