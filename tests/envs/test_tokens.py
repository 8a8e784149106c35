"""Token in, token out: golden multi-turn equality with the chat template, provenance, masks."""

from __future__ import annotations

from typing import Any

import pytest

from envs.actions import TOOLS
from envs.tokens import TextDialogue, TokenDialogue, record_from_messages
from envs.types import Completion, Provenance

OPENING = [{"role": "system", "content": "你是律师。"}, {"role": "user", "content": "盗窃罪如何量刑？"}]
INFO = "<information>\n[1] law/刑法@2023-12-29#264 《刑法》第二百六十四条\n盗窃公私财物\n</information>"
SEARCH = '<search>{"source": "statute", "query": "刑法第264条"}</search>'


def qwen3_text(messages: list[dict[str, str]], thinking: bool, tools: tuple = (), prompt: bool = False) -> str:
    """Qwen3's published template written down a second time, in Python, for dialogues with one user question."""
    import json

    out, last = [], len(messages) - 1
    if tools:
        listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
        out.append(
            f"<|im_start|>system\n{messages[0]['content']}\n\n# Tools\n\nYou may call one or more functions to assist "
            "with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"
            f"<tools>{listed}\n</tools>\n\nFor each function call, return a json object with function name and "
            "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
            '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
        )
    for i, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system" and not tools:
            out.append(f"<|im_start|>system\n{content}<|im_end|>\n")
        elif role == "user":
            out.append(f"<|im_start|>user\n{content}<|im_end|>\n")
        elif role == "tool":
            head = "" if messages[i - 1]["role"] == "tool" else "<|im_start|>user"
            tail = "" if i < last and messages[i + 1]["role"] == "tool" else "<|im_end|>\n"
            out.append(f"{head}\n<tool_response>\n{content}\n</tool_response>{tail}")
        elif role == "assistant":
            reasoning = message.get("reasoning_content")
            if reasoning is None and "</think>" in content:
                reasoning = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
                content = content.split("</think>")[-1].lstrip("\n")
            reasoning = (reasoning or "").strip("\n")
            if i == last or reasoning:
                content = f"<think>\n{reasoning}\n</think>\n\n" + content.lstrip("\n")
            out.append(f"<|im_start|>assistant\n{content}<|im_end|>\n")
    if prompt:
        out.append("<|im_start|>assistant\n" + ("" if thinking else "<think>\n\n</think>\n\n"))
    return "".join(out)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def sampled(tokenizer: Any, text: str) -> Completion:
    ids = [*ids_of(tokenizer, text), tokenizer.convert_tokens_to_ids("<|im_end|>")]
    return Completion(text, tuple(ids), tuple(-0.01 * i for i in range(len(ids))))


def thinking_dialogue(tokenizer: Any, tools: tuple = ()) -> TokenDialogue:
    """Three turns in Qwen3's own think format, two tool messages at once after the second."""
    dialogue = TokenDialogue(tokenizer, OPENING, tools=tools)
    dialogue.add_policy(sampled(tokenizer, f"<think>\n缺条文\n</think>\n\n{SEARCH}"), turn=0)
    dialogue.add_environment(INFO, turn=0)
    dialogue.add_policy(sampled(tokenizer, "<think>\n再查\n</think>\n\n坏的"), turn=1)
    dialogue.add_environment_all(["格式有误。", INFO + "\n这是最后一轮。"], turn=1)
    dialogue.add_policy(sampled(tokenizer, "<think>\n够了\n</think>\n\n<answer>三年以下</answer>"), turn=2)
    return dialogue


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["tags", "tool_call"])
def test_golden_thinking_on(tokenizer: Any, tools: tuple) -> None:
    dialogue = thinking_dialogue(tokenizer, tools)
    whole = qwen3_text(dialogue.messages, thinking=True, tools=tools)
    assert tokenizer.decode(dialogue.token_ids) + "\n" == whole
    assert dialogue.token_ids == ids_of(tokenizer, whole)[: len(dialogue.token_ids)]
    # The very same ids come from the template that the tokenizer carries.
    options: dict[str, Any] = {"tools": list(tools)} if tools else {}
    rendered = tokenizer.apply_chat_template(dialogue.messages, tokenize=False, **options)
    assert rendered == whole
    # `template_messages` leaves the same ids for earlier turns, whatever their think blocks look like.
    assert tokenizer.apply_chat_template(dialogue.template_messages(), tokenize=False, **options) == whole


