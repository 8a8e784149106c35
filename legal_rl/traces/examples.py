"""Which held-out questions the report shows, each as every model played it.

The choice is a rule, not a taste: the first question of every family, then questions that the models judge differently,
then a wrong one of the last model, the families taking turns in the order of the question ids.
"""

from __future__ import annotations

from collections import Counter
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
    families = (folder.config.get("questions") or {}).get("families") or []
    chosen = choose(last, rollouts, Scoring.of_config(folder.config), families)
    return {name: {i: found[i] for i in chosen if i in found} for name, found in rollouts.items()}


def choose(
    last: Mapping[str, Rollout], rollouts: Rollouts, scoring: Scoring, families: Sequence[str] = ()
) -> list[str]:
    """Question ids by the rule above, at most `EXAMPLES`; `families` gives the order of the families."""
    ids = _in_turn(last, families)
    seen: dict[str, str] = {}
    for name in ids:
        seen.setdefault(last[name].question.family, name)
    firsts = list(seen.values())
    verdicts = {name: [_verdict(found.get(name), scoring) for found in rollouts.values()] for name in ids}
    rest = [name for name in ids if name not in firsts]
    differing = [name for name in rest if len(set(verdicts[name][-2:])) > 1][:2]
    wrong = [name for name in rest if verdicts[name][-1] != "correct" and name not in differing][:1]
    return list(dict.fromkeys([*firsts, *differing, *wrong, *rest]))[:EXAMPLES]


def _in_turn(rollouts: Mapping[str, Rollout], families: Sequence[str]) -> list[str]:
    """Ids so that the families take turns: all firsts, then all seconds, …"""
    places: Counter[str] = Counter()
    keyed = []
    for name in sorted(rollouts):
        family = rollouts[name].question.family
        rank = families.index(family) if family in families else len(families)
        keyed.append((places[family], rank, family, name))
        places[family] += 1
    return [name for *_, name in sorted(keyed)]


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


def opened(examples: Sequence[Example]) -> int:
    """Place of the example that is open at first: the first that the last model answers correctly after a search."""
    shown = ((place, example.played[-1][2]) for place, example in enumerate(examples) if example.played)
    return next((place for place, t in shown if t.verdict == "correct" and t.searches), 0)


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
