"""Byte-level BPE for statutes and the Lawyer's protocol, as a Hugging Face folder with Qwen3's chat rules.

A piece of text must have the same tokens wherever it stands, or a small model cannot copy it. So merges never cross
punctuation, and every character of an article number (第 二 百 六 十 四 条) is a token of its own:
刑法第二百六十四条 is spelled alike in a question, in a query and in the evidence. The protocol's tags are single
tokens, as Qwen3's own are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.tokens import QWEN3_TEMPLATE_PATH

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, IM_START, IM_END)
PROTOCOL_TAGS = ("think", "search", "answer", "information", "tool_call", "tool_response")
"""Each is two added tokens, opening and closing; not special, so they are decoded as text."""

_NUMERALS = "〇零一二三四五六七八九十百千万"
_MAX_TOKEN_BYTES = 24


def _pattern() -> str:
    """The pieces between which nothing is merged; Onigmo has no set difference `--`, so it is written as `&&[^…]`."""
    single = f"{_NUMERALS}第条之款项"
    return rf"[{single}0-9]|\n|[ -/:-~]+|[\p{{Han}}&&[^{single}]]+|[^\p{{Han}}\x00-\x7f]|[\x00-\x1f\x7f]"


def train_tokenizer(texts: Iterable[str], protocol_samples: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Learn the merges.

    Args:
        texts: statutes of the train part.
        protocol_samples: messages in the Lawyer's protocol (searches, evidence headings, questions of the train part).
        vocab_size: upper bound, special tokens and tags included.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [
            pre_tokenizers.Split(Regex(_pattern()), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    tags = _tags()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(tags),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_MAX_TOKEN_BYTES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_without_tags(texts, protocol_samples, tags), trainer)
    tokenizer.add_tokens(tags)
    return _wrap(tokenizer)


def _tags() -> list[Any]:
    from tokenizers import AddedToken

    return [
        AddedToken(f"<{slash}{tag}>", normalized=False, special=False) for tag in PROTOCOL_TAGS for slash in ("", "/")
    ]


def _without_tags(texts: Iterable[str], protocol_samples: Iterable[str], tags: list[Any]) -> Iterator[str]:
    """Tags are added tokens: no merge should be spent on them."""
    yield from texts
    for sample in protocol_samples:
        for token in (*(tag.content for tag in tags), *SPECIAL_TOKENS):
            sample = sample.replace(token, "\n")
        yield sample


def _wrap(tokenizer: Any) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[IM_START],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    wrapped.chat_template = QWEN3_TEMPLATE_PATH.read_text(encoding="utf-8")
    return wrapped


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a policy folder."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)
