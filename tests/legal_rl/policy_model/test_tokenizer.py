"""The tokenizer: lossless, the same tokens everywhere, Qwen's chat form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.tokens import TokenDialogue, record_from_messages
from envs.types import Completion, Provenance
from legal_rl.policy_model.tokenizer import IM_END, PROTOCOL_TAGS, load_tokenizer, train_tokenizer

MESSAGES = [
    {"role": "system", "content": "你是律师，先检索法律依据，再作答。"},
    {"role": "user", "content": "刑法第二百六十四条写了什么？"},
    {
        "role": "assistant",
        "content": '<think>\n查\n</think>\n\n<search>{"source": "statute", "query": "刑法"}</search>',
    },
    {"role": "tool", "content": "<information>\n[1] a 《刑法》第一条\n为了惩罚犯罪。\n</information>"},
    {"role": "assistant", "content": "<think>\n写道\n</think>\n\n<answer>为了惩罚犯罪</answer>"},
]


@pytest.fixture(scope="module")
def tokenizer(texts, samples):
    return train_tokenizer(texts, samples, 700)


def test_has_qwens_special_tokens_and_the_vocabulary_bound(tokenizer):
    assert tokenizer.eos_token == IM_END
    assert tokenizer.pad_token == "<|endoftext|>"
    assert len(tokenizer) <= 700
    assert len(tokenizer("<|im_start|>", add_special_tokens=False)["input_ids"]) == 1


@pytest.mark.parametrize("tag", [f"<{slash}{tag}>" for tag in PROTOCOL_TAGS for slash in ("", "/")])
def test_each_protocol_tag_is_one_token_that_decodes_as_text(tokenizer, tag):
    ids = tokenizer(tag, add_special_tokens=False)["input_ids"]
    assert len(ids) == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == tag


@pytest.mark.parametrize(
    "text", ["盗窃公私财物，数额较大的", "😀 emoji\n\n两行\t制表", '{"query": "刑法"}', "  空格  ", "ａ１全角", ""]
)
def test_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60))
def test_round_trip_of_any_text(tokenizer, text):
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("before", ["请写出", "《", "{", "依照", "\n"])
@pytest.mark.parametrize("after", ["的内容", "》", '"}', "，处", "\n"])
def test_an_article_number_has_the_same_tokens_everywhere(tokenizer, before, after):
    label = tokenizer("第二百六十四条", add_special_tokens=False)["input_ids"]
    around = tokenizer(f"{before}第二百六十四条{after}", add_special_tokens=False)["input_ids"]
    assert len(label) == 7
    assert any(around[i : i + 7] == label for i in range(len(around)))


def test_saved_tokenizer_is_the_same(tokenizer, tmp_path: Path):
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.apply_chat_template(MESSAGES, tokenize=False) == tokenizer.apply_chat_template(
        MESSAGES, tokenize=False
    )
    assert loaded("第二百六十四条\n😀")["input_ids"] == tokenizer("第二百六十四条\n😀")["input_ids"]


def test_record_of_messages_equals_the_chat_template(tokenizer):
    whole = tokenizer.apply_chat_template(MESSAGES, tokenize=True, return_dict=False)
    record = record_from_messages(tokenizer, MESSAGES)
    newline = tokenizer("\n", add_special_tokens=False)["input_ids"]
    assert [*record.token_ids, *newline] == list(whole)


def test_dialogue_of_sampled_tokens_equals_the_record_of_messages(tokenizer):
    dialogue = TokenDialogue(tokenizer, MESSAGES[:2])
    for turn, (said, heard) in enumerate([(MESSAGES[2], MESSAGES[3]), (MESSAGES[4], None)]):
        ids = tokenizer(said["content"] + IM_END, add_special_tokens=False)["input_ids"]
        dialogue.add_policy(Completion(text=said["content"], token_ids=tuple(ids)), turn)
        if heard:
            dialogue.add_environment(heard["content"], turn)
    record = record_from_messages(tokenizer, MESSAGES)
    assert dialogue.record().token_ids == record.token_ids
    assert {Provenance.PROMPT, Provenance.POLICY, Provenance.ENVIRONMENT} == {Provenance(p) for p in record.provenance}


def test_training_is_deterministic(tokenizer, texts, samples):
    assert train_tokenizer(texts, samples, 700).get_vocab() == tokenizer.get_vocab()
