"""Which held-out questions the report shows, each as every model played it.

The choice is a rule, not a taste: the first question of every family, then questions that the models judge differently,
then wrong ones of the last model, each time in the order of the question ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.records import read_rollouts
from envs.types import Rollout
from legal_rl.traces.metrics import model_label
from legal_rl.traces.run_folder import RunFolder
from legal_rl.traces.token_strip import TokenReader
from legal_rl.traces.trajectories import Scoring, Trajectory, of_rollout

EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Example:
    """One question and its trajectories: (model, label, trajectory), in the order of the models."""

    id: str
    question: str
    family: str
    played: list[tuple[str, str, Trajectory]]


Rollouts = dict[str, dict[str, Rollout]]
"""Model -> question id -> rollout."""


def pick_examples(folder: RunFolder) -> Rollouts:
    """The rollouts of the chosen questions only."""
    rollouts = {name: _by_id(path) for name, path in folder.rollout_files.items()}
    last = rollouts[list(rollouts)[-1]]
    chosen = choose(last, rollouts, Scoring.of_config(folder.config))
    return {name: {i: found[i] for i in chosen if i in found} for name, found in rollouts.items()}


def choose(last: Mapping[str, Rollout], rollouts: Rollouts, scoring: Scoring) -> list[str]:
    """Question ids by the rule above, at most `EXAMPLES`."""
    ids = sorted(last)
    families: dict[str, str] = {}
    for name in ids:
        families.setdefault(last[name].question.family, name)
    verdicts = {name: [_verdict(found.get(name), scoring) for found in rollouts.values()] for name in ids}
    differing = [name for name in ids if len(set(verdicts[name][-2:])) > 1]
    wrong = [name for name in ids if verdicts[name][-1] != "correct"]
    ordered = [*families.values(), *_spread(differing)[:2], *_spread(wrong)[:1], *_spread(ids)]
    return list(dict.fromkeys(ordered))[:EXAMPLES]


def _spread(ids: Sequence[str]) -> list[str]:
    """Every seventh first, so that neighbours (of one family) do not crowd out the others."""
    return [name for start in range(7) for name in ids[start::7]]


def read_examples(folder: RunFolder, chosen: Rollouts) -> list[Example]:
    """The chosen questions as the page shows them."""
    scoring = Scoring.of_config(folder.config)
    readers = {name: find_tokens(path) for name, path in folder.rollout_files.items()}
    examples = []
    for name in chosen[list(chosen)[-1]]:
        played = [
            (model, model_label(model), of_rollout(found[name], scoring, readers[model]))
            for model, found in chosen.items()
            if name in found
        ]
        first = played[0][2]
        examples.append(Example(name, first.question, first.family, played))
    return examples


def find_tokens(rollouts: Path) -> TokenReader | None:
    """The tokenizer behind a rollout file of a run: all models of one run share it."""
    run_dir = rollouts.resolve().parent.parent
    for stage in ("grpo", "sft", "policy"):
        reader = TokenReader.from_folder(run_dir / stage / "model")
        if reader:
            return reader
    return None


def _by_id(path: Path) -> dict[str, Rollout]:
    return {rollout.question.id: rollout for rollout in read_rollouts(path, allow_torn_end=True)}


def _verdict(rollout: Rollout | None, scoring: Scoring) -> str:
    return of_rollout(rollout, scoring).verdict if rollout else ""
