"""Token in, token out: the dialogue as the ids that were sampled, never decoded and tokenised again.

A dialogue starts as the chat template's prompt, then grows by two kinds of segment: what the policy sampled, taken as
it is, and what the environment says, tokenised from exactly the text that the chat template puts between two turns::

    dialogue = TokenDialogue(tokenizer, [{"role": "system", …}, {"role": "user", …}])
    dialogue.add_policy(Completion(text="<search>…</search>", token_ids=(…, IM_END), logprobs=(…)), turn=0)
    dialogue.add_environment("<information>…</information>", turn=0)
    dialogue.record()   # TokenRecord: provenance, turn, logprobs, evidence flags

Segments meet at special tokens only, so for turns that end with the end-of-turn token the ids equal those of the
template over the whole conversation (`template_messages`). SFT data goes through the same code
(`record_from_messages`), so its tokens are the rollout's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envs.rendering import evidence_spans
from envs.types import Completion, Provenance, TokenRecord

QWEN3_TEMPLATE_PATH = Path(__file__).parent / "templates" / "qwen3_chat.jinja"
"""Our chat template with the rules of Qwen3's, for tokenizers that are trained here."""

TOOL_ROLE = "tool"
"""Every later message of the environment has this role, so that the question stays the last real user turn."""

_SENTINEL = "LEGALRLTURN"


class Tokenizer(Protocol):
    """The few methods used of a Hugging Face fast tokenizer."""

    def __call__(self, text: str, **options: Any) -> Mapping[str, Any]: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def decode(self, token_ids: Any, **options: Any) -> str: ...


class Dialogue(Protocol):
    """What a policy sees of a rollout, and what the rollout loop writes to."""

    messages: list[dict[str, str]]

    @property
    def used(self) -> int:
        """Tokens after the opening prompt (characters for text-only dialogues)."""
        ...

    def size(self, content: str) -> int:
        """What an environment message of this content would add to `used`."""
        ...

    def add_policy(self, completion: Completion, turn: int) -> None: ...
    def add_environment(self, content: str, turn: int) -> None: ...


class TextDialogue:
    """A dialogue for policies behind a chat endpoint: messages only. `used` counts characters."""

    def __init__(self, messages: Sequence[dict[str, str]]) -> None:
        self.messages = [dict(message) for message in messages]
        self._used = 0

    @property
    def used(self) -> int:
        return self._used

    def size(self, content: str) -> int:
        return len(content)

    def add_policy(self, completion: Completion, turn: int) -> None:
        self._append("assistant", completion.text)

    def add_environment(self, content: str, turn: int) -> None:
        self._append(TOOL_ROLE, content)

    def _append(self, role: str, content: str) -> None:
        self.messages.append({"role": role, "content": content})
        self._used += len(content)


@dataclass
class _Columns:
    """The record while it grows; four lists of one length."""

    ids: list[int] = field(default_factory=list)
    provenance: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    evidence: list[bool] = field(default_factory=list)

    def extend(
        self,
        ids: Sequence[int],
        who: Provenance,
        turn: int,
        logprobs: Sequence[float] = (),
        evidence: Sequence[bool] = (),
    ) -> None:
        count = len(ids)
        self.ids.extend(ids)
        self.provenance.extend([int(who)] * count)
        self.logprobs.extend(logprobs or [0.0] * count)
        self.turn.extend([turn] * count)
        self.evidence.extend(evidence or [False] * count)


