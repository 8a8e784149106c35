"""What of a turn may be shown while it is still being written.

view = TurnView(guard)
view.thought("<think>先查条文</think><sea") -> "先查条文"      # the new part since the last call
"""

from __future__ import annotations

import re

from legal_rl.serving.hygiene import GuardedText, PromptGuard

_OPEN, _CLOSE = re.compile(r"\s*<think>", re.I), re.compile(r"</think>", re.I)
_TORN_TAG = re.compile(r"</?[a-z_]{0,14}$", re.I)
_ANSWER_TAGS = re.compile(r"</?answer>", re.I)


class TurnView:
    """Hands out the growing thought of a turn, or the growing answer of a Judge, each character once."""

    def __init__(self, guard: PromptGuard) -> None:
        self._shown = GuardedText(guard)

    def thought(self, text: str, finished: bool = False) -> str:
        """New characters of the reasoning in a turn's text so far."""
        opening = _OPEN.match(text)
        closing = _CLOSE.search(text)
        if opening is None and closing is None:
            return ""  # no thought, or its opening tag was in the prompt and its end has not come
        inner = text[opening.end() if opening else 0 : closing.start() if closing else len(text)]
        return self._shown.fresh(inner if closing else _TORN_TAG.sub("", inner), finished or closing is not None)

    def answer(self, text: str, finished: bool = False) -> str:
        """New characters of a Judge's answer: its thoughts are left out."""
        return self._shown.fresh(judge_answer(text) if finished else _TORN_TAG.sub("", judge_answer(text)), finished)


def judge_answer(text: str) -> str:
    """A Judge's text without its thoughts and without answer tags; empty while it still thinks."""
    if _OPEN.match(text) or _CLOSE.search(text):
        closing = _CLOSE.search(text)
        text = text[closing.end() :] if closing else ""
    return _ANSWER_TAGS.sub("", text).lstrip()
