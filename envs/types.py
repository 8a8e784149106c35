"""Records of the multi-turn environment: one small frozen record per stage.

One sample in miniature::

    Question(id="recite-0001", text="《刑法》第二百六十四条的内容是什么？", answer="盗窃…", grader="rouge_l")
    Turn(index=0, completion=Completion(text='<think>…</think><search>{"source": "statute", …}</search>'),
         action=Statute(query="刑法第二百六十四条", …), result=SearchResult(status="ok", …),
         observation="<information>…")
    Turn(index=1, completion=Completion(text="<think>…</think><answer>盗窃公私财物…</answer>"), action=Stop(answer=…))
    Rollout(question=…, turns=(…, …), stop_reason=StopReason.ANSWER, answer="盗窃公私财物…")
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from retrieval_server.types import Evidence, SearchResult


@dataclass(frozen=True, slots=True)
class Reference:
    """The synthesised trajectory τ and what its evidence was: what R_align and R_gain compare with."""

    actions: tuple[str, ...] = ()
    """Action kinds in order, such as ("statute", "stop")."""
    evidence_ids: tuple[str, ...] = ()
    """Evidence that the answer needs (gold), not everything that was returned."""
    key_spans: tuple[str, ...] = ()
    """Articles, charges, terms, amounts and names the answer hangs on."""
    queries: tuple[str, ...] = ()

    @property
    def num_searches(self) -> int:
        return sum(kind != "stop" for kind in self.actions)


@dataclass(frozen=True, slots=True)
class Question:
    """One legal question q with its reference answer a."""

    id: str
    text: str
    answer: str
    grader: str = "exact"
    """Name of the grader in `rewards.graders` that compares an answer with `answer`."""
    family: str = ""
    split: str = ""
    choices: tuple[str, ...] = ()
    reference: Reference | None = None
    as_of: str | None = None
    """ISO date of the facts; None = law in force today."""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statute:
    """Search K_norm (action STATUTE of paper section 3.2.1)."""

    query: str
    intent: str = ""
    thought: str = ""
    kind: str = "statute"


@dataclass(frozen=True, slots=True)
class Precedent:
    """Search K_case (action PRECEDENT)."""

    query: str
    circumstances: str = ""
    charge: str = ""
    thought: str = ""
    kind: str = "precedent"


@dataclass(frozen=True, slots=True)
class Stop:
    """End of evidence seeking (action STOP) with the Lawyer's own short answer â."""

    answer: str
    thought: str = ""
    kind: str = "stop"


@dataclass(frozen=True, slots=True)
class Malformed:
    """What could not be read; `reason` is what the correction tells the policy."""

    reason: str
    kind: str = "malformed"


Action = Statute | Precedent | Stop | Malformed


class StopReason(StrEnum):
    """Why a rollout ended."""

    ANSWER = "answer"
    """The policy stopped by itself with an answer."""
    FORCED_ANSWER = "forced_answer"
    """Turns or tokens ran out; asked once more, the policy answered."""
    MAX_TURNS = "max_turns"
    """Turns ran out and the forced answer was not readable either."""
    LENGTH = "length"
    """The token budget was used up in the middle of a turn and no answer came."""
    RETRIEVAL_ERROR = "retrieval_error"
    """The Legal Assistant could not be reached: the rollout is invalid, not wrong."""
    POLICY_ERROR = "policy_error"
    """The policy's endpoint failed: invalid."""
    DEADLINE = "deadline"
    """The rollout's wall-clock deadline passed: invalid."""

    @property
    def invalid(self) -> bool:
        """True when an outage, not the policy, ended the rollout: drop it, never score it zero."""
        return self in (StopReason.RETRIEVAL_ERROR, StopReason.POLICY_ERROR, StopReason.DEADLINE)


class Provenance(IntEnum):
    """Who wrote a token."""

    PROMPT = 0
    POLICY = 1
    ENVIRONMENT = 2


@dataclass(frozen=True, slots=True)
class Completion:
    """What a policy wrote in one turn. `token_ids` and `logprobs` have one length (0 for text-only policies)."""

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: str = "stop"
    """`stop` (end-of-turn token sampled) or `length` (cut by the budget)."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion, the action read from it, and what the environment answered."""

    index: int
    completion: Completion
    action: Action
    result: SearchResult | None = None
    observation: str = ""
    """Text of the message the environment appended, empty after Stop."""
    forced: bool = False
    policy_s: float = 0.0
    tool_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The whole rollout as tokens. All four tuples have the length T; the one source of SFT mask, RL mask and viewers.

    Example: ids (5, 6 | 7, 8 | 9 | 7, 2), provenance (0, 0 | 1, 1 | 2 | 1, 1), turn (-1, -1 | 0, 0 | 0 | 1, 1);
    `policy_mask` is (0, 0, 1, 1, 0, 1, 1).
    """

    token_ids: tuple[int, ...]
    provenance: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Sampler's log-probability for policy tokens, 0.0 elsewhere."""
    turn: tuple[int, ...]
    evidence: tuple[bool, ...] = ()
    """True for environment tokens that carry retrieved evidence (the paper's m_t = 0)."""

    @property
    def prompt_length(self) -> int:
        """Number of leading prompt tokens."""
        return next((i for i, p in enumerate(self.provenance) if p != Provenance.PROMPT), len(self.provenance))

    @property
    def policy_mask(self) -> tuple[int, ...]:
        """1 for tokens the policy sampled, 0 elsewhere: the RL mask and the assistant-only SFT mask."""
        return tuple(int(p == Provenance.POLICY) for p in self.provenance)

    @property
    def literal_mask(self) -> tuple[int, ...]:
        """The paper's m_t (section 3.3): 0 for retrieved evidence, 1 otherwise, prompt included."""
        return tuple(int(not e) for e in self.evidence)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished trajectory τ̂ with its answer â."""

    question: Question
    turns: tuple[Turn, ...]
    stop_reason: StopReason
    answer: str = ""
    messages: tuple[dict[str, str], ...] = ()
    """The dialogue as chat messages (role, content), opening messages included."""
    tokens: TokenRecord | None = None
    error: str = ""
    elapsed_s: float = 0.0

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Evidence the environment inserted, in order, without repeats. The policy's own text is never evidence."""
        seen: dict[str, Evidence] = {}
        for turn in self.turns:
            for unit in turn.result.evidence if turn.result else ():
                seen.setdefault(unit.id, unit)
        return tuple(seen.values())

    @property
    def searches(self) -> tuple[Statute | Precedent, ...]:
        """The search actions in order."""
        return tuple(t.action for t in self.turns if isinstance(t.action, Statute | Precedent))

    @property
    def action_kinds(self) -> tuple[str, ...]:
        """Kinds of the well-formed and malformed actions in order."""
        return tuple(t.action.kind for t in self.turns)