def test_golden_every_prompt_on_the_way(tokenizer: Any) -> None:
    """What the policy continues is the template's own generation prompt at each turn."""
    dialogue = TokenDialogue(tokenizer, OPENING)
    for turn in range(3):
        prompt = tokenizer.apply_chat_template(dialogue.messages, tokenize=False, add_generation_prompt=True)
        assert prompt == qwen3_text(dialogue.messages, thinking=True, prompt=True)
        assert dialogue.token_ids == ids_of(tokenizer, prompt)
        dialogue.add_policy(sampled(tokenizer, f"<think>\n第{turn}轮\n</think>\n\n{SEARCH}"), turn)
        dialogue.add_environment(INFO, turn)


def test_golden_thinking_off(tokenizer: Any) -> None:
    dialogue = TokenDialogue(tokenizer, OPENING, enable_thinking=False)
    assert dialogue.token_ids == ids_of(tokenizer, qwen3_text(OPENING, thinking=False, prompt=True))
    dialogue.add_policy(sampled(tokenizer, SEARCH), turn=0)
    dialogue.add_environment(INFO, turn=0)
    # Earlier turns keep the empty think block they were sampled after; the next prompt opens with a new one.
    prompt = qwen3_text(dialogue.template_messages(), thinking=False, prompt=True)
    assert dialogue.token_ids == ids_of(tokenizer, prompt)
    dialogue.add_policy(sampled(tokenizer, "<answer>三年以下</answer>"), turn=1)
    messages = dialogue.template_messages()
    whole = qwen3_text(messages, thinking=False)
    assert tokenizer.apply_chat_template(messages, tokenize=False, enable_thinking=False) == whole
    assert dialogue.token_ids == ids_of(tokenizer, whole)[: len(dialogue.token_ids)]


def test_compact_think_blocks_survive_in_earlier_turns(tokenizer: Any) -> None:
    dialogue = TokenDialogue(tokenizer, OPENING)
    dialogue.add_policy(sampled(tokenizer, f"<think>缺条文</think>{SEARCH}"), turn=0)
    dialogue.add_environment(INFO, turn=0)
    assert dialogue.token_ids == ids_of(tokenizer, qwen3_text(dialogue.template_messages(), True, prompt=True))


def test_sampled_ids_are_never_retokenised(tokenizer: Any) -> None:
    """A policy may sample ids that its own tokenizer would not choose; they stay."""
    im_end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    odd = (*ids_of(tokenizer, "盗"), *ids_of(tokenizer, "窃"), im_end)
    letters = tuple(i for ch in "<answer>" for i in ids_of(tokenizer, ch))
    dialogue = TokenDialogue(tokenizer, OPENING)
    dialogue.add_policy(Completion("<answer>盗窃", letters + odd, (-1.0,) * len(letters + odd)), turn=0)
    record = dialogue.record()
    kept = tuple(i for i, who in zip(record.token_ids, record.provenance, strict=True) if who == Provenance.POLICY)
    assert kept == letters + odd
    assert ids_of(tokenizer, "<answer>盗窃") != list(kept[:-1])


def test_truncated_turn_gets_its_end_from_the_environment(tokenizer: Any) -> None:
    dialogue = TokenDialogue(tokenizer, OPENING)
    ids = tuple(ids_of(tokenizer, '<search>{"sou'))
    size = dialogue.size("请重写")
    dialogue.add_policy(Completion('<search>{"sou', ids, (-0.5,) * len(ids), finish_reason="length"), turn=0)
    used = dialogue.used
    assert dialogue.size("请重写") == size + 1
    dialogue.add_environment("请重写", turn=0)
    assert dialogue.used == used + size + 1
    record = dialogue.record()
    end = record.prompt_length + len(ids)
    assert record.token_ids[end] == dialogue.turn_end_id
    assert record.provenance[end] == Provenance.ENVIRONMENT and record.policy_mask[end] == 0
    whole = qwen3_text(dialogue.template_messages(), thinking=True, prompt=True)
    assert list(record.token_ids) == ids_of(tokenizer, whole)