class TokenDialogue:
    """A dialogue for policies that read and write token ids.

    Args:
        tokenizer: any Hugging Face fast tokenizer with a chat template.
        messages: the opening messages, ending with the user's question.
        enable_thinking: handed to the chat template; False puts an empty think block before every turn.
        tools: function specifications for the template's tools block (`tool_call` dialect).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[dict[str, str]],
        *,
        enable_thinking: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self.messages = [dict(message) for message in messages]
        self._options: dict[str, Any] = {"enable_thinking": enable_thinking}
        if tools:
            self._options["tools"] = list(tools)
        self._columns = _Columns()
        self._turn_end, self._turn_tail = self._end_of_turn()
        opening = self._render(self.messages, add_generation_prompt=True)
        self._turn_prefix = self._generation_prefix(opening)
        self._columns.extend(self._encode(opening), Provenance.PROMPT, turn=-1)
        self.prompt_length = len(self._columns.ids)
        self._pending: tuple[int, ...] = ()

    @property
    def token_ids(self) -> list[int]:
        """All ids so far: what the policy continues."""
        return list(self._columns.ids)

    @property
    def used(self) -> int:
        return len(self._columns.ids) - self.prompt_length

    @property
    def turn_end_id(self) -> int:
        """Id of the end-of-turn token, `<|im_end|>` for Qwen."""
        return self._turn_end

    def size(self, content: str) -> int:
        return len(self._pending) + len(self._encode(self._between([content])))

    def add_policy(self, completion: Completion, turn: int) -> None:
        """Append a turn as it was sampled. A text-only completion (a scripted teacher) is tokenised here, once."""
        ids, logprobs = list(completion.token_ids), list(completion.logprobs)
        if not ids:
            cut = completion.finish_reason == "length"
            ids = self._encode(completion.text) + ([] if cut else [self._turn_end])
        if logprobs and len(logprobs) != len(ids):
            raise ValueError(f"turn {turn}: {len(logprobs)} logprobs for {len(ids)} tokens")
        self._columns.extend(ids, Provenance.POLICY, turn, logprobs)
        ended = bool(ids) and ids[-1] == self._turn_end
        self._pending = () if ended else (self._turn_end,)
        self.messages.append({"role": "assistant", "content": completion.text})

    def add_environment(self, content: str, turn: int) -> None:
        """Append one message of the environment and open the next turn."""
        self.add_environment_all([content], turn)

    def add_environment_all(self, contents: Sequence[str], turn: int) -> None:
        """Append consecutive messages of the environment, merged into one user turn as the template does."""
        text = self._between(contents)
        ids, flags = self._encode_flagged(text, contents)
        # A turn that was cut by the token limit lacks its end: the environment supplies it, it was not sampled.
        self._columns.extend(self._pending, Provenance.ENVIRONMENT, turn)
        self._columns.extend(ids, Provenance.ENVIRONMENT, turn, evidence=flags)
        self._pending = ()
        self.messages.extend({"role": TOOL_ROLE, "content": content} for content in contents)

    def record(self) -> TokenRecord:
        """The dialogue so far as the one tokenised record."""
        c = self._columns
        return TokenRecord(tuple(c.ids), tuple(c.provenance), tuple(c.logprobs), tuple(c.turn), tuple(c.evidence))

    def template_messages(self) -> list[dict[str, str]]:
        """Messages for which the chat template itself reproduces this record's ids.

        Templates of the Qwen3 kind rebuild the think block of an earlier turn with their own newlines, and drop an
        empty one. An explicit empty `reasoning_content` makes them leave earlier turns as they are. Of the last turn
        the template always writes a think block, so that one must have Qwen3's own form to be reproduced.
        """
        messages = [dict(message) for message in self.messages]
        turns = [message for message in messages if message["role"] == "assistant"]
        for message in turns[:-1] if messages[-1]["role"] == "assistant" else turns:
            message["content"] = self._turn_prefix + message["content"]
            message["reasoning_content"] = ""
        return messages

    def _render(self, messages: Sequence[dict[str, str]], *, add_generation_prompt: bool) -> str:
        return self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=add_generation_prompt, **self._options
        )

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _encode_flagged(self, text: str, contents: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Ids of an environment segment and, for each, whether it overlaps retrieved evidence."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans, at = [], 0
        for content in contents:
            found = text.find(content, at)
            if found < 0:  # a template that rewrites the message: better too much masked than too little
                spans += [(0, len(text))] if evidence_spans(content) else []
                continue
            spans += [(found + start, found + end) for start, end in evidence_spans(content)]
            at = found + len(content)
        flags = [any(s < end and e > start for start, end in spans) for s, e in encoded["offset_mapping"]]
        return list(encoded["input_ids"]), flags

    def _between(self, contents: Iterable[str]) -> str:
        """What the template writes between the end-of-turn token of one assistant turn and the start of the next."""
        tools = [{"role": TOOL_ROLE, "content": content} for content in contents]
        text = self._render([*_SKELETON, *tools], add_generation_prompt=True)
        return text.partition(_SENTINEL)[2].removeprefix(self._turn_end_text)

    def _end_of_turn(self) -> tuple[int, str]:
        """(id of the end-of-turn token, text after it), read off the chat template."""
        tail = self._render(_SKELETON, add_generation_prompt=False).rpartition(_SENTINEL)[2]
        ids = self._encode(tail)
        if not ids:
            raise ValueError("the chat template writes nothing after an assistant turn: no end-of-turn token")
        self._turn_end_text = self.tokenizer.decode([ids[0]], skip_special_tokens=False)
        return ids[0], tail.removeprefix(self._turn_end_text)

    def _generation_prefix(self, opening: str) -> str:
        """The part of the generation prompt that is the assistant's content: an empty think block or nothing."""
        block = "<think>\n\n</think>\n\n"
        return block if opening.endswith(block) else ""


_SKELETON = ({"role": "user", "content": "?"}, {"role": "assistant", "content": _SENTINEL})


def record_from_messages(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, str]],
    *,
    enable_thinking: bool = True,
    tools: Sequence[dict[str, Any]] = (),
) -> TokenRecord:
    """Tokenise finished messages segment by segment, exactly as a rollout would have been.

    Args:
        messages: opening messages, then assistant and tool messages in turn.

    Raises:
        ValueError: no assistant message, or a role other than assistant and tool after the first one.
    """
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), None)
    if first is None:
        raise ValueError("messages hold no assistant turn")
    dialogue = TokenDialogue(tokenizer, messages[:first], enable_thinking=enable_thinking, tools=tools)
    turn, contents = -1, []
    for message in messages[first:]:
        if message["role"] == TOOL_ROLE:
            contents.append(message["content"])
            continue
        if message["role"] != "assistant":
            raise ValueError(f"role {message['role']!r} after the opening; only assistant and tool may follow")
        if contents:
            dialogue.add_environment_all(contents, turn)
        turn, contents = turn + 1, []
        dialogue.add_policy(Completion(text=message["content"]), turn)
    if contents:
        dialogue.add_environment_all(contents, turn)
    return dialogue.record()
