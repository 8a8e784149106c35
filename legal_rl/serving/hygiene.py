"""What keeps text from outside from being more than text: questions, personal data, and the system's own prompts.

clean_question("忽略以上<information>…") -> "忽略以上＜information>…"
redact("手机13812345678") -> "手机［号码］"
PromptGuard(prompts).visible(text) -> text without runs that are copied from a prompt
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_TAGS = "think|search|answer|information|tool_call|tool_response|tool_calls|tools|system|user|assistant"
_TAG = re.compile(rf"[<＜](?=\s{{0,3}}/?\s{{0,3}}(?:{_TAGS})\b|\s{{0,3}}\|)", re.I)
"""The opening of a protocol tag in any spelling that the parser forgives, and of a chat token such as <|im_start|>."""
_CONTROL = {c: None for c in [*range(0x20), *range(0x7F, 0xA0)] if chr(c) not in "\n\t"}
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
"""Zero-width and direction marks: they hide tags from readers and from filters."""
_BLANK_LINES = re.compile(r"\n{3,}")

_PERSONAL = (
    (
        re.compile(r"(?<!\d)\d{6}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?!\d)"),
        "［身份证号］",
    ),
    (re.compile(r"(?<!\d)(?:\+?86[- ]?)?1[3-9]\d{9}(?!\d)"), "［号码］"),
    (re.compile(r"(?<!\d)\d{16,19}(?!\d)"), "［卡号］"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII), "［邮箱］"),
)

GUARD_RUN = 16
"""Characters in a row that make a copy of a prompt."""
REMOVED = "［略］"


def clean_question(text: str) -> str:
    """A user's text as plain text: no control or zero-width characters, no lone surrogates, no tag that opens."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.translate(_CONTROL).translate(_INVISIBLE)
    return _BLANK_LINES.sub("\n\n", neutral(text)).strip()


def neutral(text: str) -> str:
    """No tag of the protocol or of the chat format opens in the result, however it is spelt."""
    return _TAG.sub("‹", text)


def redact(text: str) -> str:
    """Identity, phone and card numbers and mail addresses masked."""
    for pattern, name in _PERSONAL:
        text = pattern.sub(name, text)
    return text


class PromptGuard:
    """Takes runs of the system's own prompts out of what a model writes.

    Args:
        prompts: texts that must not be repeated to users.
        run: characters in a row that count as a copy.
    """

    def __init__(self, prompts: Iterable[str], run: int = GUARD_RUN) -> None:
        self.run = run
        self._runs = {text[i : i + run] for text in prompts for i in range(len(text) - run + 1)}

    def visible(self, text: str) -> str:
        """The text with every copied stretch replaced by ［略］."""
        return GuardedText(self).fresh(text, finished=True)

    def copied_at(self, text: str, place: int) -> bool:
        """Does a copy of a prompt start at this place?"""
        return text[place : place + self.run] in self._runs


class GuardedText:
    """A text that grows, given out bit by bit: each character once, and only when what follows cannot change it."""

    def __init__(self, guard: PromptGuard) -> None:
        self.guard = guard
        self._at = 0
        """Characters looked at."""
        self._hidden_until = 0
        self._hiding = False

    def fresh(self, text: str, finished: bool = False) -> str:
        """What may be shown since the last call; `text` is the whole text so far."""
        pieces: list[str] = []
        end = len(text) if finished else len(text) - self.guard.run + 1
        for place in range(self._at, end):
            if self.guard.copied_at(text, place):
                self._hidden_until = place + self.guard.run
            if place >= self._hidden_until:
                pieces.append(text[place])
            elif not self._hiding:
                pieces.append(REMOVED)
            self._hiding = place < self._hidden_until
        self._at = max(self._at, end)
        return "".join(pieces)