def test_masks_are_zero_on_evidence_and_one_on_actions(tokenizer: Any) -> None:
    record = thinking_dialogue(tokenizer).record()
    columns = (record.token_ids, record.provenance, record.logprobs, record.turn, record.evidence)
    assert {len(column) for column in columns} == {len(record.token_ids)}
    evidence = [i for i, flag in enumerate(record.evidence) if flag]
    assert evidence and all(record.policy_mask[i] == 0 and record.literal_mask[i] == 0 for i in evidence)
    assert all(record.logprobs[i] == 0.0 for i, who in enumerate(record.provenance) if who != Provenance.POLICY)
    by_turn = [
        tokenizer.decode(
            [t for t, n, m in zip(record.token_ids, record.turn, record.policy_mask, strict=True) if m and n == turn]
        )
        for turn in range(3)
    ]
    assert by_turn == [
        f"<think>\n缺条文\n</think>\n\n{SEARCH}<|im_end|>",
        "<think>\n再查\n</think>\n\n坏的<|im_end|>",
        "<think>\n够了\n</think>\n\n<answer>三年以下</answer><|im_end|>",
    ]
    shown = tokenizer.decode([t for t, flag in zip(record.token_ids, record.evidence, strict=True) if flag])
    # Qwen's pre-tokeniser glues a line break to the bracket before it, so that token is masked as a whole.
    assert shown == f"{INFO}\n{INFO}\n"
    # Corrections and notices are the environment's words, but no evidence: the paper's m_t keeps them.
    assert "格式有误" in tokenizer.decode(
        [t for t, p, e in zip(*columns[:2], record.evidence, strict=True) if p == Provenance.ENVIRONMENT and not e]
    )


def test_record_from_messages_equals_the_rollouts_record(tokenizer: Any) -> None:
    for tools in ((), TOOLS):
        dialogue = thinking_dialogue(tokenizer, tools)
        made, live = record_from_messages(tokenizer, dialogue.messages, tools=tools), dialogue.record()
        assert (made.token_ids, made.provenance, made.turn, made.evidence) == (
            live.token_ids, live.provenance, live.turn, live.evidence,
        )  # fmt: skip


def test_record_from_messages_with_a_last_observation(tokenizer: Any) -> None:
    messages = [*OPENING, {"role": "assistant", "content": SEARCH}, {"role": "tool", "content": INFO}]
    assert any(record_from_messages(tokenizer, messages).evidence)
    with pytest.raises(ValueError, match="no assistant"):
        record_from_messages(tokenizer, OPENING)
    with pytest.raises(ValueError, match="role 'user'"):
        record_from_messages(
            tokenizer, [*OPENING, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]
        )


def test_logprobs_must_match_the_ids(tokenizer: Any) -> None:
    dialogue = TokenDialogue(tokenizer, OPENING)
    with pytest.raises(ValueError, match="1 logprobs for 2 tokens"):
        dialogue.add_policy(Completion("x", (1, 2), (-1.0,)), turn=0)


class _Wrapped:
    """The tokenizer with another chat template."""

    def __init__(self, tokenizer: Any, rewrite) -> None:
        self.inner, self.rewrite = tokenizer, rewrite

    def __call__(self, text: str, **options: Any):
        return self.inner(text, **options)

    def decode(self, ids: Any, **options: Any) -> str:
        return self.inner.decode(ids, **options)

    def apply_chat_template(self, conversation: Any, **options: Any) -> str:
        return self.rewrite(self.inner.apply_chat_template(conversation, **options))


def test_a_template_that_rewrites_messages_masks_the_whole_message(tokenizer: Any) -> None:
    dialogue = TokenDialogue(_Wrapped(tokenizer, lambda text: text.replace("盗窃公私", "盗窃 公私")), OPENING)
    dialogue.add_policy(Completion(SEARCH), turn=0)
    dialogue.add_environment(INFO, turn=0)
    record = dialogue.record()
    assert all(e for p, e in zip(record.provenance, record.evidence, strict=True) if p == Provenance.ENVIRONMENT)


def test_a_template_without_an_end_of_turn_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="end-of-turn"):
        TokenDialogue(_Wrapped(tokenizer, lambda text: text.replace("<|im_end|>\n", "")), OPENING)


def test_text_dialogue_counts_characters() -> None:
    dialogue = TextDialogue(OPENING)
    dialogue.add_policy(Completion("一二"), 0)
    dialogue.add_environment("三", 0)
    assert dialogue.used == 3 and dialogue.size("四五") == 2
    assert [m["role"] for m in dialogue.messages] == ["system", "user", "assistant", "tool"]
