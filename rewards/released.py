"""What the paper's published code computes, quirks included, for comparison only (preset `released`).

Format terms add up to 1.0 and half of that needs a search; R_query never matches its marker and is 0; information tags
in the policy's own text count as evidence; ρ is 3e-6 per character; an outage scores zero instead of dropping the
rollout.
"""

from __future__ import annotations

import re

from envs.types import Malformed, Reference, Rollout, Stop
from rewards.gain import key_spans
from rewards.text import normalise
from rewards.types import RewardTerm

RHO_PER_CHAR = 3e-6
_INFORMATION = re.compile(r"<information>(.*?)</information>", re.DOTALL)


def fmt(rollout: Rollout) -> RewardTerm:
    """0.5 for a readable answer, and 0.5 for a search or 0.2 for none."""
    answered = sum(isinstance(turn.action, Stop) for turn in rollout.turns) == 1
    malformed = any(isinstance(turn.action, Malformed) for turn in rollout.turns)
    searching = 0.0 if malformed else 0.5 if rollout.searches else 0.2
    return RewardTerm("fmt", 0.5 * answered + searching, reason="released: pays for searching")


def gain(rollout: Rollout, reference: Reference | None) -> RewardTerm:
    """Share of key spans in everything between information tags, the policy's own included."""
    spans = (reference.key_spans if reference else ()) or key_spans(rollout.question.answer)
    if not spans:
        return RewardTerm("gain", 0.0, reason="released: no key spans", applies=False)
    texts = [message["content"] for message in rollout.messages if message["role"] != "system"]
    found = normalise("\n".join(block for text in texts for block in _INFORMATION.findall(text)))
    share = sum(normalise(span) in found for span in spans) / len(spans)
    return RewardTerm("gain", share, reason="released: reads the policy's own tags too")


def query() -> RewardTerm:
    """Always 0: the pattern looks for a marker that the environment never writes."""
    return RewardTerm("query", 0.0, reason="released: marker never written")


def rho(rollout: Rollout) -> RewardTerm:
    """3e-6 per character of the dialogue after the opening, at most 0.5; repeats are free."""
    chars = sum(len(turn.completion.text) + len(turn.observation) for turn in rollout.turns)
    return RewardTerm("rho", min(RHO_PER_CHAR * chars, 0.5), reason=f"released: {chars} characters")
