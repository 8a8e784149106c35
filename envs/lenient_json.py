"""A forgiving reader for the small JSON objects that language models write.

Strict JSON is tried first. What fails is read again with the slips that do not change the meaning: code fences,
full-width quotes, colons, commas and braces, single quotes, trailing commas, a missing closing brace at the very end.
One pass, linear time.
"""

from __future__ import annotations

import json
import re

_FENCE_HEAD = re.compile(r"```[A-Za-z_]{0,16}")
_OPENERS = {'"': '"”“＂', "“": '”"“', "”": '”"', "＂": '＂"', "'": "'’", "‘": "’'‘", "’": "’'"}
_COLONS, _COMMAS, _OPEN_BRACES, _CLOSE_BRACES = ":：", ",，", "{｛", "}｝"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MAX_DEPTH = 3
_KEY_WITHOUT_COMMA = re.compile(r"""["'“”‘’＂]\s{0,9}["'“‘”’＂][A-Za-z_]{1,20}["'“”‘’＂]\s{0,9}[:：]""")


def strip_fence(text: str) -> str:
    """The inside of a Markdown code fence, or the text itself; outer white space removed."""
    text = text.strip()
    head = _FENCE_HEAD.match(text)
    if head is None or not text.endswith("```") or len(text) < head.end() + 3:
        return text
    return text[head.end() : -3].strip()


def read_object(text: str) -> dict[str, object]:
    """Read one JSON object, strictly if possible and forgivingly if not.

    Raises:
        ValueError: it is no object even when harmless slips are forgiven; the text says what was expected where.
    """
    text = strip_fence(text)
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        value = _Scanner(text).document()
    if not isinstance(value, dict):
        raise ValueError("不是一个 JSON 对象")
    return value


class _Scanner:
    """Recursive descent over objects of at most three levels; every position is visited a bounded number of times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> dict[str, object]:
        value = self.object(depth=1)
        self.blank()
        if self.at < len(self.text):
            raise ValueError(f"第 {self.at + 1} 个字符之后有多余内容")
        return value

    def object(self, depth: int) -> dict[str, object]:
        self.expect(_OPEN_BRACES, "{")
        found: dict[str, object] = {}
        while not self.accept(_CLOSE_BRACES):
            if self.at >= len(self.text) and found:
                return found  # the closing brace at the very end is missing: nothing else can be meant
            key = self.string(_COLONS)
            self.expect(_COLONS, ":")
            found[key] = self.value(depth)
            if not self.accept(_COMMAS) and self.peek() not in _CLOSE_BRACES:
                raise ValueError(f"第 {self.at + 1} 个字符处应为逗号")
        return found

    def value(self, depth: int) -> object:
        ch = self.peek()
        if ch and ch in _OPEN_BRACES:
            if depth >= _MAX_DEPTH:
                raise ValueError("嵌套过深")
            return self.object(depth + 1)
        if ch in _OPENERS:
            return self.string(_COMMAS + _CLOSE_BRACES)
        return self.bare()

    def string(self, followers: str) -> str:
        """A quoted string; a quote closes it only where a follower or the end comes next, so inner quotes survive."""
        closers = _OPENERS.get(self.peek())
        if closers is None:
            raise ValueError(f"第 {self.at + 1} 个字符处应为引号")
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            ch = self.text[self.at]
            if ch == "\\":
                parts.append(self.escape())
            elif ch in closers and self.closes(followers):
                self.at += 1
                return "".join(parts)
            elif ch in closers and _KEY_WITHOUT_COMMA.match(self.text, self.at):
                raise ValueError(f"第 {self.at + 2} 个字符处缺少逗号")
            else:
                parts.append(ch)
                self.at += 1
        raise ValueError("引号没有闭合")

    def closes(self, followers: str) -> bool:
        end = self.at + 1
        while end < len(self.text) and self.text[end].isspace():
            end += 1
        return end >= len(self.text) or self.text[end] in followers

    def escape(self) -> str:
        code = self.text[self.at + 1 : self.at + 2]
        if code == "u":
            digits = self.text[self.at + 2 : self.at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ValueError("\\u 之后应为四位十六进制数")
            self.at += 6
            return chr(int(digits, 16))
        self.at += 2
        return _ESCAPES.get(code, code)

    def bare(self) -> object:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _COMMAS + _CLOSE_BRACES:
            self.at += 1
        word = self.text[start : self.at].strip()
        try:
            return json.loads(word)
        except (ValueError, RecursionError):
            raise ValueError(f"第 {start + 1} 个字符处的值没有引号") from None

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.blank()
        return self.text[self.at : self.at + 1]

    def accept(self, chars: str) -> bool:
        ch = self.peek()
        hit = bool(ch) and ch in chars
        self.at += hit
        return hit

    def expect(self, chars: str, name: str) -> None:
        if not self.accept(chars):
            raise ValueError(f"第 {self.at + 1} 个字符处应为 {name}")
